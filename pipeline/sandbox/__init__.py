"""Parsing and cutting in a separate process with limits on memory and time, so that a hostile or broken document can at
worst be parked with a reason."""
