"""Other products' interfaces to the same kernel: translation only."""
