"""Formats that others bring: a parser, what its documents are called, and how it joins the registry."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass

from pipeline.records import Parsed

Parser = Callable[[bytes, str | None], Parsed]

_MEDIA_TYPE = re.compile(r"[a-z0-9][a-z0-9.+-]*/[a-z0-9][a-z0-9.+-]*", re.ASCII)
_SUFFIX = re.compile(r"\.[a-z0-9][a-z0-9_-]*", re.ASCII)
_LONGEST_MEDIA_TYPE = 127


@dataclass(frozen=True, slots=True, kw_only=True)
class Format:
    """A format of documents and who reads it.

    ``media_type`` in small letters, without parameters; ``suffixes`` with their dot. ``parse`` is given the bytes and the
    character set that was declared, if one was; it raises a `Rejected` error for a document that is at fault. It runs in
    the parser process, under its limits; whatever it needs that takes long to load, it should load when called.
    """

    media_type: str
    suffixes: tuple[str, ...]
    parse: Parser

    def __post_init__(self) -> None:
        if not _MEDIA_TYPE.fullmatch(self.media_type) or len(self.media_type) > _LONGEST_MEDIA_TYPE:
            raise ValueError(f"{self.media_type!r} is no media type")
        wrong = [suffix for suffix in self.suffixes if not _SUFFIX.fullmatch(suffix)]
        if wrong:
            raise ValueError(f"{wrong[0]!r} is no suffix such as .rst")
