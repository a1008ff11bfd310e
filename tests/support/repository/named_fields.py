"""Count the hand-written files of the product that name one field of a resource: `make house`.

The three fields below are traced in place of every other: a new one of the same resource is named in about as many files.
"""

from __future__ import annotations

import ast
import re
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Final, NamedTuple

ROOT: Final = Path(__file__).resolve().parents[3]
_FOLDERS: Final = ("api_gateway", "chordwise", "clients", "pipeline", "workers")
_SUFFIXES: Final = frozenset({".html", ".js", ".json", ".mjs", ".py", ".ts"})
_GENERATED: Final = frozenset(
    {
        "clients/javascript/operations.d.ts",
        "clients/javascript/operations.js",
        "pipeline/database/migrations/schema.json",
    }
)
_JS_COMMENT: Final = re.compile(r"/\*.*?\*/|(?<!:)//[^\n]*", re.DOTALL)


class Traced(NamedTuple):
    """A field, the most files that may name it, and files where the word means something else."""

    resource: str
    field: str
    most: int
    other_meaning: frozenset[str] = frozenset()


TRACED: Final = (
    # Elsewhere a destination of RTF, and a name of fields in forms.
    Traced(
        "a document's field", "author", 8, frozenset({"pipeline/parsing/rich_text.py", "pipeline/parsing/tables.py"})
    ),
    Traced("a job's field", "paused_at", 10),
    Traced("a statistic of an answer", "rerank_lift", 5),
)


def files_naming(field: str, *, root: Path = ROOT) -> list[str]:
    """Return the hand-written files that name a field in code or in a text for users, sorted."""
    word = re.compile(rf"(?<![\w-]){re.escape(field)}(?![\w-])")
    paths = (path for folder in _FOLDERS for path in sorted((root / folder).rglob("*")) if path.suffix in _SUFFIXES)
    named = {path.relative_to(root).as_posix(): path for path in paths if path.is_file()}
    return [name for name, path in sorted(named.items()) if name not in _GENERATED and _names(path, word)]


def _names(path: Path, word: re.Pattern[str]) -> bool:
    text = path.read_text(encoding="utf-8")
    if not word.search(text):
        return False
    if path.suffix == ".py":
        return any(word.search(name) for name in _names_in(ast.parse(text)))
    return bool(word.search(_JS_COMMENT.sub("", text)))


def _names_in(tree: ast.Module) -> Iterator[str]:
    """Yield names, attributes, arguments and texts of a module, but for docstrings."""
    docstrings = {
        id(node.value) for node in ast.walk(tree) if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant)
    }
    for node in ast.walk(tree):
        match node:
            case ast.Attribute(attr=name) | ast.Name(id=name) | ast.arg(arg=name) | ast.keyword(arg=str(name)):
                yield name
            case ast.Constant(value=str(text)) if id(node) not in docstrings:
                yield text


def main() -> None:
    """Print the files of each traced field."""
    for traced in TRACED:
        files = [name for name in files_naming(traced.field) if name not in traced.other_meaning]
        head = f"{traced.resource}, {traced.field}: {len(files)} files, at most {traced.most}"
        sys.stdout.write("".join([f"{head}\n", *(f"  {name}\n" for name in files)]))


if __name__ == "__main__":
    main()
