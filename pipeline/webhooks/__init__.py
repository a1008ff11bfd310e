"""Calling endpoints of others: the one place that opens connections to where a user says."""
