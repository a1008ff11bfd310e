"""Count the tokens of a context: by a byte-pair encoding, or by an estimate."""

from __future__ import annotations

import functools
import re
from collections.abc import Callable
from importlib.util import find_spec
from itertools import chain
from pathlib import Path
from typing import Any, Final, TypeVar

from pipeline.caches import SelfFillingDict
from pipeline.chunking.tokens import count_tokens
from pipeline.errors import Misconfigured

T = TypeVar("T")
TokenCounter = Callable[[str], int]


@functools.cache
def token_counter(name: str) -> TokenCounter:
    """Return a counter: ``estimate``, ``llama-2`` (the local embedder's vocabulary, about 1.5 tokens a Chinese
    character), or the path of a ``tokenizer.json`` without special tokens. Reading one takes 0.2 s, once. Raises
    Misconfigured."""
    if name == "estimate":
        return count_tokens
    if name == "llama-2":
        tokens = local_tokens()
        return lambda text: tokens.count(_well_formed(text))
    tokenizer = _tokenizer(Path(name))
    return lambda text: len(tokenizer.encode(_well_formed(text), add_special_tokens=False).ids)


@functools.cache
def local_tokens() -> Tokens:
    """Return the tokens of the local embedder, read once in a process. Raises Misconfigured."""
    return Tokens(_tokenizer(bundled(Path("tokenizers") / "l2_supercat_tokenizer_config.json")))


def _tokenizer(path: Path) -> Any:
    from tokenizers import Tokenizer

    try:
        tokenizer = Tokenizer.from_file(str(path))
    except Exception as error:  # the library raises nothing narrower
        raise Misconfigured(f"CHORDWISE_CONTEXT_TOKENIZER cannot be read as a tokenizer.json: {path.name}") from error
    tokenizer.no_truncation()
    tokenizer.no_padding()
    return tokenizer


def fewest_tokens(name: str) -> TokenCounter:
    """Return a cheap lower bound of `token_counter`, for the local vocabulary: no token of it crosses a space."""
    return (lambda text: sum(map(bool, text.split(" ")))) if name == "llama-2" else lambda _: 0


def bundled(file: Path) -> Path:
    """Locate a file of the package wordllama without importing it, which would load libraries for its weights. Raises
    Misconfigured."""
    package = find_spec("wordllama")
    if package is None or package.origin is None:
        raise Misconfigured("the wordllama package is not installed")
    return Path(package.origin).parent / file


def _well_formed(text: str) -> str:
    return text.encode("utf-8", "replace").decode("utf-8")


_SPACE: Final = "\u2581"  # the vocabulary's symbol for a space
_ALONE: Final = "\n"  # a character in no token of several characters, put before text without a leading space
_LONGEST_REMEMBERED: Final = 40  # characters; longer pieces hardly repeat
_MOST_REMEMBERED: Final = 100_000  # pieces; about 20 MB


class Tokens:
    """The byte-pair encoding of the local model; thread-safe. No token crosses Chinese characters, line ends or word
    beginnings, so a text's ids are those of its pieces, which are merged once and cached."""

    def __init__(self, tokenizer: Any) -> None:
        self._tokenizer = tokenizer
        joining = {character for token in tokenizer.get_vocab() if len(token) > 1 for character in token} - {_SPACE}
        joined = f"[{''.join(map(re.escape, sorted(joining)))}]"
        self._pieces = re.compile(f"{_SPACE}+{joined}*|{joined}+|.", re.DOTALL).findall
        self._ids = self._cached(self._ids_of)
        self._before = len(self._encoded(_ALONE))
        self._space = tokenizer.token_to_id(_SPACE)
        first = tokenizer.token_to_id("<0x00>")  # characters outside the vocabulary are encoded as their UTF-8 bytes
        self._following, self._leading, self._beyond = first + 0x80, first + 0xC0, first + 0x100
        # These are matched before the text is split, and change how it is.
        self._special = [token.content for token in tokenizer.get_added_tokens_decoder().values()]
        # Numbers of ids by piece between two single spaces, for texts of which only the length is needed.
        self._lengths = self._cached(lambda word: len(self.of(word)))

    @staticmethod
    def _cached(make: Callable[[str], T]) -> SelfFillingDict[T]:
        return SelfFillingDict(make, most=_MOST_REMEMBERED, longest=_LONGEST_REMEMBERED)

    def of(self, text: str) -> list[int]:
        """Return the ids of ``text``, in order, without markers of its beginning or end."""
        if self._holds_special(text):
            return list(self._encoded(text))
        return list(chain.from_iterable(map(self._ids.__getitem__, self._parted(text))))

    def count(self, text: str) -> int:
        """Return the number of ids of `of`."""
        if self._holds_special(text):
            return len(self.of(text))
        words = text.split(" ")  # each begins with a space of its own, unless two come together
        if text.isascii() and "" not in words:
            return sum(map(self._lengths.__getitem__, words))
        return sum(map(len, map(self._ids.__getitem__, self._parted(text))))

    def _parted(self, text: str) -> list[str]:
        return self._pieces(_SPACE + text.replace(" ", _SPACE)) if text else []

    def _holds_special(self, text: str) -> bool:
        return any(special in text for special in self._special)

    def known_share(self, text: str) -> float:
        """Return the share of tokens in the vocabulary; characters encoded as bytes are not. 1 for only spaces."""
        ids = [token_id for token_id in self.of(text) if token_id != self._space]
        spelled = sum(self._leading <= token_id < self._beyond for token_id in ids)
        listed = sum(not self._following <= token_id < self._beyond for token_id in ids)
        return listed / (listed + spelled) if listed + spelled else 1.0

    def _ids_of(self, piece: str) -> tuple[int, ...]:
        # The tokenizer puts a space before a text, but not before an empty one.
        if piece == _SPACE:
            return (int(self._space),)
        if piece[0] == _SPACE:
            return self._encoded(piece[1:])
        return self._encoded(_ALONE + piece)[self._before :]

    def _encoded(self, text: str) -> tuple[int, ...]:
        return tuple(self._tokenizer.encode(text, add_special_tokens=False).ids)
