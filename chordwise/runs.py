"""Files with every answer of an evaluation, and the comparison of two of them."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from chordwise.asking import Measured
from chordwise.errors import InvalidInput
from chordwise.files import read_lines
from chordwise.significance import Paired, paired

MEASURES = ("ndcg@10", "mrr@10", "recall@100")

Run = Mapping[tuple[str, str], Mapping[str, float]]  # by way and query, what each measure said


@dataclass(frozen=True, slots=True, kw_only=True)
class Compared:
    """Run B against run A in one way of asking, by one measure."""

    way: str
    measure: str
    result: Paired

    def as_json(self) -> dict[str, Any]:
        """As it is printed."""
        found = asdict(self.result)
        figures = {name: round(value, 6) if isinstance(value, float) else value for name, value in found.items()}
        return {"way": self.way, "measure": self.measure, **figures}


@dataclass(frozen=True, slots=True, kw_only=True)
class Comparison:
    """Two runs. ``unpaired`` counts answers that only one of them has, and that are left out."""

    rows: tuple[Compared, ...]
    unpaired: int


def write_run(path: Path, answers: Iterable[Measured]) -> None:
    """One JSON object a line. Raises InvalidInput if the file cannot be written."""
    try:
        with path.open("w", encoding="utf-8") as file:
            file.writelines(json.dumps(each.as_json(), ensure_ascii=False) + "\n" for each in answers)
    except OSError as error:
        raise InvalidInput(f"{path} cannot be written: {error.strerror}") from error


def read_run(path: Path) -> dict[tuple[str, str], dict[str, float]]:
    """What ``write_run`` wrote. Raises InvalidInput, naming the line."""
    found: dict[tuple[str, str], dict[str, float]] = {}
    for number, line in read_lines(path):
        try:
            entry = json.loads(line)
            found[entry["way"], entry["query_id"]] = {name: float(entry[name]) for name in MEASURES}
        except (ValueError, KeyError, TypeError):
            raise InvalidInput(f"{path}:{number} is no answer of an evaluation") from None
    if not found:
        raise InvalidInput(f"{path} holds no answer")
    return found


def compare(a: Run, b: Run) -> Comparison:
    """B against A, in every way that both were asked. Pure. Raises InvalidInput if they share no query."""
    shared = [key for key in a if key in b]
    if not shared:
        raise InvalidInput("the two runs have no query in common")
    rows = []
    for way in dict.fromkeys(way for way, _ in shared):
        keys = [key for key in shared if key[0] == way]
        for measure in MEASURES:
            result = paired([a[key][measure] for key in keys], [b[key][measure] for key in keys])
            rows.append(Compared(way=way, measure=measure, result=result))
    return Comparison(rows=tuple(rows), unpaired=len(a) + len(b) - 2 * len(shared))
