"""Filters as short texts: ``year > 2020 and tags:hr``, ``team in (a, b)``, ``not (type:draft or 部门:人事)``.

    expression = all {"or" all}          all = one {"and" one}
    one        = "not" one | "(" expression ")" | name test
    test       = ":" value | ":" "*" | ("=" | "!=" | "<" | "<=" | ">" | ">=") value | ["not"] "in" "(" [value {"," value}] ")"

A name is one of the document's own fields or a key of its metadata (``metadata.type`` for a key that is called like a
field); ``:`` also meets a list that holds the value, ``:*`` any value. Values are numbers, ``true``, ``false``, or texts, which
need quotes only for blanks and signs. Dates without a time are whole days, in UTC.
"""

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from functools import partial
from typing import Any, Final, NoReturn

import orjson

from chordwise.contract.document import COMPARED
from pipeline.filters.python_filters import METADATA, OWN_FIELDS, condition_as_json, moment_in
from pipeline.records import Comparison, Compound, Condition, Scalar

MOST_COMPARISONS: Final = 64
DEEPEST: Final = 16
_WORDS: Final = ("and", "or", "not", "in")
_SIGNS: Final = {":": "has", "=": "eq", "!=": "ne", ">": "gt", ">=": "gte", "<": "lt", "<=": "lte"}
_TYPED: Final = {"（": "(", "）": ")", "，": ",", "、": ",", "：": ":", "＝": "=", "==": "=", "＜": "<", "＞": ">"} | {
    "≥": ">=",
    "≤": "<=",
    "≠": "!=",
    "！=": "!=",
}
_TOKEN: Final = re.compile(
    r"""\s*(?:(?P<quoted>"(?:[^"\\]|\\.)*"|'(?:[^'\\]|\\.)*'|“[^”]*”)
    |(?P<word>\d{4}-\d\d-\d\d[Tt]\d\d:\d\d(?::\d\d)?(?:\.\d+)?(?:[Zz]|[+-]\d\d:\d\d)?
        |[^\s"'“”()（），、,:：=＝!！<>＜＞≥≤≠]+)
    |(?P<sign>[!<>=]=|！=|[()（），、,:：=＝<>＜＞≥≤≠]))""",
    re.VERBOSE | re.DOTALL,
)
_ESCAPED: Final = re.compile(r"\\(.)", re.DOTALL)
_NUMBER: Final = re.compile(r"[+-]?\d+(\.\d+)?([eE][+-]?\d+)?", re.ASCII)
_DAY: Final = re.compile(r"\d{4}-\d\d-\d\d", re.ASCII)
_PLAIN: Final = re.compile(r"""[^\s"'“”()（），、,:：=＝!！<>＜＞≥≤≠*]+""")
_LARGEST: Final = 2**63


_Token = tuple[str, str, int]  # quoted, word, sign or end; its text; where it begins, from 0


def parse_filter(text: str) -> dict[str, Any]:
    """Return an expression as the filters of a query in JSON. Raises ValueError with the position and the expectation."""
    return _as_filters(parse_condition(text))


def parse_condition(text: str) -> Condition:
    """Return an expression as one condition. Raises ValueError with the position and the expectation."""
    return _Parser(text).whole()


def write_filter(filters: Mapping[str, Any]) -> str | None:
    """Return filters in JSON as an expression, empty for none; None where no expression says the same."""
    parts = [
        Comparison(key=name, operator="eq", value=filters[name], own=True) for name in COMPARED if filters.get(name)
    ]
    parts += (Comparison(key="tags", operator="has", value=tag, own=True) for tag in filters.get("tags") or ())
    for key, value in (filters.get("metadata") or {}).items():
        if not isinstance(value, str | int | float):
            return None
        parts.append(Comparison(key=key, operator="has", value=value))
    texts = list(map(_written, parts))
    texts += (f"published_at {sign} {filters[name]}" for name, sign in _BOUNDS.items() if filters.get(name))
    if where := filters.get("where"):
        texts.append(_written_json(where, nested=bool(texts)))
    return " and ".join(texts)


def field_named(name: str) -> tuple[str, bool]:
    """Return the field or key of a name, and whether it is one of the document's own fields."""
    return (name, True) if name in OWN_FIELDS else (name.removeprefix(METADATA), False)


class _Parser:
    def __init__(self, text: str) -> None:
        self._tokens = list(_tokens(text))
        self._next = 0
        self._comparisons = 0

    def whole(self) -> Condition:
        condition = self._any(0)
        if self._tokens[self._next][0] != "end":
            self._refuse("and, or, or the end")
        return condition

    def _refuse(self, expected: str, *, before: int = 0) -> NoReturn:
        """Raise ValueError for the next token, or one of those before it."""
        kind, text, at = self._tokens[self._next - before]
        raise ValueError(
            f"at character {at + 1}: expected {expected}, found {'the end' if kind == 'end' else text[:40]}"
        )

    def _take(self, *texts: str, kind: str = "sign") -> bool:
        """Consume the next token if it is one of these."""
        found_kind, text, _ = self._tokens[self._next]
        found = found_kind == kind and (text.lower() if kind == "word" else text) in texts
        self._next += found
        return found

    def _read(self, expected: str, *, reserved: Sequence[str] = ()) -> tuple[str, bool]:
        """Consume a word or a quoted text, and return it and whether it is quoted."""
        kind, text, _ = self._tokens[self._next]
        if kind not in ("word", "quoted") or (kind == "word" and text.lower() in reserved):
            self._refuse(expected)
        self._next += 1
        return text, kind == "quoted"

    def _need(self, sign: str, expected: str) -> None:
        if not self._take(sign):
            self._refuse(expected)

    def _any(self, depth: int) -> Condition:
        return self._joined("or", partial(self._all, depth))

    def _all(self, depth: int) -> Condition:
        return self._joined("and", partial(self._one, depth))

    def _joined(self, word: Any, part: Callable[[], Condition]) -> Condition:
        parts = [part()]
        while self._take(word, kind="word"):
            parts.append(part())
        return parts[0] if len(parts) == 1 else Compound(operator=word, parts=tuple(parts))

    def _one(self, depth: int) -> Condition:
        at = self._tokens[self._next][2] + 1
        if depth > DEEPEST:
            raise ValueError(f"at character {at}: is nested more than {DEEPEST} deep")
        if self._take("not", kind="word"):
            return Compound(operator="not", parts=(self._one(depth + 1),))
        if self._take("("):
            condition = self._any(depth + 1)
            self._need(")", "and, or, or )")
            return condition
        name, _ = self._read("the name of a field, not, or (", reserved=_WORDS)
        self._comparisons += 1
        if self._comparisons > MOST_COMPARISONS:
            raise ValueError(f"at character {at}: has more than {MOST_COMPARISONS} comparisons")
        return self._test(*field_named(name))

    def _test(self, key: str, own: bool) -> Condition:
        negated = self._take("not", kind="word")
        if self._take("in", kind="word"):
            return self._in(key, own, negated)
        if negated:
            self._refuse("in")
        sign = self._tokens[self._next][1]
        if not self._take(*_SIGNS):
            self._refuse("one of : = != < <= > >= in")
        if sign == ":" and self._take("*", kind="word"):
            return Comparison(key=key, operator="exists", value=True, own=own)
        value = self._value(key, own)
        if key == "published_at" and own:
            return self._dated(sign, value)
        operator: Any = _SIGNS[sign]
        if own and operator not in ("has", "eq", "ne"):
            self._refuse(f": = or != after {key}", before=2)
        if own and key == "tags":
            tag = Comparison(key=key, operator="has", value=value, own=True)
            return Compound(operator="not", parts=(tag,)) if operator == "ne" else tag
        if own and operator == "has":
            operator = "eq"
        return Comparison(key=key, operator=operator, value=value, own=own)

    def _in(self, key: str, own: bool, negated: bool) -> Condition:
        if own and key == "published_at":
            self._refuse("one of : = < <= > >= after published_at", before=1)
        self._need("(", "( before the values")
        values: list[Scalar] = []
        while not self._take(")"):
            if values:
                self._need(",", ", or )")
            values.append(self._value(key, own))
        if key == "tags" and own:
            tags = tuple(Comparison(key=key, operator="has", value=value, own=True) for value in values)
            any_of = tags[0] if len(tags) == 1 else Compound(operator="or", parts=tags)
            if not tags:
                self._refuse("a tag", before=1)
            return Compound(operator="not", parts=(any_of,)) if negated else any_of
        return Comparison(key=key, operator="nin" if negated else "in", value=tuple(values), own=own)

    def _value(self, key: str, own: bool) -> Scalar:
        text, is_quoted = self._read("a value", reserved=_WORDS)
        if own and key == "published_at" and _moment(text) is None:
            self._refuse("a date such as 2026-01-31 or 2026-01-31T08:00:00Z", before=1)
        if is_quoted or own:
            return text
        if text.lower() in ("true", "false"):
            return text.lower() == "true"
        if not _NUMBER.fullmatch(text):
            return text
        number = float(text)
        is_whole = not set(text) & set(".eE")
        if not -_LARGEST < number < _LARGEST and (is_whole or abs(number) == float("inf")):
            self._refuse("a number of at most 64 bits", before=1)
        return int(text) if is_whole else number

    def _dated(self, sign: str, value: Scalar) -> Condition:
        """Return a comparison with a moment, or with a day from its beginning to the next one's."""
        moment = _moment(str(value))
        assert moment is not None
        last = moment + _DAY_S - _LEAST if _DAY.fullmatch(str(value)) else moment
        match sign:
            case ">" | "<=":
                return _published(last, _SIGNS[sign])
            case ">=" | "<":
                return _published(moment, _SIGNS[sign])
            case "!=":
                self._refuse("one of : = < <= > >= after published_at", before=2)
        return Compound(operator="and", parts=(_published(moment, "gte"), _published(last, "lte")))


def _moment(text: str) -> datetime | None:
    """Return the moment of a day or a time, None for a text that is none, or whose day has no end."""
    moment = moment_in(text) if _DAY.match(text) else None
    return None if moment is None or moment.year > _LAST_YEAR else moment


_LEAST: Final = timedelta(microseconds=1)
_DAY_S: Final = timedelta(days=1)
_LAST_YEAR: Final = 9998  # a later time may lie beyond the year 9999 in another zone
_BOUNDS: Final = {"start": ">=", "end": "<="}


def _published(moment: datetime, operator: Any) -> Comparison:
    text = moment.astimezone(UTC).isoformat().replace("+00:00", "Z")
    return Comparison(key="published_at", operator=operator, value=text, own=True)


def _tokens(text: str) -> Iterator[_Token]:
    at = 0
    while match := _TOKEN.match(text, at):
        kind = str(match.lastgroup)
        token, at = match[kind], match.end()
        if kind == "quoted":
            yield kind, token[1:-1] if token[0] == "“" else _ESCAPED.sub(r"\1", token[1:-1]), match.start(kind)
        else:
            yield kind, _TYPED.get(token, token), match.start(kind)
    rest = text[at:]
    if rest.strip():
        at += len(rest) - len(rest.lstrip())
        what = "a closing quote" if text[at] in "\"'“" else "a name, a value or a sign"
        raise ValueError(f"at character {at + 1}: expected {what}, found {text[at : at + 40]}")
    yield "end", "", len(text)


def _as_filters(condition: Condition) -> dict[str, Any]:
    """Return a condition as filters: what they say by themselves there, the rest as ``where``."""
    is_all = isinstance(condition, Compound) and condition.operator == "and"
    filters: dict[str, Any] = {}
    parts = _flat(condition) if is_all else [condition]
    rest = [part for part in parts if not isinstance(part, Comparison) or not _taken(part, filters)]
    if rest:
        where = rest[0] if len(rest) == 1 else Compound(operator="and", parts=tuple(rest))
        filters["where"] = condition_as_json(where)
    return filters


def _flat(condition: Condition) -> Iterator[Condition]:
    if isinstance(condition, Compound) and condition.operator == "and":
        for part in condition.parts:
            yield from _flat(part)
    else:
        yield condition


def _taken(part: Comparison, filters: dict[str, Any]) -> bool:
    """Add a comparison to filters that have a name for it, and return whether they do."""
    if not part.own:
        of_metadata = filters.get("metadata", {})
        if part.operator != "has" or part.key in of_metadata:
            return False
        filters["metadata"] = {**of_metadata, part.key: part.value}
        return True
    if part.key == "tags" and part.operator == "has":
        filters["tags"] = list(dict.fromkeys([*filters.get("tags", ()), part.value]))
        return True
    bounds = {"gte": "start", "lte": "end"} if part.key == "published_at" else {"eq": part.key}
    name = bounds.get(part.operator)
    if name is None or name in filters:
        return False
    filters[name] = part.value
    return True


def _written_json(where: Mapping[str, Any], *, nested: bool) -> str:
    kind = where["type"]
    if "filters" not in where:
        key, own = field_named(where["key"])
        value = tuple(where["value"]) if isinstance(where["value"], list) else where["value"]
        return _written(Comparison(key=key, operator=kind, value=value, own=own))
    parts = [_written_json(part, nested=True) for part in where["filters"]]
    if kind == "not":
        return f"not {parts[0]}"
    joined = f" {kind} ".join(parts)
    return f"({joined})" if nested and len(parts) > 1 else joined


def _written(comparison: Comparison) -> str:
    key, value = comparison.key, comparison.value
    plain = key if comparison.own or (key not in OWN_FIELDS and not key.startswith(METADATA)) else METADATA + key
    name = plain if _PLAIN.fullmatch(plain) and plain.lower() not in _WORDS else _quoted(plain)
    if comparison.operator == "exists":
        return f"{name}:*"
    if isinstance(value, tuple):
        values = ", ".join(_as_value(each, comparison.own) for each in value)
        return f"{name} {'not in' if comparison.operator == 'nin' else 'in'} ({values})"
    sign = next(sign for sign, operator in _SIGNS.items() if operator == comparison.operator)
    if sign == ":" or (comparison.own and comparison.operator == "eq"):
        return f"{name}:{_as_value(value, comparison.own)}"
    return f"{name} {sign} {_as_value(value, comparison.own)}"


def _as_value(value: Scalar, own: bool) -> str:
    if not isinstance(value, str):
        return orjson.dumps(value).decode()
    is_text = own or not (_NUMBER.fullmatch(value) or value.lower() in ("true", "false"))
    is_text = is_text and value.lower() not in _WORDS
    if _TOKEN.fullmatch(value) and is_text and (_PLAIN.fullmatch(value) or moment_in(value)):
        return value
    return _quoted(value)


def _quoted(text: str) -> str:
    return '"' + text.replace("\\", "\\\\").replace('"', '\\"') + '"'
