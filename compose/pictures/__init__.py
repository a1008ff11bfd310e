"""`make pictures`: the pictures of README and docs, taken from a running stack with sample data."""
