"""Multipart bodies, read by Starlette's parser and refused where that one takes too much."""

from __future__ import annotations

import codecs
from collections.abc import AsyncGenerator, Mapping
from typing import Final

from python_multipart.multipart import parse_options_header
from starlette.datastructures import FormData
from starlette.formparsers import MultiPartException, MultiPartParser

# Codecs of Python that no text comes in: one always fails, the others take time in the square of the length.
_NO_CHARSETS: Final = frozenset({"undefined", "punycode", "idna"})


class WholeFormParser(MultiPartParser):
    """A parser of bodies that came whole. Where one is cut off, the part that was about to come is not among those
    that came before it, and nothing would tell."""

    _ended = False

    def on_end(self) -> None:
        """The closing boundary has come."""
        self._ended = True

    async def parse(self) -> FormData:
        """The parts. Raises MultiPartException for what is no form, or is not one to its end."""
        _require_charset(self.headers)
        self.stream = self._to_its_end(self.stream)
        return await super().parse()

    async def _to_its_end(self, stream: AsyncGenerator[bytes, None]) -> AsyncGenerator[bytes, None]:
        """The stream, failing while the files of the parts are still closed should it fail."""
        async for chunk in stream:
            yield chunk
        if not self._ended:
            raise MultiPartException("It ends before its closing boundary")


def _require_charset(headers: Mapping[str, str]) -> None:
    """Raises MultiPartException for a character set that is none. An unknown one is read as latin-1."""
    _, parameters = parse_options_header(headers.get("content-type"))
    try:
        known = codecs.lookup(parameters.get(b"charset", b"utf-8").decode("latin-1")).name
    except LookupError:
        return
    if known in _NO_CHARSETS:
        raise MultiPartException(f"No text comes in the character set {known}")
