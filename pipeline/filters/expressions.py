"""Filters as short texts: ``year > 2020 and tags:hr``, ``team in (a, b)``, ``not (type:draft or 部门:人事)``.

    expression = all {"or" all}          all = one {"and" one}
    one        = "not" one | "(" expression ")" | name test
    test       = ":" value | ":" "*" | ("=" | "!=" | "<" | "<=" | ">" | ">=") value | ["not"] "in" "(" [value {"," value}] ")"

A name is one of the document's own fields or a key of its metadata (``metadata.type`` for a key that is called like a
field); ``:`` also meets a list that holds the value, ``:*`` any value. Values are numbers, ``true``, ``false``, or texts, which
need quotes only for blanks and signs. Dates without a time are whole days, in UTC.
"""

import re
from collections.abc import Callable, Iterator, Mapping
from datetime import UTC, datetime, timedelta
from functools import partial
from typing import Any, Final, NamedTuple, NoReturn

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


class _Token(NamedTuple):
    """A quoted text, a word, a sign or the end, and where it begins, counted from 0."""

    kind: str
    text: str
    at: int


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
        self._text = text
        self._tokens = list(_tokens(text))
        self._next = 0
        self._comparisons = 0

    def whole(self) -> Condition:
        condition = self._any(0)
        if self._now.kind != "end":
            self._refuse("and, or, or the end")
        return condition

    @property
    def _now(self) -> _Token:
        return self._tokens[self._next]

    def _refuse(self, expected: str, token: _Token | None = None) -> NoReturn:
        found = token or self._now
        shown = "the end" if found.kind == "end" else found.text[:40]
        raise ValueError(f"at character {found.at + 1}: expected {expected}, found {shown}")

    def _take(self, *texts: str, kind: str = "sign") -> bool:
        """Consume the next token if it is one of these."""
        token = self._now
        known = token.text.lower() if token.kind == "word" else token.text
        found = token.kind == kind and known in texts
        self._next += found
        return found

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
        if depth > DEEPEST:
            raise ValueError(f"at character {self._now.at + 1}: is nested more than {DEEPEST} deep")
        if self._take("not", kind="word"):
            return Compound(operator="not", parts=(self._one(depth + 1),))
        if self._take("("):
            condition = self._any(depth + 1)
            self._need(")", "and, or, or )")
            return condition
        name = self._now
        if name.kind not in ("word", "quoted") or (name.kind == "word" and name.text.lower() in _WORDS):
            self._refuse("the name of a field, not, or (")
        self._next += 1
        self._comparisons += 1
        if self._comparisons > MOST_COMPARISONS:
            raise ValueError(f"at character {name.at + 1}: has more than {MOST_COMPARISONS} comparisons")
        return self._test(name)

    def _test(self, name: _Token) -> Condition:
        key, own = field_named(name.text)
        negated = self._take("not", kind="word")
        if self._take("in", kind="word"):
            return self._in(name, key, own, negated)
        if negated:
            self._refuse("in")
        sign = self._now
        if sign.kind != "sign" or sign.text not in _SIGNS:
            self._refuse("one of : = != < <= > >= in")
        self._next += 1
        if sign.text == ":" and self._now.kind == "word" and self._now.text == "*":
            self._next += 1
            return Comparison(key=key, operator="exists", value=True, own=own)
        value = self._value(key, own)
        if key == "published_at" and own:
            return self._dated(sign, value)
        operator: Any = _SIGNS[sign.text]
        if own and operator not in ("has", "eq", "ne"):
            self._refuse(f": = or != after {key}", sign)
        if own and key == "tags":
            tag = Comparison(key=key, operator="has", value=value, own=True)
            return Compound(operator="not", parts=(tag,)) if operator == "ne" else tag
        if own and operator == "has":
            operator = "eq"
        return Comparison(key=key, operator=operator, value=value, own=own)

    def _in(self, name: _Token, key: str, own: bool, negated: bool) -> Condition:
        if own and key == "published_at":
            self._refuse("one of : = < <= > >= after published_at", self._tokens[self._next - 1])
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
                self._refuse("a tag", name)
            return Compound(operator="not", parts=(any_of,)) if negated else any_of
        return Comparison(key=key, operator="nin" if negated else "in", value=tuple(values), own=own)

    def _value(self, key: str, own: bool) -> Scalar:
        token = self._now
        if token.kind not in ("word", "quoted"):
            self._refuse("a value")
        self._next += 1
        if own and key == "published_at" and (len(token.text) < len("2026-01-02") or moment_in(token.text) is None):
            self._refuse("a date such as 2026-01-31 or 2026-01-31T08:00:00Z", token)
        if token.kind == "quoted" or own:
            return token.text
        if token.text.lower() in ("true", "false"):
            return token.text.lower() == "true"
        if not _NUMBER.fullmatch(token.text):
            return token.text
        number = float(token.text)
        is_whole = not set(token.text) & set(".eE")
        if not -_LARGEST < number < _LARGEST and (is_whole or abs(number) == float("inf")):
            self._refuse("a number of at most 64 bits", token)
        return int(token.text) if is_whole else number

    def _dated(self, sign: _Token, value: Scalar) -> Condition:
        """Return a comparison with a moment, or with a day from its beginning to the next one's."""
        moment = moment_in(value)
        assert moment is not None
        after = moment + timedelta(days=1) if _DAY.fullmatch(str(value)) else None
        compared = partial(_published, moment)
        match sign.text:
            case ">":
                return compared("gt") if after is None else _published(after, "gte")
            case "<=":
                return compared("lte") if after is None else _published(after - _LEAST, "lte")
            case ">=" | "<":
                return compared(_SIGNS[sign.text])
            case "!=":
                self._refuse("one of : = < <= > >= after published_at", sign)
        last = _published(moment if after is None else after - _LEAST, "lte")
        return Compound(operator="and", parts=(compared("gte"), last))


_LEAST: Final = timedelta(microseconds=1)
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
            yield _Token(kind, token[1:-1] if token[0] == "“" else _ESCAPED.sub(r"\1", token[1:-1]), match.start(kind))
        else:
            yield _Token(kind, _TYPED.get(token, token), match.start(kind))
    rest = text[at:]
    if rest.strip():
        at += len(rest) - len(rest.lstrip())
        what = "a closing quote" if text[at] in "\"'“" else "a name, a value or a sign"
        raise ValueError(f"at character {at + 1}: expected {what}, found {text[at : at + 40]}")
    yield _Token("end", "", len(text))


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
    if _TOKEN.fullmatch(value) and is_text and (_PLAIN.fullmatch(value) or moment_in(value)):
        return value
    return _quoted(value)


def _quoted(text: str) -> str:
    return '"' + text.replace("\\", "\\\\").replace('"', '\\"') + '"'
