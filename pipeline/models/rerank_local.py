"""A reranker without a model. It only compares words, so it decides between near-equals only."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from pipeline.deadline import Deadline
from pipeline.errors import RerankerUnavailable
from pipeline.keyword.terms import content_terms, query_terms
from pipeline.models.evidence import Reading, evidence
from pipeline.records import Candidate

_LONGEST_TEXT: Final = 20_000  # characters of one candidate that are read


class LocalReranker:
    """Scores by coverage, proximity, phrases and identifiers (`pipeline.models.evidence`); deterministic, thread-safe."""

    name = "local"
    weight = 0.02  # only near-ties change places

    def rerank(
        self,
        query: str,
        candidates: Sequence[Candidate],
        *,
        timeout_s: float,
        wishes: str = "",  # noqa: ARG002 - it compares words and cannot interpret wishes
    ) -> dict[str, float]:
        """Score every candidate, equal texts equally; see the port. Raises RerankerUnavailable beyond ``timeout_s``."""
        deadline = Deadline.after(timeout_s)
        reading = Reading(terms=query_terms(query), text=query)
        readings: list[Reading] = []
        for candidate in candidates:
            if deadline.has_passed:
                raise RerankerUnavailable(f"only {len(readings)} of {len(candidates)} candidates could be read in time")
            text = f"{candidate.title or ''}\n{candidate.text}"[:_LONGEST_TEXT]
            # Stop words are not in the query's terms, so drop them from the texts too, or they would split phrases.
            readings.append(Reading(terms=content_terms(text), text=text))
        scores = evidence(reading, readings)
        return {candidate.chunk_id: score for candidate, score in zip(candidates, scores, strict=True)}

    def close(self) -> None:
        """Do nothing: no connections are open."""
