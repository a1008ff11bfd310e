"""Keyword search: designs side by side, and a host's index of large namespaces."""
