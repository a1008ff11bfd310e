"""Statistics of the stored example library: counts, lengths, duplicates, and whether an import can be found."""

import json
from collections.abc import Sequence

from chordwise.contract.example import ExamplesVerification, MissingExample, SampledExample
from pipeline.database.rows import TenantStore, record_of
from pipeline.database.statements import same_document, sql
from pipeline.examples.example import LENGTHS, Stored
from pipeline.jobs.job_view_store import status_of
from pipeline.records import ItemState, JobId, Namespace

_GROUPS_SHOWN = 20
_GROUP_SHOWN = 20  # documents named in one group of duplicates
_MISSING_SHOWN = 100


class Examples(TenantStore):
    """One tenant's example libraries, for reading. An example is a shown document that keeps its ``user_input``."""

    def stored(self, namespace: Namespace, types: Sequence[str]) -> dict[str, Stored]:
        """Return counts and lengths by type, of these types. Two scans of the namespace's documents."""
        library = {name: Stored() for name in types}
        for row in self._run(_COUNTS, namespace=namespace, types=list(types)):
            stored = library[row.type]
            stored.examples += row.examples
            stored.grades[row.grade or ""] += row.examples
            for tag in json.loads(row.tags):
                stored.tags[tag] += row.examples
        for row in self._run(_LENGTHS, namespace=namespace, types=list(types)):
            spread = library[row.type].lengths
            spread.shortest = min(row.shortest, spread.shortest) if spread.count else row.shortest
            spread.longest = max(row.longest, spread.longest)
            spread.count += row.examples
            spread.total += int(row.total)
            spread.up_to[row.up_to] += row.examples
        return library

    def duplicates(self, namespace: Namespace, types: Sequence[str]) -> tuple[int, list[list[str]]]:
        """Return how many documents of one type have the bytes of another, and the ids of the largest groups."""
        rows = self._run(_REPEATED, namespace=namespace, types=list(types)).all()
        largest = rows[:_GROUPS_SHOWN]
        groups: dict[tuple[str, bytes], list[str]] = {(row.type, row.content_hash): [] for row in largest}
        if groups:
            hashes = [row.content_hash for row in largest]
            for row in self._run(_WITH_HASH, namespace=namespace, types=list(types), hashes=hashes):
                group = groups.get((row.type, row.content_hash))
                if group is not None and len(group) < _GROUP_SHOWN:
                    group.append(row.document_id)
        return sum(row.examples - 1 for row in rows), list(groups.values())

    def verified(self, job_id: JobId, *, sample: int) -> ExamplesVerification | None:
        """Return an import's rows that are shown, in its generation or a later one, with a chunk; None without such a
        job. ``sample``: how many searchable ones to name, spread over the import."""
        job = self._run(_JOB, job=job_id).one_or_none()
        if job is None:
            return None
        states = dict.fromkeys(ItemState, 0)
        states |= {ItemState(state): count for state, count in self._run(_STATES, job=job_id)}
        rows, searchable = self._run(_SEARCHABLE, job=job_id).one()
        missing = self._run(_MISSING, job=job_id, limit=_MISSING_SHOWN)
        step = max(1, rows // sample) if sample else 0
        sampled = self._run(_SAMPLE, job=job_id, step=step, limit=sample) if sample else ()
        return ExamplesVerification(
            job_id=job_id,
            namespace=job.namespace,
            status=status_of(states),
            rows=rows,
            searchable=searchable,
            missing=tuple(record_of(MissingExample, row) for row in missing),
            sample=tuple(record_of(SampledExample, row) for row in sampled),
        )


_SHOWN = (
    f" FROM documents d JOIN generations g ON {same_document('g', 'd')} AND g.generation = d.published_generation"
    " WHERE d.tenant_id = :tenant AND d.namespace = :namespace AND g.type IN :types"
    " AND JSON_EXTRACT(g.metadata, '$.user_input') IS NOT NULL"
)
_CASES = " ".join(f"WHEN length <= {length} THEN {length}" for length in LENGTHS)


_COUNTS = sql(
    "SELECT type, grade, tags, COUNT(*) AS examples FROM (SELECT g.type,"
    " JSON_UNQUOTE(JSON_EXTRACT(g.metadata, '$.quality_grade')) AS grade, CAST(g.tags AS CHAR) AS tags"
    f"{_SHOWN}) AS shown GROUP BY type, grade, tags"
)
_LENGTHS = sql(
    f"SELECT type, CASE {_CASES} END AS up_to, COUNT(*) AS examples, SUM(length) AS total, MIN(length) AS shortest,"
    " MAX(length) AS longest FROM (SELECT g.type,"
    " CHAR_LENGTH(JSON_UNQUOTE(JSON_EXTRACT(g.metadata, '$.user_input'))) + 1"
    " + CHAR_LENGTH(JSON_UNQUOTE(JSON_EXTRACT(g.metadata, '$.agent_response'))) AS length"
    f"{_SHOWN}) AS shown GROUP BY type, up_to"
)
_REPEATED = sql(
    f"SELECT g.type, g.content_hash, COUNT(*) AS examples{_SHOWN} GROUP BY g.type, g.content_hash"
    " HAVING COUNT(*) > 1 ORDER BY examples DESC, g.content_hash"
)
_WITH_HASH = sql(
    f"SELECT g.type, g.content_hash, d.document_id{_SHOWN} AND g.content_hash IN :hashes ORDER BY d.document_id"
)

_JOB = sql("SELECT namespace FROM jobs WHERE tenant_id = :tenant AND job_id = :job")
_STATES = sql("SELECT state, COUNT(*) FROM job_items WHERE tenant_id = :tenant AND job_id = :job GROUP BY state")
# Items that were refused in the request, or skipped, have no generation.
_ITEMS = (
    f" FROM job_items i LEFT JOIN documents d ON {same_document('d', 'i')} AND (d.published_generation >= i.generation"
    f" OR i.outcome = 'unchanged') AND EXISTS (SELECT 1 FROM chunks c WHERE {same_document('c', 'd')}"
    " AND c.generation = d.published_generation)"
)
_THOSE = " WHERE i.tenant_id = :tenant AND i.job_id = :job AND i.generation IS NOT NULL"
_SEARCHABLE = sql(f"SELECT COUNT(*), COUNT(d.document_id){_ITEMS}{_THOSE}")
_MISSING = sql(
    f"SELECT i.document_id, i.state AS status, i.error_code AS code{_ITEMS}{_THOSE} AND d.document_id IS NULL"
    " ORDER BY i.ordinal LIMIT :limit"
)
_SAMPLE = sql(
    "SELECT i.document_id, i.state AS status, g.type,"
    " COALESCE(JSON_UNQUOTE(JSON_EXTRACT(g.metadata, '$.user_input')), '') AS"
    f" user_input{_ITEMS} JOIN generations g ON {same_document('g', 'd')}"
    f" AND g.generation = d.published_generation{_THOSE} AND MOD(i.ordinal, :step) = 0 ORDER BY i.ordinal LIMIT :limit"
)
