"""Other products on the same texts, each in a virtual environment of its own."""
