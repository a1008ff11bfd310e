"""A reranker without a model. It only compares words, so it decides between near-equals only."""

import math
import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import chain, compress, count
from typing import Final

from pipeline.deadline import Deadline
from pipeline.errors import RerankerUnavailable
from pipeline.keyword.terms import content_terms, query_terms
from pipeline.records import Candidate

# The most each kind of evidence may add to a score. A kind that a query cannot show (a phrase of one word) is left out,
# and the others are scaled up to a total of 1.
_COVERAGE, _PROXIMITY, _PHRASE, _IDENTIFIERS = 0.55, 0.20, 0.10, 0.15

# Letters, digits and the marks that join them; an identifier is such a word with a digit or a joint in it.
_WORD = re.compile(r"[a-z0-9]+(?:[-_./:#@+][a-z0-9]+)*", re.ASCII)


@dataclass(frozen=True, slots=True, kw_only=True)
class Reading:
    """One text to judge: its analysed terms in order, and the text itself, in which identifiers are looked up."""

    terms: Sequence[str]
    text: str


def evidence(query: Reading, candidates: Sequence[Reading]) -> list[float]:
    """Return one score in [0, 1] per candidate: 1 repeats the query word for word, 0 shares nothing with it.

    The weighted mean of *coverage* (share of the query's distinct terms found, weighted by rarity among the
    candidates), *proximity* (coverage times the density of found terms in the narrowest stretch that holds all),
    *phrase* (the longest repeated run over the query's length) and *identifiers* (share found exactly). Not comparable
    between queries or candidate sets.
    """
    wanted = list(dict.fromkeys(query.terms))
    wanted_identifiers = identifiers(query.text)
    query_terms = frozenset(wanted)
    held = [query_terms.intersection(candidate.terms) for candidate in candidates]
    rarity = _rarity(wanted, held)
    return [
        _score(query, candidate, shared, wanted, wanted_identifiers, rarity)
        for candidate, shared in zip(candidates, held, strict=True)
    ]


def identifiers(text: str) -> frozenset[str]:
    """Return part numbers, error codes, versions and file names, lower-cased (``ppr-9087``, ``node.js``); no plain or
    hyphenated words, single characters, or numbers of one or two digits."""
    return frozenset(word for word in _WORD.findall(text.lower()) if _is_identifier(word))


def _is_identifier(word: str) -> bool:
    if word.isdigit():
        return len(word) > 2
    if any(character.isdigit() for character in word):
        return True
    return len(word) > 3 and not word.replace("-", "").isalpha()


def _score(
    query: Reading,
    candidate: Reading,
    shared: frozenset[str],
    wanted: list[str],
    wanted_identifiers: frozenset[str],
    rarity: dict[str, float],
) -> float:
    occurrences = _occurrences(candidate.terms, shared)
    total_rarity = sum(rarity.values())
    # Summed in the query's order: a set's order changes between processes, and with it the last digit of a sum.
    coverage = sum(rarity[term] for term in wanted if term in shared) / total_rarity if total_rarity else 0.0
    parts = [(_COVERAGE, coverage)] if wanted else []
    if len(wanted) > 1:
        parts.append((_PROXIMITY, coverage * _density(occurrences, shared)))
    if len(query.terms) > 1:
        parts.append((_PHRASE, _longest_run(query.terms, occurrences) / len(query.terms)))
    if wanted_identifiers:
        repeated = wanted_identifiers.intersection(_WORD.findall(candidate.text.lower()))
        parts.append((_IDENTIFIERS, len(repeated) / len(wanted_identifiers)))
    weight = sum(weight for weight, _ in parts)
    return min(1.0, sum(weight * part for weight, part in parts) / weight) if weight else 0.0


def _occurrences(terms: Sequence[str], shared: frozenset[str]) -> list[tuple[int, str]]:
    """Return position and term of each shared term, in order, without an interpreter step for any other term."""
    positions = compress(count(), map(shared.__contains__, terms))
    return [(position, terms[position]) for position in positions] if shared else []


def _rarity(wanted: Sequence[str], held: Sequence[frozenset[str]]) -> dict[str, float]:
    """Return ``ln(1 + (n - df + 0.5) / (df + 0.5))`` by term, for n candidates; positive for every term."""
    frequency = Counter(chain.from_iterable(held))
    many = len(held)
    return {term: math.log1p((many - frequency[term] + 0.5) / (frequency[term] + 0.5)) for term in wanted}


def _density(occurrences: Sequence[tuple[int, str]], shared: frozenset[str]) -> float:
    """Return the ``shared`` terms per term of the narrowest window that holds all; 0 for fewer than two."""
    if len(shared) < 2:
        return 0.0
    inside: Counter[str] = Counter()
    narrowest, start = math.inf, 0
    for end, term in occurrences:
        inside[term] += 1
        while inside[occurrences[start][1]] != 1:  # it occurs again later
            inside[occurrences[start][1]] -= 1
            start += 1
        if len(inside) == len(shared):
            narrowest = min(narrowest, end - occurrences[start][0] + 1)
    return len(shared) / narrowest


def _longest_run(query: Sequence[str], occurrences: Sequence[tuple[int, str]]) -> int:
    """Return the longest run of ``query`` that a text repeats without a gap; 0 for single terms."""
    longest = 0
    ending_here: dict[int, int] = {}  # position in the query -> length of the common run that ends there
    positions: dict[str, list[int]] = {}
    for position, term in enumerate(query):
        positions.setdefault(term, []).append(position)
    before = -1
    for at, term in occurrences:
        if at != before + 1:
            ending_here = {}
        before = at
        ending_here = {position: ending_here.get(position - 1, 0) + 1 for position in positions[term]}
        longest = max(longest, *ending_here.values())
    return longest if longest > 1 else 0


_LONGEST_TEXT: Final = 20_000  # characters of one candidate that are read


class LocalReranker:
    """Scores by coverage, proximity, phrases and identifiers ; deterministic, thread-safe."""

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
