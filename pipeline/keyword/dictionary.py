"""A tenant's dictionaries, and queries read with them. The index holds none of it, so changes take effect at once."""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import chain
from operator import attrgetter

from chordwise.contract.dictionary import RuleOut
from pipeline.keyword.inflections import is_grammar, query_stems
from pipeline.keyword.irregular_words import irregular_forms
from pipeline.keyword.other_forms import Certainty, Spelling, parts_of, query_spellings
from pipeline.keyword.terms import (
    STOP_WORDS,
    counted_query_terms,
    fold,
    former_terms,
    holds_unspaced,
    query_terms,
    stem,
    terms_in_order,
    terms_of_word,
)
from pipeline.records import Namespace

Run = tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Dictionary:
    """One tenant's words. ``synonyms``: groups of equal meaning. ``stop_words``: dropped unless the query has nothing
    else. ``phrases``: words that belong together; a chunk with them side by side scores higher."""

    synonyms: tuple[tuple[str, ...], ...] = ()
    stop_words: tuple[str, ...] = ()
    phrases: tuple[str, ...] = ()
    rules: tuple[RuleOut, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Unit:
    """One unit of a query, occurring ``count`` times: alternative ways of writing one thing, each a run of terms, the
    query's own first. ``near``: how many of the last ways are mere respellings. ``is_spelled``: the ways are forms of one
    spelling. ``is_exact``: a number, a code or a date, of which the first ways name nothing else."""

    ways: tuple[Run, ...]
    count: int = 1
    near: int = 0
    is_spelled: bool = False
    is_exact: bool = False
    together: frozenset[Run] = frozenset()


class OtherWays:
    """Other ways of writing a run of a query's terms, which ``run`` has. Analysed on use: most words need none."""

    __slots__ = ("_analysed", "certainty", "is_part", "run", "spelling")

    def __init__(self, spelling: Spelling) -> None:
        """``is_part``: whether the run lacks words of the piece, of which the first way decides whether there are others (log
        in: login). ``certainty``: how surely the ways name the same thing; joined with a word of grammar (is land: island)
        they may not."""
        piece, certainty = spelling.piece, spelling.certainty
        self.spelling = spelling
        self.run = terms_of_word(piece) if certainty is Certainty.LAST else _run(piece)
        is_short = len(self.run) < 2 and _JOINED.fullmatch(piece) is not None
        self.is_part = is_short and piece in spelling.ways
        is_guess = certainty is Certainty.SURE and is_short and not self.is_part
        self.certainty = Certainty.GUESS if is_guess else certainty
        self._analysed: dict[Run, bool] | None = None

    @property
    def ways(self) -> tuple[Run, ...]:
        """The ways that are not the query's own, each as its terms."""
        return tuple(self._ways())

    @property
    def together(self) -> frozenset[Run]:
        """The ways that count only where their terms stand side by side."""
        return frozenset(way for way, is_together in self._ways().items() if is_together)

    def _ways(self) -> dict[Run, bool]:
        if self._analysed is None:
            self._analysed = _analysed(self.spelling, self.run)
        return self._analysed

    def is_needless(self, frequency: Mapping[str, int]) -> bool:
        """Return whether these are ways for words of no chunk, and some chunk has them."""
        return self.spelling.certainty is Certainty.LAST and any(map(frequency.get, self.run))


def _analysed(spelling: Spelling, run: Run) -> dict[Run, bool]:
    """Return the ways of a spelling that are not ``run``, and whether each counts only where its terms stand together."""
    has_blank = " " in spelling.piece
    ways: dict[Run, bool] = {}
    for way in spelling.ways or parts_of(spelling.piece):
        terms = terms_in_order(way) if isinstance(way, str) else tuple(map(stem, way))
        # The stem of "galaxy s", joined, is that of "galaxy".
        is_own = has_blank and terms and terms[0].isalpha() and set(terms).issubset(run)
        if terms and (terms != run or spelling.certainty is Certainty.EXACT) and not is_own:
            ways[terms] = isinstance(way, str) and len(terms) > 1 and ways.get(terms, True)
    return ways


@dataclass(frozen=True, slots=True, kw_only=True)
class KeywordQuery:
    """A query as the keyword channel searches for it. ``spellings``: other ways of writing some of its terms, until
    `spelled` decides which occur. ``verbatim``: runs of all words, in order, that count most where they stand so. ``whole``:
    the query as such a run, which counts a little more where it stands so."""

    units: tuple[Unit, ...]
    phrases: tuple[Run, ...] = ()
    rules: tuple[RuleOut, ...] = ()
    spellings: tuple[OtherWays, ...] = ()
    verbatim: tuple[Run, ...] = ()
    whole: Run = ()

    @property
    def terms(self) -> tuple[str, ...]:
        """Every term to search for, each once."""
        return tuple(dict.fromkeys(term for unit in self.units for way in unit.ways for term in way))

    @property
    def all_terms(self) -> tuple[str, ...]:
        """Every term whose occurrences matter, each once: also those of runs."""
        return tuple(dict.fromkeys((*self.terms, *(term for run in self.verbatim for term in run))))

    def other_terms(self, frequency: Mapping[str, int]) -> tuple[str, ...]:
        """Return every term that only a possible spelling has, each once. ``frequency``: of the query's own terms."""
        own = frozenset(self.all_terms)
        ways = (way for other in self.spellings if not other.is_needless(frequency) for way in other.ways)
        return tuple(dict.fromkeys(term for way in ways for term in way if term not in own))

    def spelled(self, frequency: Mapping[str, int], *, lags: bool) -> KeywordQuery:
        """Return the query with those spellings as ways of its units that some chunk has; with all, where chunks are not
        counted yet (``lags``). A thing named exactly counts more than its words."""
        units = list(self.units)
        for other in self.spellings:
            if other.is_needless(frequency):
                continue
            ways = tuple(way for way in other.ways if lags or all(map(frequency.get, way)))
            if ways and not (other.is_part and ways[0] != other.ways[0]):
                _write_otherwise(units, other, ways)
        return replace(self, units=tuple(units), spellings=())

    def held(self, frequency: Mapping[str, int]) -> KeywordQuery:
        """Return the query without synonyms and other spellings that occur in no chunk."""
        if all(len(unit.ways) == 1 for unit in self.units):
            return self
        return replace(self, units=tuple(_held(unit, frequency) for unit in self.units))

    def respelled(self, spellings: Mapping[str, Sequence[str]]) -> KeywordQuery:
        """Return the query with these other spellings of its terms, where a term is a unit of its own."""
        units = tuple(
            replace(unit, ways=(*unit.ways, *((other,) for other in others)), near=unit.near + len(others))
            if len(unit.ways[0]) == 1 and (others := spellings.get(unit.ways[0][0]))
            else unit
            for unit in self.units
        )
        return replace(self, units=units)


@dataclass(frozen=True, slots=True)
class Lexicon:
    """A dictionary compiled for reading queries: every expression as its run of analysed terms."""

    synonyms: Mapping[Run, tuple[Run, ...]] = field(default_factory=dict)
    stop_words: frozenset[Run] = frozenset()
    unspaced_stop_words: re.Pattern[str] | None = None
    phrases: frozenset[Run] = frozenset()
    rules: tuple[tuple[Run, RuleOut], ...] = ()

    @classmethod
    def of(cls, dictionaries: Iterable[Dictionary]) -> Lexicon:
        """Several dictionaries as one. Groups of synonyms that share an expression are joined for that expression."""
        groups: defaultdict[Run, dict[Run, None]] = defaultdict(dict)
        spaced: set[Run] = set()
        unspaced: list[str] = []
        phrases: set[Run] = set()
        rules: list[tuple[Run, RuleOut]] = []
        for dictionary in dictionaries:
            for group in dictionary.synonyms:
                runs = [run for run in map(_run, group) if run]
                for run in runs:
                    groups[run].update(dict.fromkeys(other for other in runs if other != run))
            for word in dictionary.stop_words:
                if holds_unspaced(word):
                    unspaced.append(fold(word).strip())
                else:
                    spaced.add(_run(word))
            phrases.update(run for run in map(_run, dictionary.phrases) if len(run) > 1)
            rules += [(run, rule) for rule in dictionary.rules if (run := _run(rule.when))]
        longest_first = "|".join(re.escape(word) for word in sorted(unspaced, key=len, reverse=True) if word)
        return cls(
            synonyms={run: tuple(others) for run, others in groups.items() if others},
            stop_words=frozenset(spaced - {()}),
            unspaced_stop_words=re.compile(longest_first) if longest_first else None,
            phrases=frozenset(phrases),
            rules=tuple(rules),
        )


def read(text: str, lexicon: Lexicon) -> KeywordQuery:
    """Read the query by the lexicon. Stop words go first unless nothing is left; then, longest first from left to
    right, runs of terms with synonyms become one unit, other terms one each. Former terms of older rows
    (`keyword.terms.former_terms`), irregular forms and stems (`keyword.inflections`) are further ways, the last as other
    spellings if the query does not tell its language. A query of function words alone keeps them all, and is a run like a
    quotation."""
    folded = fold(text)
    is_saying = _FUNCTION_WORDS.issuperset(_PLAIN_WORD.findall(folded)) or is_grammar(text)
    counts = dict(Counter(terms_in_order(text))) if is_saying else counted_query_terms(text)
    all_terms = list(counts)
    terms = _without_stop_words(text, all_terms, lexicon)
    former = former_terms(text)
    stems, is_sure = query_stems(text)
    units: list[Unit] = []
    position, longest = 0, max(map(len, lexicon.synonyms), default=0)
    while position < len(terms):
        run = _longest_run(terms[position : position + longest], lexicon.synonyms) or (terms[position],)
        count = min(counts.get(term, 1) for term in run)
        own = run[0] if len(run) == 1 else ""
        forms = (*former.get(own, ()), *irregular_forms(own), *stems.get(own, ()))
        ways = (run, *lexicon.synonyms.get(run, ()), *((form,) for form in forms))
        units.append(Unit(ways=ways, count=count, near=0 if is_sure else len(stems.get(own, ()))))
        position += len(run)
    verbatim = tuple(_verbatim(text, is_saying=is_saying))
    return KeywordQuery(
        units=tuple(units),
        phrases=tuple(phrase for phrase in sorted(lexicon.phrases) if _holds(terms, phrase)),
        rules=tuple(rule for run, rule in lexicon.rules if _holds(all_terms, run)),
        spellings=tuple(_spellings(text, folded)),
        verbatim=verbatim,
        whole=whole if not verbatim and 1 < len(whole := terms_in_order(text)) <= _LONGEST_RUN else (),
    )


def _spellings(text: str, folded: str) -> Iterator[OtherWays]:
    """Yield other spellings of terms of a query, the surest first."""
    return (OtherWays(spelling) for spelling in sorted(query_spellings(text, folded), key=_certainty))


_certainty = attrgetter("certainty")


def _verbatim(text: str, *, is_saying: bool) -> Iterator[Run]:
    """Yield the runs of a query that stand for themselves: its quotations, or all of it."""
    quoted = [next(filter(None, match.groups())) for match in QUOTED.finditer(text)]
    for piece in quoted or ([text] if is_saying else []):
        if 1 < len(run := terms_in_order(piece)) <= _LONGEST_RUN:
            yield run


def _write_otherwise(units: list[Unit], other: OtherWays, others: tuple[Run, ...]) -> None:
    """Give the units of a run of terms these other ways, as one unit; none if other words stand between them."""
    run = other.run
    if other.certainty is Certainty.EXACT:
        parts = [unit for unit in units if len(unit.ways[0]) == 1 and unit.ways[0][0] in run]
        own = tuple(unit.ways[0][0] for unit in parts)
        first = units.index(parts[0]) if parts else len(units)
        remaining = [unit for unit in units if unit not in parts]
        own = own if own not in others else ()
        ways = (*others, own) if own else others
        exact = Unit(ways=ways, near=1 if own else 0, is_spelled=True, is_exact=True, together=other.together)
        remaining.insert(first, exact)
        units[:] = remaining
        return
    for first in range(len(units)):
        parts = _parts(units, first, run)
        if not parts:
            continue
        whole = len(parts) == 1
        sure = parts[0].ways[: len(parts[0].ways) - parts[0].near] if whole else _combined(parts)
        unsure = parts[0].ways[len(parts[0].ways) - parts[0].near :] if whole else ()
        near = len(unsure)
        others = tuple(way for way in others if way not in sure and way not in unsure)
        if other.is_part:
            sure, unsure, near = (), (*sure, *unsure), len(sure) + near
        is_guess = other.certainty is Certainty.GUESS or (whole and parts[0].is_exact)
        ways = (*sure, *unsure, *others) if is_guess else (*sure, *others, *unsure)
        together = other.together.union(*(unit.together for unit in parts))
        apart = {way for unit in parts for way in unit.ways if way not in unit.together}
        units[first : first + len(parts)] = [
            Unit(
                ways=ways,
                count=min(unit.count for unit in parts),
                near=near + len(others) if is_guess else near,
                is_spelled=True,
                is_exact=whole and parts[0].is_exact,
                together=together - apart,
            )
        ]
        return


def _parts(units: Sequence[Unit], first: int, run: Run) -> list[Unit]:
    """Return the units from the first on whose terms are those of a run; none if they are others."""
    length, last = 0, first
    while length < len(run) and last < len(units) and (own := units[last].ways[0]) == run[length : length + len(own)]:
        length, last = length + len(own), last + 1
    return list(units[first:last]) if length == len(run) else []


def _combined(units: Sequence[Unit]) -> tuple[Run, ...]:
    """Return the terms of neighbouring units, also with each sure way of one of them."""
    own = [unit.ways[0] for unit in units]
    combined = {tuple(chain.from_iterable(own)): None}
    for at, unit in enumerate(units):
        for way in unit.ways[1 : len(unit.ways) - unit.near]:
            if way not in unit.together:
                combined[tuple(chain.from_iterable((*own[:at], way, *own[at + 1 :])))] = None
    return tuple(combined)


def _without_stop_words(text: str, terms: list[str], lexicon: Lexicon) -> list[str]:
    if lexicon.unspaced_stop_words is not None:
        # Remove words of scripts without spaces before cutting bigrams, some of which lie across a word's edges.
        terms = query_terms(lexicon.unspaced_stop_words.sub(" ", fold(text))) or terms
    if not lexicon.stop_words:
        return terms
    remaining: list[str] = []
    position, longest = 0, max(map(len, lexicon.stop_words))
    while position < len(terms):
        dropped = _longest_run(terms[position : position + longest], lexicon.stop_words)
        if not dropped:
            remaining.append(terms[position])
        position += len(dropped) or 1
    return remaining or terms


def _longest_run(terms: Sequence[str], runs: Collection[Run]) -> Run:
    """Return the longest of ``runs`` that ``terms`` begin with; empty if there is none."""
    beginnings = (tuple(terms[:length]) for length in range(len(terms), 0, -1))
    return next((run for run in beginnings if run in runs), ())


def _held(unit: Unit, frequency: Mapping[str, int]) -> Unit:
    own, *others = unit.ways
    declared = len(others) - unit.near
    held = [position for position, way in enumerate(others) if all(frequency.get(term) for term in way)]
    ways = (own, *(others[position] for position in held))
    return replace(unit, ways=ways, near=sum(position >= declared for position in held))


def _run(expression: str) -> Run:
    return tuple(query_terms(expression))


def _holds(terms: Sequence[str], run: Run) -> bool:
    return any(tuple(terms[start : start + len(run)]) == run for start in range(len(terms) - len(run) + 1))


# Words that carry no topic: a query of these alone, as "to be or not to be" and "The Who", is meant word by word.
_FUNCTION_WORDS = STOP_WORDS.union(
    *(
        words.split()
        for words in (
            "after again all always am because before being between both down each ever every few he her here him his just",
            "come get give go know let make say see take",  # as in "let it be"
            "me more most much must myself neither never no nobody none nor not nothing now off once one only other ought",
            "over own same she shan't somebody something there's though too under until up upon us very we'll yes yet you'll",
        )
    )
)
_JOINED = re.compile("[a-z]+ [a-z]+")
_PLAIN_WORD = re.compile(r"[^\W_]+(?:'[^\W_]+)*")
QUOTED = re.compile(r"《([^》]{1,80})》|\"([^\"]{2,80})\"|“([^”]{2,80})”|「([^」]{2,80})」|『([^』]{2,80})』")
_LONGEST_RUN = 16  # terms

EVERY_NAMESPACE = Namespace("")  # no namespace has this name
