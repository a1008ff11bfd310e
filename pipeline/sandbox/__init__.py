"""Parsing and cutting in a separate process, with limits on memory and time.

The effect of a document on a parser is not known in advance: a few kilobytes may unpack to gigabytes, a broken table
may make a C library follow a wild pointer. In a separate process the worst result is that the document is parked with a
reason.
"""
