"""Choose the hits to return from the ordered ones: age, duplicates, thresholds, grades, caps per document, diversity."""

import math
import re
from collections import Counter
from collections.abc import Hashable, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from functools import reduce
from heapq import heapify, heappop, heapreplace
from itertools import pairwise
from operator import or_
from typing import Literal

from chordwise.contract.answer import LadderStep, sureness
from pipeline.filters.python_filters import METADATA
from pipeline.filters.used_fields import values_of
from pipeline.keyword.normal_form import content_hash, normal_form
from pipeline.query.plan import DecayPlan, LadderPlan, Plan, QualityPlan, SelectionPlan
from pipeline.query.request import QueryMoment
from pipeline.ranking.fusion import Contribution
from pipeline.ranking.hits import Drop, Hit, Hydrated, cosine_of
from pipeline.records import ChannelName, DocumentFields, Scalar

# The number of candidates of diversity per returned hit; hits further down are too weak to be returned.
CHOICE = 3
BEYOND_PER_DOCUMENT = "beyond_per_document"  # the reason of a drop
Sameness = Literal["chunk", "document", "content"]
_DAY_S = 86_400.0
_NEVER = datetime.min.replace(tzinfo=UTC)
_UNSPACED = "\u3040-\u30ff\u3400-\u4dbf\u4e00-\u9fff"  # Han and kana, in which words have no gaps between them
_RUNS = re.compile(rf"[{_UNSPACED}]+|[^\W_{_UNSPACED}]+")
_IS_UNSPACED = re.compile(f"[{_UNSPACED}]")
_WORDS = re.compile(r"[a-z0-9]+")


def decayed(hits: Sequence[Hit], plan: DecayPlan, present: QueryMoment) -> list[Hit]:
    """Multiply scores by what age leaves, best first, ties in order; a hit without an age keeps its score."""
    aged = []
    for hit in hits:
        age = age_of(hit.passage, plan, present)
        if age is None:
            aged.append(hit)
        else:
            left = remaining(age, plan)
            aged.append(replace(hit, score=hit.score * left, decay=left))
    return sorted(aged, key=lambda hit: -hit.score)


def age_of(passage: Hydrated, plan: DecayPlan, present: QueryMoment) -> float | None:
    """Return the age of a passage in seconds, or in the story's own unit; negative in the future, None without a date."""
    if plan.by == "story_time":
        has_both = passage.story_time is not None and present.story_time is not None
        return float(present.story_time - passage.story_time) if has_both else None  # type: ignore[operator]  # both known
    moment = passage.published_at if plan.by == "published_at" else passage.updated_at
    if moment is None:
        return None
    return (present.at - (moment if moment.tzinfo else moment.replace(tzinfo=UTC))).total_seconds()


def remaining(age: float, plan: DecayPlan) -> float:
    """Return the share of a score that remains at ``age``: 1 for age 0 and in the future, never below ``plan.floor``.

    ``half_life``: ``0.5 ** (days / half_life_days)``; ``hyperbolic``: ``1 / (1 + age / scale)``; ``window``: 1 up to an
    age of ``scale``, ``floor`` beyond it.
    """
    if age <= 0:
        return 1.0
    if plan.shape == "half_life":
        left = math.exp2(-age / _DAY_S / plan.half_life_days)
    elif plan.shape == "hyperbolic":
        left = 1.0 / (1.0 + age / plan.scale)
    else:
        left = 1.0 if age <= plan.scale else 0.0
    return max(plan.floor, left)


def deduplicated(hits: Sequence[Hit], by: Sameness) -> tuple[list[Hit], list[Drop]]:
    """Keep the best of equal hits with each channel's largest contribution; return the others as drops."""
    if by == "chunk":  # fusion has seen to that
        return list(hits), []
    groups: dict[Hashable, list[Hit]] = {}
    for hit in hits:
        groups.setdefault(hit.document if by == "document" else content_hash(hit.passage.text), []).append(hit)
    kept = [_merged(group) if len(group) > 1 else group[0] for group in groups.values()]
    dropped = [
        hit.as_drop("dedupe", f"same_{by}", hit.score, group[0].score) for group in groups.values() for hit in group[1:]
    ]
    return kept, dropped


def _merged(group: Sequence[Hit]) -> Hit:
    best = group[0]
    parts: dict[str, Contribution] = {}
    for hit in group:
        for part in hit.fused.contributions:
            best_part = parts.get(part.channel)
            if best_part is None or (part.contribution or 0.0) > (best_part.contribution or 0.0):
                parts[part.channel] = part
    fused = best.fused._replace(contributions=tuple(parts[channel] for channel in sorted(parts)))
    return replace(best, fused=fused, duplicates=tuple(hit.chunk_id for hit in group[1:]))


def similarity_of(hit: Hit, *, zero: float | None) -> float:
    """Return the similarity of a hit to the query, in [0, 1]: its cosine, or its confidence if the semantic channel did
    not score it. ``zero``: the semantic channel's score of an unrelated chunk."""
    for part in hit.fused.contributions:
        if part.channel == ChannelName.SEMANTIC and part.score is not None:
            return min(1.0, max(0.0, cosine_of(part.score, zero)))
    return sureness(hit.confidence)


def stepped_down(
    hits: Sequence[Hit], plan: LadderPlan, *, top_k: int, zero: float | None = None, per_document: int | None = None
) -> tuple[list[Hit], list[Drop], LadderStep]:
    """Return the hits that reach the highest threshold which ``min_results`` of them reach (or ``top_k``, if less),
    else those that reach the lowest. Their order stays.

    Hits of one document count up to ``per_document``, because no more of them are returned.
    """
    similarity = {hit.chunk_id: similarity_of(hit, zero=zero) for hit in hits}
    wanted = min(plan.min_results, top_k)
    for threshold in plan.thresholds:
        kept = [hit for hit in hits if similarity[hit.chunk_id] >= threshold]
        if _returnable(kept, per_document) >= wanted:
            break
    below = (hit for hit in hits if similarity[hit.chunk_id] < threshold)
    dropped = [hit.as_drop("ladder", "below_similarity", similarity[hit.chunk_id], threshold) for hit in below]
    enough = _returnable(kept, per_document) >= wanted
    return kept, dropped, LadderStep(threshold=threshold, hits=len(kept), enough=enough)


def _returnable(hits: Sequence[Hit], per_document: int | None) -> int:
    if per_document is None:
        return len(hits)
    counted = Counter(hit.document for hit in hits)
    return sum(min(count, per_document) for count in counted.values())


def select(hits: Sequence[Hit], plan: Plan) -> tuple[list[Hit], list[Drop]]:
    """Return up to ``top_k`` hits, and a Drop for every other hit, with the number it had and the one it needed.

    In this order: confidence below ``score_threshold``; grades (before the cut, so that there is a choice); the cap
    ``per_document``; groups; else diversity, or equal shares of the channels under balanced allocation, or the first
    ``top_k`` in order.
    """
    how = plan.retrieve.selection
    limit = plan.retrieve.score_threshold
    kept = [hit for hit in hits if sureness(hit.confidence) >= limit]
    below = (hit for hit in hits if sureness(hit.confidence) < limit)
    dropped = [hit.as_drop("threshold", "below_score_threshold", sureness(hit.confidence), limit) for hit in below]
    if how.quality is not None:
        kept, poor = graded(kept, how.quality)
        dropped += poor
    if how.per_document is not None:
        kept, crowded = capped(kept, how.per_document)
        dropped += crowded
    if how.group_by is not None:
        chosen, further = in_groups(kept, how, plan.top_k)
        return chosen, dropped + further
    if how.diversity > 0:
        chosen = diversified(kept[: CHOICE * plan.top_k], diversity=how.diversity, top_k=plan.top_k)
    elif plan.retrieve.allocation == "balanced":
        chosen = balanced(kept, plan.top_k)
    else:
        chosen = kept[: plan.top_k]
    if len(chosen) < len(kept):
        returned = {hit.chunk_id for hit in chosen}
        dropped += [
            hit.as_drop("select", "too_alike" if position <= plan.top_k else "beyond_top_k", position, plan.top_k)
            for position, hit in enumerate(kept, start=1)
            if hit.chunk_id not in returned
        ]
    return chosen, dropped


def balanced(hits: Sequence[Hit], top_k: int) -> list[Hit]:
    """Return ``top_k`` hits in their order: of each channel that recalled any its best ``top_k // channels`` by its own
    rank, then the best of all. The share is 0 if there are more channels than hits to return."""
    ranked: dict[ChannelName, list[tuple[int, Hit]]] = {}
    for hit in hits:
        for part in hit.fused.contributions:
            if part.rank is not None:
                ranked.setdefault(part.channel, []).append((part.rank, hit))
    share = top_k // len(ranked) if ranked else 0
    shared = {
        hit.chunk_id
        for of_channel in ranked.values()
        for _, hit in sorted(of_channel, key=lambda pair: pair[0])[:share]
    }
    rest = [hit.chunk_id for hit in hits if hit.chunk_id not in shared]
    chosen = shared.union(rest[: max(0, top_k - len(shared))])
    return [hit for hit in hits if hit.chunk_id in chosen]


def capped(hits: Sequence[Hit], per_document: int) -> tuple[list[Hit], list[Drop]]:
    """Keep the first ``per_document`` hits of each document, in their order."""
    taken: Counter[tuple[str, str]] = Counter()
    kept, dropped = [], []
    for hit in hits:
        taken[hit.document] += 1
        if taken[hit.document] <= per_document:
            kept.append(hit)
        else:
            dropped.append(hit.as_drop("select", BEYOND_PER_DOCUMENT, taken[hit.document], per_document))
    return kept, dropped


Groups = dict[tuple[type, Scalar | None], list[Hit]]  # by value and its type: True == 1, and they filter differently


def grouped(hits: Sequence[Hit], how: SelectionPlan, top_k: int) -> Groups:
    """Return the hits of the first ``top_k`` values of the field that groups, the first ``group_size`` of each, in the order
    of their best hits. A hit with several values is in several groups, one without any in that of None."""
    groups: Groups = {}
    for hit in hits:
        for value in _grouping_values(hit, how.group_by or ""):
            if len(groups) < top_k or (type(value), value) in groups:
                group = groups.setdefault((type(value), value), [])
                if len(group) < how.group_size:
                    group.append(hit)
    return groups


def are_full(groups: Groups, how: SelectionPlan, top_k: int) -> bool:
    """Return whether there are ``top_k`` groups of ``group_size`` hits."""
    return len(groups) == top_k and all(len(group) == how.group_size for group in groups.values())


def in_groups(hits: Sequence[Hit], how: SelectionPlan, top_k: int) -> tuple[list[Hit], list[Drop]]:
    """Return the hits that a group takes, in their order, and a Drop for every other one."""
    taken = {hit.chunk_id for group in grouped(hits, how, top_k).values() for hit in group}
    drops = [
        hit.as_drop("select", "beyond_groups", position, how.group_size)
        for position, hit in enumerate(hits, start=1)
        if hit.chunk_id not in taken
    ]
    return [hit for hit in hits if hit.chunk_id in taken], drops


def _grouping_values(hit: Hit, field: str) -> Sequence[Scalar | None]:
    key = field.removeprefix(METADATA)
    return values_of(DocumentFields(metadata={key: hit.passage.metadata.get(key)}), METADATA + key) or [None]


def grade_of(hit: Hit, plan: QualityPlan) -> int:
    """Return the position of a hit's grade, 0 for the best. A missing or unlisted grade counts as the worst."""
    grade = hit.passage.metadata.get(plan.key)
    return plan.grades.index(grade) if grade in plan.grades else max(0, len(plan.grades) - 1)


def graded(hits: Sequence[Hit], plan: QualityPlan) -> tuple[list[Hit], list[Drop]]:
    """Drop the worst grade if there are more than ``enough`` hits and another is left; order near-ties by grade."""
    kept, dropped = list(hits), list[Drop]()
    worst = len(plan.grades) - 1
    if len(hits) > plan.enough and worst > 0:
        better = [hit for hit in hits if grade_of(hit, plan) < worst]
        if better:
            poor = [hit for hit in hits if grade_of(hit, plan) == worst]
            kept, dropped = better, [hit.as_drop("quality", "worst_grade", len(hits), plan.enough) for hit in poor]
    return _near_ties(kept, plan), dropped


def _near_ties(hits: Sequence[Hit], plan: QualityPlan) -> list[Hit]:
    """Sort groups of near-ties by grade. A group holds the hits less than ``near_tie`` of the best score behind its
    first hit. In a group the better grade goes first, then the newer document, then the earlier hit."""
    span = plan.near_tie * max((hit.score for hit in hits), default=0.0)
    ordered: list[Hit] = []
    group: list[Hit] = []
    for hit in hits:
        if group and group[0].score - hit.score >= span and hit.score < group[0].score:
            ordered += _by_grade(group, plan)
            group = []
        group.append(hit)
    return ordered + _by_grade(group, plan)


def _by_grade(group: Sequence[Hit], plan: QualityPlan) -> list[Hit]:
    newest_first = sorted(group, key=_moment, reverse=True)  # sorting is stable in reverse as well
    return sorted(newest_first, key=lambda hit: grade_of(hit, plan))


def _moment(hit: Hit) -> datetime:
    moment = hit.passage.updated_at or hit.passage.published_at or _NEVER
    return moment if moment.tzinfo else moment.replace(tzinfo=UTC)


def shingles(text: str) -> frozenset[str]:
    """Return the words of a text, and the pairs of neighbouring characters in scripts without word gaps."""
    if text.isascii():
        return frozenset(_WORDS.findall(text.lower()))
    words: set[str] = set()
    for run in _RUNS.findall(normal_form("NFKC", text).casefold()):
        if len(run) > 1 and _IS_UNSPACED.match(run):
            words.update(map("".join, pairwise(run)))
        else:
            words.add(run)
    return frozenset(words)


def numbered(texts: Sequence[frozenset[str]]) -> list[int]:
    """Return each text's words as the bits of a number, the same bit for the same word."""
    bits: dict[str, int] = {}
    return [reduce(or_, (1 << bits.setdefault(word, len(bits)) for word in words), 0) for words in texts]


def likeness(one: int, other: int) -> float:
    """Return the share of ``one``'s words (`numbered`) in ``other``, in [0, 1]; 0 without words. A text that repeats a part is
    more similar than one that adds to it."""
    return (one & other).bit_count() / one.bit_count() if one else 0.0


def diversified(hits: Sequence[Hit], *, diversity: float, top_k: int) -> list[Hit]:
    """Return up to ``top_k`` hits, choosing each time the highest ``lambda * relevance - (1 - lambda) * likeness``:
    lambda is ``1 - diversity``, relevance the score over the best score, likeness the greatest one to a hit chosen
    before. The first of equals.

    ``score`` stays the relevance, so it may rise in the result; ``likeness`` explains why. The worth of a hit only falls as
    others are chosen, so a hit is compared with these when it comes first, and most of hundreds are compared with few.
    """
    if diversity <= 0:
        return list(hits[:top_k])
    best = max((hit.score for hit in hits), default=0.0)
    words = numbered([shingles(hit.passage.text) for hit in hits])
    gain = [(1 - diversity) * (hit.score / best if best > 0 else 0.0) for hit in hits]
    nearest = [0.0] * len(hits)
    chosen: list[int] = []
    waiting = [(-worth, index, 0) for index, worth in enumerate(gain)]
    heapify(waiting)
    while waiting and len(chosen) < top_k:
        _, first, compared = waiting[0]
        if compared == len(chosen):
            chosen.append(heappop(waiting)[1])
            continue
        nearest[first] = max(nearest[first], *(likeness(words[first], words[other]) for other in chosen[compared:]))
        heapreplace(waiting, (diversity * nearest[first] - gain[first], first, len(chosen)))
    return [replace(hits[index], likeness=nearest[index]) for index in chosen]
