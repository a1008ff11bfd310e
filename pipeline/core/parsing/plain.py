"""Plain text: taken as it is."""

from __future__ import annotations

from pipeline.core.parsing.assembly import Block, assemble
from pipeline.core.parsing.encodings import read_text
from pipeline.records import Parsed


def parse_plain(body: bytes, charset: str | None) -> Parsed:
    """One section without a heading: plain text has no headings that could be told from short lines."""
    decoded = read_text(body, declared=charset)
    return assemble([Block(text=decoded.text)], encoding=decoded.encoding)
