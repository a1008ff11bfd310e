"""Fixtures of the whole suite. What needs the real servers is in the folders' own conftest files."""
