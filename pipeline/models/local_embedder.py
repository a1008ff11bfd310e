"""An embedder without service or network: averaged static word vectors, whose weights come with the package."""

import functools
import logging
import math
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Final

import numpy as np

from pipeline.deadline import Deadline
from pipeline.errors import EmbedderUnavailable, Misconfigured
from pipeline.models.ports import Matrix
from pipeline.models.prompt_texts import MAX_INPUT_TOKENS, sendable
from pipeline.models.tokenizer import Tokens

LOCAL_MODEL: Final = "wordllama-l2-supercat"
LOCAL_DIMENSIONS: Final = (64, 128, 256)

_READ_TOGETHER: Final = 4  # characters; between 3 and 5 nDCG@10 differs by 0.001: docs/decisions/0011
_AT_ONCE: Final = 256  # texts between two checks of the time
_LOADING: Final = threading.Lock()


class LocalEmbedder:
    """The mean of a text's token vectors: fast, deterministic, meant to complement the keyword channel; thread-safe.
    Its first 64 or 128 numbers are a smaller model. Weights (16 MB) are read at the first call."""

    def __init__(self, *, dimension: int = 256) -> None:
        if dimension not in LOCAL_DIMENSIONS:
            raise Misconfigured(f"the local embedder has vectors of 64, 128 or 256 numbers, not {dimension}")
        self.dimension = dimension
        self.model = f"{LOCAL_MODEL}-{dimension}"  # vectors of different lengths are different models

    def embed(self, texts: Sequence[str], *, timeout_s: float | None = None) -> Matrix:
        """Return a unit vector per text (its first 8192 tokens). Raises EmbedderUnavailable, Misconfigured."""
        deadline = Deadline.after(timeout_s)
        tokens, weights = self._model()
        vectors = np.empty((len(texts), self.dimension), dtype=np.float32)
        for start in range(0, len(texts), _AT_ONCE):
            if deadline.has_passed:
                raise EmbedderUnavailable(f"only {start} of {len(texts)} texts could be embedded in time")
            for row, text in enumerate(texts[start : start + _AT_ONCE], start=start):
                # Summed text by text, so that a vector does not depend on the batch.
                vectors[row] = unit(weights[tokens.of(sendable(text))[:MAX_INPUT_TOKENS]].sum(axis=0))
        return vectors

    def trust(self, text: str) -> float:
        """Return the fourth power of the share of known tokens; see the port. A Chinese word mostly has two characters,
        and both query and text must be read."""
        tokens, _ = self._model()
        return tokens.known_share(sendable(text)) ** _READ_TOGETHER

    def close(self) -> None:
        """Do nothing: no connections are open."""

    def _model(self) -> tuple[Tokens, Matrix]:
        with _LOADING:
            return _load(self.dimension)


@functools.cache
def _load(dimension: int) -> tuple[Tokens, Matrix]:
    """Return the tokens and one vector per token. Raises Misconfigured when the package came without its weights."""
    with _root_logger_untouched():
        import wordllama
    try:
        model = wordllama.WordLlama.load(
            cache_dir=Path(wordllama.__file__).parent,  # of the wheel; the default is a download
            trunc_dim=dimension,
            disable_download=True,
        )
    except FileNotFoundError as error:
        raise Misconfigured("the wordllama package is installed without its weights") from error
    return Tokens(model.tokenizer), model.embedding


@contextmanager
def _root_logger_untouched() -> Iterator[None]:
    """Undo the ``logging.basicConfig`` that importing wordllama runs."""
    root = logging.getLogger()
    handlers, level = root.handlers[:], root.level
    try:
        yield
    finally:
        root.handlers[:] = handlers
        root.setLevel(level)


def unit(vector: Matrix) -> Matrix:
    """Return the vector with length 1; a zero vector becomes a fixed unit vector."""
    length = float(np.linalg.norm(vector))
    if length == 0.0 or not math.isfinite(length):
        return np.full(vector.shape, vector.size**-0.5, dtype=np.float32)
    return vector / np.float32(length)
