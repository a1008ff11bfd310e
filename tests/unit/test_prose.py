"""How docstrings and comments are written: sentences with a subject, imperatives, no riddles."""

from __future__ import annotations

import ast
import io
import re
import tokenize
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
FOLDERS = ("api_gateway", "benchmarks", "chordwise", "compose", "pipeline", "tests", "workers")

# A sentence that begins with one of these has no subject; a passive of saying hides who says it.
RIDDLE = re.compile(
    r"^(what|who|whoever|whose|whom|whatever|whichever)\b|\b(is|are|was|were) (told|said to)\b|\bof it that\b|\bnobody asks\b",
    re.IGNORECASE,
)
ENDS = re.compile(r"(?<=[.!?;])\s+(?=[A-Z`(])")
DIRECTIVE = re.compile(r"#\s*(noqa|type:|!|fmt:)")
# A line with a comment in which part of a riddle may stand: only such files are cut into tokens, which takes far longer.
SUSPECT = re.compile(
    r"#.*\b(what|who|whoever|whose|whom|whatever|whichever|which|told|said|nobody)\b|#.*\b(of it|it that)\b",
    re.IGNORECASE,
)


def texts(source: str) -> Iterator[str]:
    """Yield every docstring and every block of comments of a module."""
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
            yield ast.get_docstring(node) or ""
    if SUSPECT.search(source) is None:
        return
    block: list[str] = []
    last = 0
    for token in tokenize.generate_tokens(io.StringIO(source).readline):
        if token.type == tokenize.COMMENT and not DIRECTIVE.match(token.string):
            if token.start[0] != last + 1:
                yield " ".join(block)
                block = []
            block.append(token.string.lstrip("# "))
            last = token.start[0]
    yield " ".join(block)


def sentences(source: str) -> Iterator[str]:
    for each in texts(source):
        yield from (sentence for sentence in ENDS.split(" ".join(each.split())) if sentence)


class DescribeProse:
    @pytest.mark.parametrize("folder", FOLDERS)
    def it_begins_no_sentence_without_a_subject(self, folder):
        riddles = [
            f"{path.relative_to(ROOT)}: {sentence}"
            for path in sorted((ROOT / folder).rglob("*.py"))
            for sentence in sentences(path.read_text())
            if RIDDLE.search(sentence)
        ]
        assert not riddles, "\n".join(riddles)

    @pytest.mark.parametrize(
        ("source", "is_riddle"),
        [
            ('"""What stands below the last candidate."""', True),
            ("# Reads the row. Whoever comes late waits.", True),
            ('"""Return what the index holds."""', False),
            ('"""Return the rows; a caller is told nothing."""', True),
        ],
    )
    def it_knows_a_riddle(self, source, is_riddle):
        assert any(RIDDLE.search(sentence) for sentence in sentences(source)) == is_riddle
