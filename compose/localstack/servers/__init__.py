"""The servers and programs of a local stack, one module each."""
