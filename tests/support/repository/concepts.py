"""Count what a reader of the product has to know: `make house`. Lines weigh little, concepts weigh."""

from __future__ import annotations

import ast
import sys
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from tests.support.repository import named_fields

FOLDERS: Final = ("api_gateway", "chordwise", "pipeline", "workers")
_CALLED: Final = {
    "pools": frozenset({"CallThreads", "ProcessPoolExecutor", "ThreadPoolExecutor"}),
    "threads": frozenset({"threading.Thread", "threading.Timer"}),
    "caches": frozenset(
        {"FIFOCache", "LRUCache", "RecentValues", "RefreshingValue", "SelfFillingDict", "StaleCache", "TTLCache"}
    ),
    "bodies read by hand": frozenset({"await read_json_body", "await read_object", "await read_shape"}),
}
_MEMOS: Final = frozenset({"cache", "cached", "lru_cache"})
# Where the kinds themselves are made.
_MAKERS: Final = frozenset({"api_gateway/resources/route_parts.py", "pipeline/caches.py"})

Concept = tuple[str, str]  # kind and name


def found(root: Path = named_fields.ROOT) -> dict[str, list[str]]:
    """Return the concepts of the product by kind, each as its file and name."""
    by_kind: defaultdict[str, list[str]] = defaultdict(list)
    for folder in FOLDERS:
        for path in sorted((root / folder).rglob("*.py")):
            if "migrations" not in path.parts:
                name = path.relative_to(root).as_posix()
                text = path.read_text(encoding="utf-8")
                by_kind[f"lines of {folder}"] += [name] * text.count("\n")
                for kind, concept in _concepts(ast.parse(text), is_maker=name in _MAKERS):
                    by_kind[kind].append(f"{name} {concept}")
    return by_kind


def _concepts(tree: ast.Module, *, is_maker: bool) -> Iterator[Concept]:
    for node in ast.walk(tree):
        match node:
            case ast.ClassDef():
                yield from _of_class(node)
            case ast.ExceptHandler(type=ast.expr() as kind):
                if any(_name(each).endswith("Unavailable") for each in ast.walk(kind)):
                    yield "handlers of unavailability", f"line {node.lineno}"
            case ast.FunctionDef(name=name, args=args, decorator_list=decorators):
                called = [each.func if isinstance(each, ast.Call) else each for each in decorators]
                if any(_name(each) in _MEMOS for each in called):
                    yield "caches" if args.args or args.kwonlyargs else "made once", name
            case ast.Call(func=ast.Call(func=func)) if _name(func) in _MEMOS:
                yield "caches", f"line {node.lineno}"
            case ast.Await(value=ast.Call(func=func)) if not is_maker:
                yield from _of_name(f"await {_name(func)}", f"line {node.lineno}")
            case ast.Call(func=func) if not is_maker:
                for name in {_name(func), ast.unparse(func)}:
                    yield from _of_name(name, f"line {node.lineno}")


def _of_class(node: ast.ClassDef) -> Iterator[Concept]:
    fields = [e for e in node.body if isinstance(e, ast.AnnAssign) and "ClassVar" not in ast.dump(e.annotation)]
    if node.name == "Settings":
        yield from (("settings", _name(field.target)) for field in fields)
    elif fields:
        yield "records that declare fields", node.name
    for base in node.bases:
        for name in {_name(base), ast.unparse(base)}:
            yield from _of_name(name, node.name)


def _of_name(name: str, place: str) -> Iterator[Concept]:
    yield from ((kind, place) for kind, names in _CALLED.items() if name in names)


def _name(node: ast.AST) -> str:
    match node:
        case ast.Name(id=name) | ast.Attribute(attr=name):
            return name
        case ast.Subscript(value=value):
            return _name(value)
    return ""


def main() -> None:
    """Print the number of each kind, and the places of those that are few."""
    for kind, places in sorted(found().items()):
        sys.stdout.write(f"{len(places):6} {kind}, in {len({place.partition(' ')[0] for place in places})} files\n")
        if "--list" in sys.argv and len(places) < 60:
            sys.stdout.writelines(f"         {place}\n" for place in places)
    named_fields.main()


if __name__ == "__main__":
    main()
