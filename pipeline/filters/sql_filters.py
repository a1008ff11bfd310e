"""Filters as SQL conditions with one meaning for both databases, so that every channel applies the same ones."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, Final

from chordwise.contract.document import COMPARED
from pipeline.chunking.strategies.question_answer import ANSWER_KEY, MARK, PAIR_TYPE, QUESTION_KEY
from pipeline.database.rows import to_json, to_naive
from pipeline.filters.index_filters import leaves
from pipeline.filters.python_filters import choices_of, is_exact, kind_of, moment_in
from pipeline.records import Comparison, Compound, Condition, Filters, Scalar

_ORDERS = {"gt": ">", "gte": ">=", "lt": "<", "lte": "<="}
# Signs for numbers that others share a double with: of a condition, and of one that must not hold.
_INCLUSIVE: Final = {"=": "=", ">": ">=", ">=": ">=", "<": "<=", "<=": "<="}
_EXCLUSIVE: Final = {"=": "=", ">": ">", ">=": ">", "<": "<", "<=": "<"}
_MYSQL_KINDS = {
    "string": "'STRING'",
    "number": "'INTEGER', 'UNSIGNED INTEGER', 'DOUBLE', 'DECIMAL'",
    "boolean": "'BOOLEAN'",
}

Compare = Callable[[Comparison, Scalar, str, bool], str]


def mysql_condition(filters: Filters, *, alias: str, chunk: str) -> tuple[str, dict[str, Any]]:
    """Return a condition on a row of ``generations`` and one of ``chunks``, whose own story time goes first, with its
    values; ``TRUE`` without any. Every row that meets the filters meets it, and few others do: the servers compare numbers
    beyond 2**53 as doubles, and MariaDB finds an object in a list. Callers judge the rows by `python_filters.unmet`."""
    if not filters:
        return "TRUE", {}
    story_time = f"COALESCE({chunk}.story_time, {alias}.story_time)"
    metadata = to_json(dict(filters.metadata)) if filters.metadata else None
    parts, values = _with_operands(
        **{f"f_{name}": (_same(f"{alias}.{name}", f"f_{name}"), getattr(filters, name)) for name in COMPARED},
        f_tags=(f"JSON_CONTAINS({alias}.tags, :f_tags)", to_json(list(filters.tags)) if filters.tags else None),
        f_metadata=(f"JSON_CONTAINS({alias}.metadata, :f_metadata)", metadata),
        f_start=(f"{alias}.published_at >= :f_start", filters.start and to_naive(filters.start)),
        f_end=(f"{alias}.published_at <= :f_end", filters.end and to_naive(filters.end)),
        f_story_time=(f"({story_time} IS NULL OR {story_time} <= :f_story_time)", filters.story_time),
    )
    if filters.readers is not None:
        parts.append(mysql_readable(filters.readers, f"{alias}.readers", values))
    if filters.pairs:
        example = f"JSON_CONTAINS_PATH({alias}.metadata, 'all', '$.{QUESTION_KEY}', '$.{ANSWER_KEY}')"
        parts.append(f"({chunk}.chunk_type = '{PAIR_TYPE}' OR {example})")
    if filters.where is not None:
        parts.append(mysql_where(filters.where, f"{alias}.metadata", values, own=f"{alias}."))
    return " AND ".join(parts) or "TRUE", values


def _same(column: str, name: str) -> str:
    """Compare texts byte by byte; the first comparison, which ignores trailing blanks, can use an index."""
    return f"({column} = :{name} AND CAST({column} AS BINARY) = CAST(:{name} AS BINARY))"


def postgres_condition(filters: Filters) -> tuple[str, dict[str, Any]]:
    """Return the same condition on a row of ``chunk_embeddings``."""
    if not filters:
        return "TRUE", {}
    parts, values = _with_operands(
        **{f"f_{name}": (f"{name} = :f_{name}", getattr(filters, name)) for name in COMPARED},
        f_tags=("tags @> CAST(:f_tags AS text[])", list(filters.tags) or None),
        f_start=("published_at >= :f_start", filters.start),
        f_end=("published_at <= :f_end", filters.end),
        f_story_time=("(story_time IS NULL OR story_time <= :f_story_time)", filters.story_time),
    )
    if filters.readers is not None:
        # Not `&&`, which compares every reader with every principal.
        named = "EXISTS (SELECT 1 FROM unnest(readers) AS reader WHERE reader = ANY(CAST(:f_readers AS text[])))"
        parts.append(f"(readers IS NULL OR {named})")
        values["f_readers"] = list(filters.readers)
    parts += _postgres_metadata(filters.metadata, values)
    if filters.pairs:
        example = f"jsonb_exists_all(metadata, ARRAY['{QUESTION_KEY}', '{ANSWER_KEY}'])"
        parts.append(f"(metadata @> CAST(:f_pair AS jsonb) OR {example})")
        values["f_pair"] = to_json(MARK)
    if filters.where is not None:
        parts.append(postgres_where(filters.where, "metadata", values))
    return " AND ".join(parts) or "TRUE", values


def mysql_readable(principals: Sequence[str], column: str, values: dict[str, Any]) -> str:
    """Return the condition that one of the principals may read what has these readers; its operands are added to ``values``."""
    values["f_readers"] = to_json(list(principals))
    return f"({column} IS NULL OR JSON_OVERLAPS({column}, :f_readers))"


def _with_operands(**conditions: tuple[str, object]) -> tuple[list[str], dict[str, Any]]:
    """Return the conditions whose operand is set, and the operands by name."""
    present = {name: pair for name, pair in conditions.items() if pair[1] is not None}
    return [condition for condition, _ in present.values()], {name: operand for name, (_, operand) in present.items()}


def _postgres_metadata(metadata: Mapping[str, Any], values: dict[str, Any]) -> Iterator[str]:
    """Yield one condition for each wanted value, together JSON_CONTAINS of ``metadata``. A list meets a value that it
    holds; below the top level PostgreSQL's ``@>`` needs the list as a second alternative."""
    for number, (path, value) in enumerate(leaves(metadata, ())):
        wanted = [value] if isinstance(value, list | tuple | Mapping) else [value, [value]]
        names = [f"f_metadata_{number}", f"f_metadata_{number}_listed"][: len(wanted)]
        values.update({name: to_json(_nested(path, item)) for name, item in zip(names, wanted, strict=True)})
        yield f"({' OR '.join(f'metadata @> CAST(:{name} AS jsonb)' for name in names)})"


def _nested(path: tuple[str, ...], value: Any) -> Any:
    for key in reversed(path):
        value = {key: value}
    return value


def mysql_where(condition: Condition, column: str, values: dict[str, Any], *, own: str = "") -> str:
    """Return an SQL condition that is true or false and never unknown; its operands are added to ``values``. ``own``: the
    table of the document's own fields, with a dot."""

    def of_own(comparison: Comparison, value: Scalar, sign: str) -> str:
        name = own + comparison.key
        if comparison.operator == "exists":
            return f"COALESCE(JSON_LENGTH({name}) > 0, FALSE)" if comparison.key == "tags" else f"{name} IS NOT NULL"
        if comparison.key == "tags":
            return f"COALESCE(JSON_CONTAINS({name}, :{_bind(values, to_json(value))}), FALSE)"
        if comparison.key == "published_at":
            moment = moment_in(value)
            bound = None if moment is None else to_naive(moment)
            return f"COALESCE({name} {sign} :{_bind(values, bound)}, FALSE)"
        return f"COALESCE({_same(name, _bind(values, value))}, FALSE)"

    def compared(comparison: Comparison, value: Scalar, sign: str, negated: bool) -> str:
        if comparison.own:
            return of_own(comparison, value, sign)
        if comparison.operator == "has":
            wanted = _bind(values, to_json({comparison.key: value}))
            return f"COALESCE(JSON_CONTAINS({column}, :{wanted}), FALSE)"
        path = _bind(values, "$." + to_json(comparison.key))  # a key in a path is written as in JSON
        if comparison.operator == "exists":
            return f"COALESCE(JSON_CONTAINS_PATH({column}, 'one', :{path}), FALSE)"
        held, kind = f"JSON_EXTRACT({column}, :{path})", kind_of(value) or ""
        if kind == "boolean":
            test = f"JSON_UNQUOTE({held}) = '{'true' if value else 'false'}'"
        elif kind == "number":
            sign = sign if is_exact(value) else (_EXCLUSIVE if negated else _INCLUSIVE)[sign]
            test = f"CAST({held} AS DOUBLE) {sign} :{_bind(values, float(value))}"
        else:
            test = f"CAST(JSON_UNQUOTE({held}) AS BINARY) {sign} CAST(:{_bind(values, value)} AS BINARY)"
        return f"CASE WHEN JSON_TYPE({held}) IN ({_MYSQL_KINDS[kind]}) THEN {test} ELSE FALSE END"

    return _condition_sql(condition, compared, rejects=is_exact)


def postgres_where(condition: Condition, column: str, values: dict[str, Any]) -> str:
    """Return the condition for PostgreSQL; see `mysql_where`."""

    def of_own(comparison: Comparison, value: Scalar, sign: str) -> str:
        name = comparison.key
        if comparison.operator == "exists":
            return f"COALESCE(cardinality({name}) > 0, FALSE)" if name == "tags" else f"{name} IS NOT NULL"
        if name == "tags":
            return f"COALESCE({name} @> CAST(:{_bind(values, [value])} AS text[]), FALSE)"
        bound = _bind(values, moment_in(value) if name == "published_at" else value)
        return f"COALESCE({name} {sign} :{bound}, FALSE)"

    def compared(comparison: Comparison, value: Scalar, sign: str, _negated: bool) -> str:
        if comparison.own:
            return of_own(comparison, value, sign)
        if comparison.operator == "has":
            names = [_bind(values, to_json({comparison.key: item})) for item in (value, [value])]
            return f"({' OR '.join(f'COALESCE({column} @> CAST(:{name} AS jsonb), FALSE)' for name in names)})"
        key = f"CAST(:{_bind(values, comparison.key)} AS text)"
        if comparison.operator == "exists":
            return f"COALESCE(jsonb_exists({column}, {key}), FALSE)"
        kind = kind_of(value)
        if kind == "boolean":
            test = f"({column} ->> {key}) = '{'true' if value else 'false'}'"
        elif kind == "number":
            test = f"CAST({column} ->> {key} AS numeric) {sign} CAST(:{_bind(values, str(value))} AS numeric)"
        else:
            test = f'({column} ->> {key}) COLLATE "C" {sign} CAST(:{_bind(values, value)} AS text)'
        return f"CASE WHEN jsonb_typeof({column} -> {key}) = '{kind}' THEN {test} ELSE FALSE END"

    return _condition_sql(condition, compared)


def _condition_sql(
    condition: Condition,
    compared: Compare,
    *,
    rejects: Callable[[Scalar], bool] = lambda _: True,
    negated: bool = False,
) -> str:
    """Return the condition in SQL, or its contrary if ``negated``. ``rejects``: whether rows that equal a value in SQL are
    certain to equal it."""
    if isinstance(condition, Compound) and condition.operator == "not":
        inner = Compound(operator="or", parts=condition.parts)
        return _condition_sql(inner, compared, rejects=rejects, negated=not negated)
    if isinstance(condition, Comparison):
        if condition.operator in _ORDERS:
            assert not isinstance(condition.value, tuple)
            sign = _ORDERS[condition.operator]
            is_ordered = kind_of(condition.value) != "boolean"
            ordered = compared(condition, condition.value, sign, negated) if is_ordered else "FALSE"
            return f"NOT ({ordered})" if negated else ordered
        is_negated = (condition.operator in ("ne", "nin")) != negated
        values = [value for value in choices_of(condition) if rejects(value) or not is_negated]
        any_of = [compared(condition, value, "=", is_negated) for value in values]
        equal = f"({' OR '.join(any_of)})" if any_of else "FALSE"
        return f"NOT {equal}" if is_negated else equal
    parts = [_condition_sql(part, compared, rejects=rejects, negated=negated) for part in condition.parts]
    is_and = (condition.operator == "and") != negated
    if not parts:
        return "TRUE" if is_and else "FALSE"
    return f"({(' AND ' if is_and else ' OR ').join(parts)})"


def _bind(values: dict[str, Any], value: object) -> str:
    """Add a value under a new name, and return the name."""
    name = f"f_where_{len(values)}"
    values[name] = value
    return name
