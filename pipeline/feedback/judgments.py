"""Derive judgments of documents from users' ratings of hits (not from `ranking.fusion`)."""

import hashlib
import uuid
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from itertools import groupby
from operator import attrgetter
from typing import Final

from chordwise.contract.ratings import FeedbackShape, JudgedQuery, JudgmentVotes, RatingName
from pipeline.keyword.normal_form import normal_form
from pipeline.records import TenantId

CLICK_VOTE: Final = 0.5  # the first hits are clicked whether they fit or not, so a click is worth half a rating
DEFAULT_MIN_VOTES: Final = 1.0

_FEEDBACK_IDS = uuid.UUID("b7d5d1c6-0b0e-4d43-9c1f-6a0f5d8a2e11")


GRADES: Final[Mapping[RatingName, int]] = {"good": 2, "click": 1, "bad": 0}
_DOCUMENT, _TIME = attrgetter("document_id"), attrgetter("rated_at", "feedback_id")


def rater_of(feedback: FeedbackShape) -> str:
    """Return the rater, as far as known: a session, or else the query."""
    return f"session:{feedback.session_id}" if feedback.session_id else f"query:{feedback.query_id}"


def feedback_id(query_id: str, kind: str, target: str, rating: RatingName, session_id: str | None) -> str:
    """Return the same id for the same rating of the same hit by the same session. ``kind``: chunk or document."""
    return str(uuid.uuid5(_FEEDBACK_IDS, "\n".join((query_id, kind, target, rating, session_id or ""))))


def text_key(query_text: str) -> bytes:
    """Return the key that groups ratings of one question: 16 bytes, the same for any case, width and white space."""
    folded = " ".join(normal_form("NFKC", query_text).casefold().split())
    return hashlib.blake2b(folded.encode(), digest_size=16).digest()


def judgments(
    feedback: Iterable[FeedbackShape], *, tenant_id: TenantId, namespace: str, min_votes: float = DEFAULT_MIN_VOTES
) -> list[JudgedQuery]:
    """Combine ratings of one namespace, by the key of the question, which is the same for every spelling of it. A session,
    or query without one, counts once per document and question: an explicit rating one vote, an opening `CLICK_VOTE`; below
    ``min_votes`` there is no judgment. The best rated passage of an answer and the newest explicit rating decide; clicks
    only without explicit ratings."""
    texts: defaultdict[bytes, list[FeedbackShape]] = defaultdict(list)
    for rating in feedback:
        texts[text_key(rating.query_text)].append(rating)
    judged_texts = []
    for key, ratings in sorted(texts.items()):
        by_document = groupby(sorted(ratings, key=_DOCUMENT), key=_DOCUMENT)
        judged = ((document_id, *_judged(list(group))) for document_id, group in by_document)
        kept = [each for each in judged if each[2].votes >= min_votes]
        if kept:
            relevant, votes = {each[0]: each[1] for each in kept}, {each[0]: each[2] for each in kept}
            text = max(ratings, key=_TIME).query_text
            judged_texts.append(
                JudgedQuery(
                    query_id=key.hex(),
                    tenant_id=tenant_id,
                    namespaces=(namespace,),
                    query_text=text,
                    relevant=relevant,
                    votes=votes,
                )
            )
    return judged_texts


def _judged(feedback: Sequence[FeedbackShape]) -> tuple[int, JudgmentVotes]:
    explicit = [rating for rating in feedback if rating.rating != "click"]
    good, bad, clickers = (
        {rater_of(rating) for rating in feedback if rating.rating == kind} for kind in ("good", "bad", "click")
    )
    votes = JudgmentVotes(
        good=len(good),
        bad=len(bad),
        clicks=len(clickers),
        votes=len(good | bad) + CLICK_VOTE * len(clickers - good - bad),
        rated_at=max(rating.rated_at for rating in feedback),
    )
    return _grade(explicit) if explicit else GRADES["click"], votes


def _grade(explicit: Sequence[FeedbackShape]) -> int:
    """Return the grade of the answer that was rated last: the best of its passages, each by its last rating."""
    ordered = sorted(explicit, key=_TIME)
    answer = [rating for rating in ordered if rating.query_id == ordered[-1].query_id]
    last_by_passage = {rating.chunk_id: rating.rating for rating in answer}
    return max(GRADES[rating] for rating in last_by_passage.values())
