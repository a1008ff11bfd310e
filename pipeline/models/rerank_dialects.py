"""How rerank services want to be asked, and how they answer. All take JSON over POST and a bearer key.

=========  ==============  ==========================  ===============================  ================
dialect    path            fields of the request       list in the answer               its scores
=========  ==============  ==========================  ===============================  ================
cohere     /v2/rerank      query, documents, top_n     results: index, relevance_score  in [0, 1]
jina       /v1/rerank      query, documents, top_n     results: index, relevance_score  about [0, 1]
voyage     /v1/rerank      query, documents, top_k     data: index, relevance_score     in [0, 1]
tei        /rerank         query, texts                the whole answer: index, score   logits, as asked
=========  ==============  ==========================  ===============================  ================
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

_LARGEST_EXPONENT: Final = 700.0  # beyond it, exp overflows
_LONGEST_DOCUMENT: Final = 4096  # tokens of one document that Cohere reads; its own default


@dataclass(frozen=True, slots=True, kw_only=True)
class Dialect:
    """One kind of service. ``results``: the key of its list, None for the answer itself. ``most_texts``: per request.
    ``body``: makes a request."""

    path: str
    results: str | None
    score: str
    body: Callable[[str, str, Sequence[str]], dict[str, Any]]
    logits: bool = False
    most_texts: int = 1000

    def scores_in(self, answer: Any, *, count: int) -> dict[int, float]:
        """Return the scores of texts 0 to ``count - 1`` in [0, 1]: clipped, or the sigmoid of logits. Order,
        repetitions (the first counts), unknown places and invalid scores do no harm."""
        entries = answer.get(self.results) if self.results and isinstance(answer, Mapping) else answer
        found: dict[int, float] = {}
        for entry in entries if isinstance(entries, list) else ():
            if not isinstance(entry, Mapping):
                continue
            place, score = entry.get("index"), _finite(entry.get(self.score))
            if type(place) is int and 0 <= place < count and score is not None:
                found.setdefault(place, _sigmoid(score) if self.logits else min(1.0, max(0.0, score)))
        return found


def _finite(value: Any) -> float | None:
    if isinstance(value, bool) or not isinstance(value, int | float):
        return None
    try:
        number = float(value)
    except OverflowError:  # JSON puts no limit on whole numbers
        return None
    return number if math.isfinite(number) else None


def _sigmoid(logit: float) -> float:
    return 1.0 / (1.0 + math.exp(min(-logit, _LARGEST_EXPONENT)))


def _cohere(model: str, query: str, texts: Sequence[str]) -> dict[str, Any]:
    return {
        "model": model,
        "query": query,
        "documents": list(texts),
        "top_n": len(texts),
        "max_tokens_per_doc": _LONGEST_DOCUMENT,
    }


def _jina(model: str, query: str, texts: Sequence[str]) -> dict[str, Any]:
    return {
        "model": model,
        "query": query,
        "documents": list(texts),
        "top_n": len(texts),
        "return_documents": False,
    }


def _voyage(model: str, query: str, texts: Sequence[str]) -> dict[str, Any]:
    return {
        "model": model,
        "query": query,
        "documents": list(texts),
        "top_k": len(texts),
        "return_documents": False,
        "truncation": True,
    }


def _tei(_model: str, query: str, texts: Sequence[str]) -> dict[str, Any]:
    # Logits are asked for by name: only then is it known what has to be done with them.
    return {"query": query, "texts": list(texts), "raw_scores": True, "truncate": True, "return_text": False}


DIALECTS: Final[Mapping[str, Dialect]] = {
    "cohere": Dialect(path="/v2/rerank", results="results", score="relevance_score", body=_cohere),
    "jina": Dialect(path="/v1/rerank", results="results", score="relevance_score", body=_jina),
    "voyage": Dialect(path="/v1/rerank", results="data", score="relevance_score", body=_voyage),
    # 32 texts are what its servers take at once unless told otherwise.
    "tei": Dialect(path="/rerank", results=None, score="score", body=_tei, logits=True, most_texts=32),
}
