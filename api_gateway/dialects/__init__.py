"""The same kernel in the dialects of others: translation only."""
