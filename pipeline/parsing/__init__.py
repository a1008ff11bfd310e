"""Parsers: documents of several formats to text with sections. Adding a format: see `formats`."""

from pipeline.parsing.formats import Format as Format  # which installed parsers make
