"""Check rows and turn the valid ones into examples; report the others row by row."""

import hashlib
import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Final

import orjson

from chordwise.contract.example import BookFlaw
from pipeline.examples.example import (
    GRADES,
    REQUIRED,
    UNGRADED,
    Book,
    BookRow,
    Category,
    CategoryStatistics,
    Column,
    Example,
    ExampleSheet,
)
from pipeline.examples.headings import lines, one_line, shown, split_tags
from pipeline.keyword.normal_form import normal_form
from pipeline.keyword.terms import holds_unspaced
from pipeline.records import DocumentId

THRESHOLD: Final = 0.7  # Jaccard similarity of shingles from which two questions count as nearly the same

# A pair at the threshold is a candidate with a probability of 1 - (1 - 0.7^4)^16 = 0.987.
_PERMUTATIONS, _BANDS, _SEED = 64, 16, 1
_MOST_CANDIDATES = 20  # for one question
_NO_WORD = re.compile(r"[\W_]+")
MOST_BYTES = 15_000  # of both texts as JSON: they are stored as metadata too, which takes 16 KiB
MOST_TAGS, LONGEST_TAG = 64, 128
LONGEST_ID = 48
_HASH_DIGITS = 32


class NearDuplicates:
    """The questions of one category: MinHash with LSH proposes candidates, the Jaccard similarity decides."""

    def __init__(self) -> None:
        # Imported here: the parser process imports this package, and its memory is limited.
        from rensa import RMinHash, RMinHashLSH

        self._signature = partial(RMinHash, num_perm=_PERMUTATIONS, seed=_SEED)
        self._index = RMinHashLSH(threshold=THRESHOLD, num_perm=_PERMUTATIONS, num_bands=_BANDS)
        self._seen: list[tuple[frozenset[str], str]] = []
        self._by_text: dict[str, str] = {}

    def add(self, question: str, position: str) -> tuple[str, float] | None:
        """Return the position of a nearly equal earlier question and the similarity in [0, 1], or None. Case, width,
        punctuation and white space do not count. Only questions unlike all earlier ones are indexed."""
        text = _NO_WORD.sub("", normal_form("NFKC", question).casefold())
        if not text:
            return None
        if text in self._by_text:
            return self._by_text[text], 1.0
        self._by_text[text] = position
        shingles = _shingles(text)
        signature = self._signature()
        signature.update(sorted(shingles))
        candidates = (self._seen[number] for number in self._index.query(signature)[:_MOST_CANDIDATES])
        compared = [(len(shingles & others) / len(shingles | others), earlier) for others, earlier in candidates]
        similarity, earlier = max(compared, default=(0.0, ""))
        if similarity >= THRESHOLD:
            return earlier, similarity
        self._index.insert(len(self._seen), signature)
        self._seen.append((shingles, position))
        return None


def _shingles(text: str) -> frozenset[str]:
    """Return single characters and pairs of a text in a script without spaces, else triples of letters."""
    lengths = (1, 2) if holds_unspaced(text) else (3,)
    return frozenset(text[at : at + length] for length in lengths for at in range(max(1, len(text) - length + 1)))


@dataclass(slots=True, kw_only=True)
class Checked:
    """The outcome for a book. ``refused``: the rows with errors, one entry each, the errors of a row together."""

    examples: list[Example] = field(default_factory=list)
    refused: list[list[BookFlaw]] = field(default_factory=list)
    warnings: list[BookFlaw] = field(default_factory=list)
    statistics: dict[Category, CategoryStatistics] = field(default_factory=dict)

    @property
    def errors(self) -> list[BookFlaw]:
        """Return every error of the book, in its order."""
        return [flaw for flaws in self.refused for flaw in flaws]


def check(book: Book) -> Checked:
    """Check every row of the book.

    A document id is the category and the row's ``id``, else the category, a hash of the user input and its count so
    far, so importing a book again replaces answers. A row with both texts of an earlier one of its category is a
    duplicate and not imported; a nearly equal question is imported with a warning.
    """
    statistics = {category: CategoryStatistics() for category in Category}
    checked = Checked(warnings=list(book.warnings), statistics=statistics)
    checker = _Checker(checked)
    for sheet in book.tables:
        checked.warnings += sheet.warnings
        statistics[sheet.category].blank += sheet.blank
        statistics[sheet.category].read += len(sheet.rows)
        if sheet.unusable is not None:
            checked.refused.append([sheet.unusable])
            statistics[sheet.category].refused += len(sheet.rows)
        else:
            for row in sheet.rows:
                checker.check(row, sheet)
    return checked


class _Checker:
    """Checks rows against the earlier ones."""

    def __init__(self, checked: Checked) -> None:
        self._checked = checked
        self._texts: dict[tuple[Category, str, str], str] = {}
        self._inputs: Counter[tuple[Category, str]] = Counter()
        self._ids: dict[str, str] = {}
        self._questions = {category: NearDuplicates() for category in Category}

    def check(self, row: BookRow, sheet: ExampleSheet) -> None:
        """Accept or refuse one row."""
        statistics, category = self._checked.statistics[sheet.category], sheet.category
        reading = _Reading(row, sheet)
        if row.fault is not None:
            statistics.refused += 1
            self._checked.refused.append([reading.flaw("wrong_type", row.fault)])
            return
        user_input, agent_response = reading.text(Column.USER_INPUT), reading.text(Column.AGENT_RESPONSE)
        tags, grade, own_id = reading.tags(), reading.grade(), reading.own_id()
        reading.require_room(user_input, agent_response)
        texts = (category, user_input, agent_response)
        if user_input and agent_response and texts in self._texts:
            statistics.duplicates += 1
            detail = f"has the texts of {self._texts[texts]}, and was not imported again"
            self._checked.warnings.append(reading.flaw("duplicate_row", detail))
            return
        document_id = self._document_id(category, user_input, own_id)
        if own_id and document_id in self._ids:
            reading.refuse(Column.ID, "duplicate_id", f"is used already in {self._ids[document_id]}")
        if reading.flaws:
            statistics.refused += 1
            self._checked.refused.append(reading.flaws)
            return
        position = f"row {row.number} of sheet {sheet.name}"
        if similar := self._questions[category].add(user_input, position):
            detail = f"asks nearly what {similar[0]} asks (similarity {similar[1]:.2f}); both were imported"
            self._checked.warnings.append(reading.flaw("near_duplicate_row", detail))
        self._texts[texts] = position
        self._ids[document_id] = position
        statistics.accepted += 1
        statistics.grades[grade or UNGRADED] += 1
        statistics.tags.update(tags)
        self._checked.examples.append(
            Example(
                document_id=DocumentId(document_id),
                category=category,
                user_input=user_input,
                agent_response=agent_response,
                tags=tags,
                quality_grade=grade,
                sheet=sheet.name,
                row=row.number,
            )
        )

    def _document_id(self, category: Category, user_input: str, own_id: str) -> str:
        if own_id:
            return f"{category}-{own_id}"
        occurrence = self._inputs[category, user_input]
        self._inputs[category, user_input] += 1  # a refused row also keeps its position until it is corrected
        digest = hashlib.sha256(f"{user_input}\x1f{occurrence}".encode()).hexdigest()
        return f"{category}-{digest[:_HASH_DIGITS]}"


class _Reading:
    """The values of one row, and their errors."""

    def __init__(self, row: BookRow, sheet: ExampleSheet) -> None:
        self._row, self._sheet = row, sheet.name
        self.flaws: list[BookFlaw] = []
        for column, (code, detail) in row.faults.items():
            if column is not Column.NOTES:
                self.refuse(column, code, detail)

    def refuse(self, column: Column, code: str, detail: str) -> None:
        """Add an error of this row."""
        self.flaws.append(self.flaw(code, detail, column=column, cell=self._row.cells.get(column)))

    def flaw(self, code: str, detail: str, *, column: str | None = None, cell: str | None = None) -> BookFlaw:
        """Return an error of this row, or a remark on it."""
        return BookFlaw(sheet=self._sheet, row=self._row.number, code=code, detail=detail, column=column, cell=cell)

    def text(self, column: Column) -> str:
        """Return one of the two texts; empty if it is missing or wrong."""
        value = self._row.values.get(column)
        if column in self._row.faults:
            return ""
        if value is not None and not isinstance(value, str):
            self.refuse(column, "wrong_type", f"must be text, not {_kind(value)}")
            return ""
        text = (one_line if column is Column.USER_INPUT else lines)(value or "")
        if not text and column in REQUIRED:
            self.refuse(column, "required", "is empty, and is required")
        return text

    def tags(self) -> tuple[str, ...]:
        """Return the tags, each once."""
        value = self._row.values.get(Column.TAGS)
        if isinstance(value, list) and all(isinstance(tag, str) for tag in value):
            tags = tuple(dict.fromkeys(filter(None, map(one_line, value))))
        elif value is None or isinstance(value, str):
            tags = tuple(dict.fromkeys(split_tags(value or "")))
        else:
            kind = "a list with other things than text" if isinstance(value, list) else _kind(value)
            self.refuse(Column.TAGS, "wrong_type", f"must be text, or a list of texts, not {kind}")
            return ()
        if len(tags) > MOST_TAGS:
            self.refuse(Column.TAGS, "too_many_tags", f"has {len(tags)} tags; at most {MOST_TAGS} are taken")
        elif long := next((tag for tag in tags if len(tag) > LONGEST_TAG), None):
            detail = f"has a tag of {len(long)} characters, {shown(long)}; at most {LONGEST_TAG} are taken"
            self.refuse(Column.TAGS, "tag_too_long", detail)
        return tags

    def grade(self) -> str | None:
        """Return the grade, None if there is none."""
        value = self._row.values.get(Column.QUALITY_GRADE)
        grade = one_line(value) if isinstance(value, str) and value not in GRADES else value
        if grade is None or grade == "":
            return None
        if grade not in GRADES:
            wrong = shown(grade) if isinstance(grade, str) else _kind(grade)
            self.refuse(Column.QUALITY_GRADE, "invalid_grade", f"must be {', '.join(GRADES)} or empty, not {wrong}")
            return None
        return str(grade)

    def own_id(self) -> str:
        """Return the row's own id, empty if it has none."""
        value = self._row.values.get(Column.ID)
        if isinstance(value, int) and not isinstance(value, bool):
            value = str(value)
        if value is not None and not isinstance(value, str):
            self.refuse(Column.ID, "wrong_type", f"must be text, not {_kind(value)}")
            return ""
        own_id = one_line(value or "")
        if len(own_id) > LONGEST_ID:
            self.refuse(Column.ID, "id_too_long", f"has {len(own_id)} characters; at most {LONGEST_ID} are taken")
            return ""
        return own_id

    def require_room(self, user_input: str, agent_response: str) -> None:
        """Refuse texts that are too long to be stored as metadata of their document."""
        size = len(orjson.dumps([user_input, agent_response]))
        if size > MOST_BYTES:
            longer = Column.USER_INPUT if len(user_input) > len(agent_response) else Column.AGENT_RESPONSE
            detail = f"is too long: both texts have {size} bytes, at most {MOST_BYTES} are taken"
            self.refuse(longer, "too_long", detail)


def _kind(value: object) -> str:
    names: Sequence[tuple[type | tuple[type, ...], str]] = (
        (bool, "true or false"),
        ((int, float), "a number"),
        (list, "a list"),
        (dict, "an object"),
    )
    return next((name for kind, name in names if isinstance(value, kind)), "something else")
