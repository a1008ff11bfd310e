"""One file per command of ``chordwise``; what they share is in ``screen``."""
