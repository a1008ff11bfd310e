"""Users' ratings of hits in MySQL. Query texts and notes are their data: never in a log."""

import json
from collections.abc import Mapping
from dataclasses import asdict, fields
from datetime import datetime
from typing import Any

from sqlalchemy import func, select
from sqlalchemy.dialects.mysql import insert

from chordwise.contract.ratings import FeedbackShape, RatingName
from pipeline.database.mysql_tables import feedback
from pipeline.database.rows import TenantStore, follows, record_of, to_json, to_naive
from pipeline.database.statements import same_document, sql
from pipeline.feedback.judgments import text_key
from pipeline.tenants.audit_store import Audit


class FeedbackStore(TenantStore):
    """One tenant's feedback."""

    def add(self, given: FeedbackShape) -> tuple[FeedbackShape, bool]:
        """Store a rating, or renew an earlier one with its note. Return it and whether it is new."""
        values = asdict(given) | {
            "tenant_id": self._tenant_id,
            "text_key": text_key(given.query_text),
            "namespaces": to_json(list(given.namespaces)),
            "created_at": to_naive(given.created_at),
            "rated_at": to_naive(given.rated_at),
        }
        renewed = {
            "rated_at": func.greatest(feedback.c.rated_at, values["rated_at"]),
            "note": func.coalesce(values["note"], feedback.c.note),
        }
        self._connection.execute(insert(feedback).values(values).on_duplicate_key_update(renewed))
        self._audit("feedback", given.feedback_id, namespaces=[given.namespace], rating=given.rating)
        stored = select(feedback).where(self._own(feedback), feedback.c.feedback_id == given.feedback_id)
        row = self._connection.execute(stored).mappings().one()
        return _feedback(row), row["created_at"] == values["created_at"]

    def page(
        self,
        *,
        since: datetime | None,
        namespace: str | None,
        rating: RatingName | None,
        before: tuple[datetime, str] | None,
        limit: int,
    ) -> list[FeedbackShape]:
        """Return ratings, newest first, no older than ``since``, before the given moment and id."""
        at, feedback_id = feedback.c.created_at, feedback.c.feedback_id
        statement = select(feedback).where(self._own(feedback)).order_by(at.desc(), feedback_id.desc()).limit(limit)
        if since is not None:
            statement = statement.where(at >= to_naive(since))
        if namespace is not None:
            statement = statement.where(feedback.c.namespace == namespace)
        if rating is not None:
            statement = statement.where(feedback.c.rating == rating)
        if before is not None:
            statement = statement.where(follows(at, feedback_id, before))
        return [_feedback(row) for row in self._connection.execute(statement).mappings()]

    def texts(self, namespace: str, *, after: bytes | None, limit: int) -> list[bytes]:
        """Return keys of the questions with feedback on documents of ``namespace``, in order, after the given one."""
        return [bytes(key) for key in self._run(_TEXTS, namespace=namespace, after=after or b"", limit=limit).scalars()]

    def of_texts(self, namespace: str, *, first: bytes, last: bytes) -> list[FeedbackShape]:
        """Return all feedback on the questions from key ``first`` to ``last``, except on documents that are gone."""
        return [_feedback(row) for row in self._run(_OF_TEXTS, namespace=namespace, first=first, last=last).mappings()]

    def arms(self, experiment_id: str) -> dict[str, dict[str, Any]]:
        """Return the ratings of each arm's answers, for arms with feedback, as fields of ArmResult."""
        return {
            row.bucket: {
                **{name: int(getattr(row, name)) for name in ("good", "bad", "clicks", "queries", "sessions")},
                "mean_click_place": None if row.mean_click_place is None else float(row.mean_click_place),
            }
            for row in self._run(_ARMS, experiment=experiment_id)
        }

    def remove(self, feedback_id: str) -> bool:
        """Take a rating back. False if there is none of that id."""
        removed = bool(self._remove_rows(feedback, feedback_id=feedback_id))
        if removed:
            self._audit("feedback_remove", feedback_id)
        return removed

    def _audit(self, action: str, feedback_id: str, **detail: Any) -> None:
        Audit(self._connection, self._tenant_id).wrote(action, ids=[feedback_id], **detail)


_TEXTS = sql(
    "SELECT DISTINCT text_key FROM feedback WHERE tenant_id = :tenant AND namespace = :namespace"
    " AND text_key > :after ORDER BY text_key LIMIT :limit"
)
# A passage that a channel supplied is in no table of documents, so its existence is unknown.
_OF_TEXTS = sql(
    f"SELECT {', '.join(f'f.{field.name}' for field in fields(FeedbackShape))} FROM feedback f"
    f" LEFT JOIN documents d ON {same_document('d', 'f')}"
    " WHERE f.tenant_id = :tenant AND f.namespace = :namespace AND f.text_key BETWEEN :first AND :last"
    " AND (d.published_generation IS NOT NULL OR f.source IN ('faq', 'api', 'fallback'))"
)
_ARMS = sql(
    "SELECT experiment_bucket AS bucket, SUM(rating = 'good') AS good, SUM(rating = 'bad') AS bad,"
    " SUM(rating = 'click') AS clicks, COUNT(DISTINCT query_id) AS queries, COUNT(DISTINCT session_id) AS sessions,"
    " AVG(IF(rating = 'click', place, NULL)) AS mean_click_place FROM feedback"
    " WHERE tenant_id = :tenant AND experiment_id = :experiment AND experiment_bucket IS NOT NULL"
    " GROUP BY experiment_bucket ORDER BY experiment_bucket"
)


def _feedback(row: Mapping[Any, Any]) -> FeedbackShape:
    return record_of(FeedbackShape, row, namespaces=tuple(json.loads(row["namespaces"])))
