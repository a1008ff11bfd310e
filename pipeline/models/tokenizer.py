"""Count the tokens of a context: by a byte-pair encoding, or by an estimate."""

from __future__ import annotations

import functools
from collections.abc import Callable
from importlib.util import find_spec
from pathlib import Path

from pipeline.chunking.tokens import count_tokens
from pipeline.errors import Misconfigured
from pipeline.models.token_ids import Tokens

TokenCounter = Callable[[str], int]


@functools.cache
def token_counter(name: str) -> TokenCounter:
    """Return a counter: ``estimate``, ``llama-2`` (the local embedder's vocabulary, about 1.5 tokens a Chinese
    character), or the path of a ``tokenizer.json`` without special tokens. Reading one takes 0.2 s, once. Raises
    Misconfigured."""
    if name == "estimate":
        return count_tokens
    from tokenizers import Tokenizer

    path = _bundled() if name == "llama-2" else Path(name)
    try:
        tokenizer = Tokenizer.from_file(str(path))
    except Exception as error:  # the library raises nothing narrower
        raise Misconfigured(f"CHORDWISE_CONTEXT_TOKENIZER cannot be read as a tokenizer.json: {path.name}") from error
    tokenizer.no_truncation()
    tokenizer.no_padding()
    if name == "llama-2":
        tokens = Tokens(tokenizer)
        return lambda text: tokens.count(_well_formed(text))
    return lambda text: len(tokenizer.encode(_well_formed(text), add_special_tokens=False).ids)


def fewest_tokens(name: str) -> TokenCounter:
    """Return a cheap lower bound of `token_counter`: no token of the local vocabulary crosses a space; other
    vocabularies have no such bound."""
    return _words if name == "llama-2" else _unknown


def _words(text: str) -> int:
    return sum(map(bool, text.split(" ")))


def _unknown(_text: str) -> int:
    return 0


def _bundled() -> Path:
    """Locate the bundled file without importing the package, which would load the libraries for its weights."""
    package = find_spec("wordllama")
    if package is None or package.origin is None:
        raise Misconfigured("the wordllama package is not installed")
    return Path(package.origin).parent / "tokenizers" / "l2_supercat_tokenizer_config.json"


def _well_formed(text: str) -> str:
    return text.encode("utf-8", "replace").decode("utf-8")
