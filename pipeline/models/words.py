"""Token ids of a text, word by word, remembering the words: the same ids as the tokenizer gives for the whole text."""

from __future__ import annotations

import re
from itertools import chain
from typing import Any, Final

_SPACE: Final = "\u2581"  # what the vocabulary has for a space
_PIECE: Final = re.compile(f"{_SPACE}+[^{_SPACE}]*")
_LONGEST_REMEMBERED: Final = 40  # characters; what is longer (unspaced script, mostly) hardly comes twice
_MOST_REMEMBERED: Final = 100_000  # words; about 20 MB


class Tokens:
    """The byte-pair encoding of the local model.

    No token of its vocabulary has a space after another character, so nothing is ever merged across the beginning of a
    word, and a text's ids are those of its words one after the other. Merging a whole text takes 0.4 ms for 150 words;
    looking its words up takes a fiftieth of that. Safe to share between threads.
    """

    def __init__(self, tokenizer: Any) -> None:
        self._tokenizer = tokenizer
        self._words = _Words(tokenizer)
        self._space = tokenizer.token_to_id(_SPACE)
        first = tokenizer.token_to_id("<0x00>")  # what is in no token is spelled in its bytes of UTF-8
        self._following, self._leading, self._beyond = first + 0x80, first + 0xC0, first + 0x100
        # These are found before the text is parted into words, and change how it is.
        self._special = [token.content for token in tokenizer.get_added_tokens_decoder().values()]
        self._lengths = _Lengths(self._words)

    def of(self, text: str) -> list[int]:
        """The ids of ``text``, in order, without those that only mark its beginning or end."""
        if self._holds_special(text):
            return list(self._tokenizer.encode(text, add_special_tokens=False).ids)
        pieces = _PIECE.findall(_SPACE + text.replace(" ", _SPACE)) if text else ()
        return list(chain.from_iterable(map(self._words.__getitem__, pieces)))

    def count(self, text: str) -> int:
        """How many ids `of` gives."""
        words = text.split(" ")  # with the space before each, these are the pieces, if no two spaces come together
        if "" in words or _SPACE in text or self._holds_special(text):
            return len(self.of(text))
        return sum(map(self._lengths.__getitem__, words))

    def _holds_special(self, text: str) -> bool:
        return any(special in text for special in self._special)

    def known_share(self, text: str) -> float:
        """Which part of the tokens of ``text`` stands for itself; a character that is spelled in bytes counts as one that
        does not. 1 for a text of nothing but spaces."""
        ids = [each for each in self.of(text) if each != self._space]
        spelled = sum(self._leading <= each < self._beyond for each in ids)
        known = sum(not self._following <= each < self._beyond for each in ids)
        return known / (known + spelled) if known + spelled else 1.0


class _Words(dict[str, tuple[int, ...]]):
    """Ids by word, with the spaces before it. A dict that fills itself: what it knows already costs no call."""

    def __init__(self, tokenizer: Any) -> None:
        super().__init__()
        self._tokenizer = tokenizer

    def __missing__(self, piece: str) -> tuple[int, ...]:
        ids = self._encoded(piece)
        if len(piece) <= _LONGEST_REMEMBERED:
            if len(self) >= _MOST_REMEMBERED:
                self.clear()
            self[piece] = ids
        return ids

    def _encoded(self, piece: str) -> tuple[int, ...]:
        if piece == _SPACE:  # the tokenizer puts a space before a text, but not before an empty one
            return (int(self._tokenizer.token_to_id(_SPACE)),)
        return tuple(self._tokenizer.encode(piece[1:], add_special_tokens=False).ids)


class _Lengths(dict[str, int]):
    """Numbers of ids by word, without the space before it."""

    def __init__(self, words: _Words) -> None:
        super().__init__()
        self._of = words

    def __missing__(self, word: str) -> int:
        length = len(self._of[_SPACE + word])
        if len(word) < _LONGEST_REMEMBERED:
            if len(self) >= _MOST_REMEMBERED:
                self.clear()
            self[word] = length
        return length
