"""The questions of a file, answered as a batch: ``chordwise query --file``."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterable
from pathlib import Path
from typing import IO, Any

import typer

from chordwise.api.files import read_lines
from chordwise.api.queries import BatchedAnswer
from chordwise.cli import screen
from chordwise.errors import InvalidInput, file_errors


def read_questions(path: Path) -> list[str | dict[str, Any]]:
    """Return the questions of a file: one a line, in a file of JSON lines as the body of a query each. Raises InvalidInput,
    naming the line."""
    is_json = path.name.lower().endswith((".jsonl", ".jsonl.gz", ".ndjson"))
    questions = [_question(path, number, line) if is_json else line for number, line in read_lines(path)]
    if not questions:
        raise InvalidInput(f"{path} holds no question")
    return questions


def answer_file(path: Path, output: str, **options: Any) -> None:
    """Answer the questions of ``path`` and write a line for each to ``output``, as they are answered. Exits with 1 if one has
    no answer."""
    questions = read_questions(path)
    with screen.connect() as client:
        if output == "-":
            failed = _written(client, questions, sys.stdout, None, options)
        else:
            with (
                file_errors(Path(output), "written"),
                Path(output).open("w", encoding="utf-8") as file,
                screen.Ticker() as ticker,
            ):
                failed = _written(client, questions, file, ticker, options)
    if output != "-":
        screen.say(
            f"{screen.plural(len(questions), 'question')} in {output}"
            + (f", {failed} without an answer" * (failed > 0))
        )
    if failed:
        raise typer.Exit(1)


def _written(
    client: Any, questions: Iterable[Any], file: IO[str], ticker: screen.Ticker | None, options: dict[str, Any]
) -> int:
    """Ask, write each result as it comes, and return how many have no answer."""
    asked = list(questions)
    failed = 0

    def write(result: BatchedAnswer) -> None:
        nonlocal failed
        failed += result.answer is None
        file.write(json.dumps({**result.raw, "index": result.index}, ensure_ascii=False) + "\n")
        file.flush()
        if ticker:
            ticker.show("questions answered", result.index + 1, len(asked))

    client.query_many(asked, on_result=write, **options)
    return failed


def _question(path: Path, number: int, line: str) -> str | dict[str, Any]:
    try:
        question = json.loads(line)
    except ValueError:
        raise InvalidInput(f"{path}:{number} is not JSON") from None
    if not isinstance(question, str | dict):
        raise InvalidInput(f"{path}:{number} is neither the body of a query nor a text")
    return question
