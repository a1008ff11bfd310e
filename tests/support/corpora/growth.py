"""Generate hostile inputs from a pattern, and measure whether the time of a call grows faster than its input."""

from __future__ import annotations

import ast
import importlib
import pkgutil
import re
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, fields, is_dataclass
from itertools import chain, islice
from pathlib import Path
from re import _constants as ops  # type: ignore[attr-defined]
from re import _parser  # type: ignore[attr-defined]
from types import ModuleType
from typing import Any

# Runs that have made patterns and loops slow elsewhere: white space of both kinds, marks, digits, both scripts,
# openers.
RUNS = (
    *(
        " ",
        "\u00a0",
        "\u3000",
        "\t",
        "\n",
        "\r\n",
        ".",
        ",",
        "-",
        "_",
        "/",
        "\\",
        "\\\\",
        "'",
        '"',
        "`",
        "*",
        "#",
        "|",
        "~",
    ),
    *("0", "1", "a", "A", "é", "句", "。", "，", "！", "「", "《", "（", "\u200b", "\ufe0f", "👩\u200d", "e\u0301"),
    *("(", "[", "{", "<", "[(", "![", "<!--", "</", "<a ", "a ", "a.", "a,", "a-", "1,", "1.", " \n", "\n "),
    *('="', "[](a", "a=", "=", ":", "@"),
)
ENDS = ("", "\x00")
_MANY = 64  # repetitions from which a bounded repeat counts as unbounded
_MOST_EXAMPLES = 40  # inputs of one pattern that are made from its own tree
SCALES = (32, 512, 4096)  # characters; a pattern that is slow at one is not tried at the next
_FLOOR_S = 0.002  # of processor time for the longest input, below which growth is noise
_STEEPEST = 2.5  # times the growth of the input between the last two scales; a square has 8
_GIVE_UP_S = 0.5
_CANDIDATES = "a0 .\n-_,A\"'<>()[]{}:;=#*`~|/\\@+&!?\t\u00a0é句。，\u200b\x00"


@dataclass(frozen=True)
class Found:
    """A pattern of the project: ``where`` it stands, and the methods that its own module calls on it."""

    where: str
    pattern: re.Pattern[Any]
    methods: frozenset[str]


@dataclass(frozen=True)
class Slow:
    """An input on which a call grew faster than it may."""

    example: str
    seconds: tuple[float, ...]

    def __str__(self) -> str:
        return f"{self.example!r}: {', '.join(f'{each * 1000:.2f} ms' for each in self.seconds)}"


def patterns_of(packages: Iterable[str], *, without: Sequence[str] = ()) -> list[Found]:
    """Return every compiled pattern that a module of ``packages`` holds in a global, a class or a container of these,
    and every pattern literal in a call of `re`."""
    seen: dict[tuple[Any, int], Found] = {}
    for module in modules_of(packages, without=without):
        source = Path(str(module.__file__)).read_text(encoding="utf-8")
        held = [(name, each) for name, value in vars(module).items() for each in _patterns_in(value, module.__name__)]
        used = _calls(source) if held else {}
        for name, pattern in held:
            key = (pattern.pattern, pattern.flags)
            before = seen.get(key)
            methods = used.get(name, frozenset()) | (before.methods if before else frozenset())
            seen[key] = Found(before.where if before else f"{module.__name__}.{name}", pattern, methods)
        for method, literal in _literals(source) if "re." in source else ():
            pattern = re.compile(literal)
            where = f"{module.__name__}: {literal}"
            seen.setdefault((literal, pattern.flags), Found(where, pattern, frozenset({method})))
    return list(seen.values())


def modules_of(packages: Iterable[str], *, without: Sequence[str] = ()) -> Iterator[ModuleType]:
    """All modules of these packages, imported."""
    for package in packages:
        parent = importlib.import_module(package)
        yield parent
        for each in pkgutil.walk_packages(getattr(parent, "__path__", []), f"{package}."):
            if not any(each.name.startswith(prefix) for prefix in without) and not each.name.endswith("__main__"):
                yield importlib.import_module(each.name)


def slow_input(found: Found, *, hostile_runs: bool) -> Slow | None:
    """Return an input on which the pattern, called as its module calls it, takes superlinear time; None if there is
    none. Inputs are made of the pattern's own repeats; with ``hostile_runs`` of the usual hostile runs, too."""
    for method in _ways(found):
        for example in chain(runs() if hostile_runs else (), examples(found.pattern)):
            if (slow := grows(lambda text, call=method: call(_typed(text, found.pattern)), example)) is not None:
                return slow
    return None


def grows(
    call: Callable[[str], object],
    example: Callable[[int], str],
    *,
    scales: Sequence[int] = SCALES,
    floor_s: float = _FLOOR_S,
) -> Slow | None:
    """Return a Slow if the processor time of ``call``, the least of several tries, grows faster than its input, else
    None.

    Return None if the longest input takes less than ``floor_s``.
    """
    seconds: list[float] = []
    for size in scales:
        text = example(size)
        seconds.append(processor_time(call, text, tries=1))
        if seconds[-1] > _GIVE_UP_S and size < scales[-1]:
            seconds[-1] = min(seconds[-1], processor_time(call, text, tries=1))
            if seconds[-1] > _GIVE_UP_S:
                return Slow(_shown(example), tuple(seconds))
    if seconds[-1] <= floor_s:
        return None
    short, long = example(scales[-2]), example(scales[-1])
    for _ in range(3):  # noise goes away, growth does not
        before, after = (
            processor_time(call, short, tries=4),
            processor_time(call, long, tries=1 if seconds[-1] > 0.1 else 3),
        )
        seconds[-2:] = [before, after]
        if after <= floor_s or after / before <= _STEEPEST * len(long) / len(short):
            return None
    return Slow(_shown(example), tuple(seconds))


def examples(pattern: re.Pattern[Any]) -> Iterator[Callable[[int], str]]:
    """Inputs of any length: what the pattern's own repeats accept, with several ends."""
    text = pattern.pattern if isinstance(pattern.pattern, str) else pattern.pattern.decode("latin-1")
    tree = _parser.parse(text, pattern.flags & ~re.DEBUG)
    made = dict.fromkeys(chain.from_iterable(_pumped(tree, "")))
    for prefix, unit in islice(made, _MOST_EXAMPLES):
        for end in ("", "\x00"):
            yield run_of(unit, end, prefix=prefix)
        if prefix:
            yield run_of(prefix + unit, "\x00")


def runs(ends: Sequence[str] = ENDS) -> Iterator[Callable[[int], str]]:
    """Every hostile run with every end."""
    for unit in RUNS:
        for end in ends:
            yield run_of(unit, end)


def run_of(unit: str, end: str = "", *, prefix: str = "") -> Callable[[int], str]:
    """``unit`` as often as fits into a length, between ``prefix`` and ``end``."""

    def of(size: int) -> str:
        return prefix + unit * max(1, size // len(unit)) + end

    return of


def _shown(example: Callable[[int], str]) -> str:
    return example(12)


def processor_time(call: Callable[[str], object], text: str, *, tries: int) -> float:
    least = float("inf")
    for _ in range(tries):
        began = time.thread_time()
        call(text)
        least = min(least, time.thread_time() - began)
    return least


def _typed(text: str, pattern: re.Pattern[Any]) -> Any:
    return text if isinstance(pattern.pattern, str) else text.encode("latin-1", "replace")


_ANCHORED = frozenset({"match", "fullmatch"})


def _ways(found: Found) -> Iterator[Callable[[Any], object]]:
    pattern, methods = found.pattern, found.methods
    if not methods or methods - _ANCHORED:
        yield pattern.findall  # goes through the text as search, sub, split and finditer do
    if not methods or "match" in methods:
        yield pattern.match
    if not methods or "fullmatch" in methods:
        yield pattern.fullmatch


def _patterns_in(held: Any, module: str, *, depth: int = 0) -> Iterator[re.Pattern[Any]]:
    if isinstance(held, re.Pattern):
        yield held
    elif depth > 3:
        return
    elif isinstance(held, dict):
        yield from chain.from_iterable(_patterns_in(each, module, depth=depth + 1) for each in list(held.values()))
    elif isinstance(held, list | tuple | set | frozenset):
        yield from chain.from_iterable(_patterns_in(each, module, depth=depth + 1) for each in held)
    elif isinstance(held, type) and held.__module__ == module:
        yield from chain.from_iterable(
            _patterns_in(each, module, depth=depth + 1) for each in list(vars(held).values())
        )
    elif is_dataclass(held) and type(held).__module__ == module:
        values = (getattr(held, each.name) for each in fields(held))
        yield from chain.from_iterable(_patterns_in(each, module, depth=depth + 1) for each in values)
    elif isinstance(getattr(held, "__self__", None), re.Pattern):  # a bound method of one
        yield held.__self__


def _calls(source: str) -> dict[str, frozenset[str]]:
    """The methods called on each name; a name that is also handed on as a value has none, so all are tried."""
    methods: dict[str, set[str]] = {}
    handed_on: set[str] = set()
    tree = ast.parse(source)
    with_method = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name):
            methods.setdefault(node.value.id, set()).add(node.attr)
            with_method.add(id(node.value))
    for node in ast.walk(tree):
        if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Load) and id(node) not in with_method:
            handed_on.add(node.id)
    known = {"match", "fullmatch", "search", "sub", "subn", "split", "finditer", "findall"}
    return {name: frozenset(used & known) for name, used in methods.items() if name not in handed_on}


def _literals(source: str) -> Iterator[tuple[str, str]]:
    """Patterns written into a call of `re`; those that a name is given to are found by that name."""
    for node in ast.walk(ast.parse(source)):
        if (
            isinstance(node, ast.Call)
            and isinstance(node.func, ast.Attribute)
            and isinstance(node.func.value, ast.Name)
            and node.func.value.id == "re"
            and node.func.attr != "compile"
            and node.args
            and isinstance(node.args[0], ast.Constant)
            and isinstance(node.args[0].value, str)
        ):
            yield node.func.attr, node.args[0].value


def _pumped(tree: Any, prefix: str) -> Iterator[Iterable[tuple[str, str]]]:
    """Yield, for every repeat in the tree, pairs of a prefix before it and a unit that it repeats."""
    for operation, argument in tree:
        if operation in (ops.MAX_REPEAT, ops.MIN_REPEAT, ops.POSSESSIVE_REPEAT):
            _, most, body = argument
            if most == ops.MAXREPEAT or most >= _MANY:
                yield [(prefix, unit) for unit in _units(body)]
            yield from _pumped(body, prefix)
        elif operation is ops.BRANCH:
            for branch in argument[1]:
                yield from _pumped(branch, prefix)
        elif operation is ops.SUBPATTERN:
            yield from _pumped(argument[3], prefix)
        elif operation is ops.ATOMIC_GROUP:
            yield from _pumped(argument, prefix)
        elif operation in (ops.ASSERT, ops.ASSERT_NOT):
            yield from _pumped(argument[1], prefix)
        prefix += _least([(operation, argument)])
    if prefix:
        yield [("", prefix)]


def _units(body: Any) -> list[str]:
    """Return units of a repeat: the shortest text its body accepts and, for a single set, several of its characters."""
    units = [_least(body)]
    items = list(body)
    if len(items) == 1 and items[0][0] in (ops.IN, ops.ANY, ops.NOT_LITERAL, ops.BRANCH, ops.SUBPATTERN):
        units += [each for each in _CANDIDATES if _accepts(items, each)][:14]
        units += _branches(items)
    return [unit for unit in dict.fromkeys(units) if unit]


def _branches(items: Any) -> list[str]:
    operation, argument = items[0]
    if operation is ops.SUBPATTERN:
        inner = list(argument[3])
        return _branches(inner) if len(inner) == 1 else []
    return [_least(branch) for branch in argument[1]] if operation is ops.BRANCH else []


def _accepts(items: Any, character: str) -> bool:
    operation, argument = items[0]
    if operation is ops.ANY:
        return character != "\n"
    if operation is ops.NOT_LITERAL:
        return ord(character) != argument
    if operation is ops.LITERAL:
        return ord(character) == argument
    if operation is ops.IN:
        return _in_set(argument, character)
    if operation is ops.SUBPATTERN:
        return len(argument[3]) == 1 and _accepts(list(argument[3]), character)
    if operation is ops.BRANCH:
        return any(len(branch) == 1 and _accepts(list(branch), character) for branch in argument[1])
    return False


_CATEGORIES = {
    ops.CATEGORY_DIGIT: r"\d",
    ops.CATEGORY_NOT_DIGIT: r"\D",
    ops.CATEGORY_SPACE: r"\s",
    ops.CATEGORY_NOT_SPACE: r"\S",
    ops.CATEGORY_WORD: r"\w",
    ops.CATEGORY_NOT_WORD: r"\W",
}


def _in_set(items: Any, character: str) -> bool:
    code, negated, inside = ord(character), False, False
    for operation, argument in items:
        if operation is ops.NEGATE:
            negated = True
        elif operation is ops.LITERAL:
            inside |= code == argument
        elif operation is ops.RANGE:
            inside |= argument[0] <= code <= argument[1]
        elif operation is ops.CATEGORY:
            inside |= re.match(_CATEGORIES[argument], character) is not None
    return inside != negated


def _least(items: Any) -> str:
    """Return approximately the shortest text that a part of a pattern accepts."""
    text = ""
    for operation, argument in items:
        if operation is ops.LITERAL:
            text += chr(argument)
        elif operation in (ops.IN, ops.ANY, ops.NOT_LITERAL):
            text += next((each for each in _CANDIDATES if _accepts([(operation, argument)], each)), _first(argument))
        elif operation in (ops.MAX_REPEAT, ops.MIN_REPEAT, ops.POSSESSIVE_REPEAT):
            text += _least(argument[2]) * argument[0]
        elif operation is ops.SUBPATTERN:
            text += _least(argument[3])
        elif operation is ops.ATOMIC_GROUP:
            text += _least(argument)
        elif operation is ops.BRANCH:
            text += _least(argument[1][0])
    return text


def _first(items: Any) -> str:
    if not isinstance(items, list):
        return "x"
    for operation, argument in items:
        if operation is ops.LITERAL:
            return chr(argument)
        if operation is ops.RANGE:
            return chr(argument[0])
    return ""
