"""Parsing in a process of its own, with limits on memory and time.

What a document does to a parser is not known before: a few kilobytes may unpack to gigabytes, a broken table may send a
C library into a wild pointer. In a process of its own the worst that it can do is to be parked with a reason.
"""
