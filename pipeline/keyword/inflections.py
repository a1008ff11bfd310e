"""Inflected words of languages other than English: detect the language of a text, and give its words a common stem."""

import functools
import re
import threading
from collections import Counter
from collections.abc import Iterable, Sequence
from itertools import chain
from typing import Final, Literal

import snowballstemmer

from pipeline.keyword.normal_form import normal_form
from pipeline.keyword.terms import analyze, fold, query_terms

Language = Literal[
    "german", "french", "dutch", "spanish", "italian", "portuguese", "turkish", "russian", "greek", "hindi", "arabic"
]


def _set_of(words: str) -> frozenset[str]:
    return frozenset(words.split())


# Function words, which make up a third of any text. Those of English are listed for their overlap with the others.
_WORDS: Final[dict[Language | Literal["english"], frozenset[str]]] = {
    "german": _set_of(
        """aber alle als am auch auf aus bei bis bzw da das dass dem den der des die dies diese dieser dieses doch durch
        ein eine einem einen einer eines er es für gegen hat haben ich ihr im in ist ja jede jeder kann keine können man
        mehr mit muss nach nicht noch nur ob oder ohne sein seine sich sie sind so soll über um und unter vom von vor war
        waren warum was wegen welche welcher wenn werden wie wird wo wurde wurden zu zum zur zwischen"""
    ),
    "french": _set_of(
        """ainsi au aussi aux avec avoir c'est car ce ces cette ceux chaque comme comment d'un d'une dans de depuis des
        deux doit dont du elle elles en entre est et être fait ils il je l'on la le les leur leurs lorsque mais même ne ni
        nous on ont ou où par pas peut plus pour pourquoi qu'il quand que quel quelle quels qui quoi s'il sans se selon ses
        si son sont sous sur tous tout toute très un une vers vous été à"""
    ),
    "english": _set_of(
        """a about after all also an and any are as at be been but by can do does each for from had has have he how if in
        into is it its may more most must no not of on only or other our over she should so some such than that the their
        them then there these they this to under up use was we were what when where which who why will with would you"""
    ),
    "dutch": _set_of(
        """aan als bij dat de deze die dit door een en er geen had heeft het hij hoe in is kan maar met naar niet nog om
        onder ook op over te tot uit van veel voor waar was wat we werd wordt worden ze zich zijn zo"""
    ),
    "spanish": _set_of(
        """a al como con cuando de del desde donde el en entre es esta este esto están fue ha hay la las lo los más muy no
        o para pero por porque que qué se según ser si sin sobre son su sus también tiene un una y ya"""
    ),
    "italian": _set_of(
        """a al alla anche che chi come con da dal dalla degli dei del della delle di dove e gli ha i il in la le lo ma nel
        nella non o per perché più quando quale questa questo se si sono su sul tra un una è"""
    ),
    "portuguese": _set_of(
        """a ao aos as com como da das de do dos e em entre esta este foi mais mas na nas no nos não o onde os ou para pela
        pelo por qual quando que se sem ser seu sua são também tem um uma à é"""
    ),
    "turkish": _set_of(
        """ama ancak bir bu bunu çok da daha de değil diye en gibi hangi her için ile ise kadar mi mı mu mü ne neden nasıl
        nedir nerede olan olarak oldu olur onu o sonra şu tarafından var ve veya ya yok"""
    ),
}
# Languages of a script of their own, as far as it matters: a stemmer does no harm to the others that are written in it.
_SCRIPTS: Final[dict[Language, re.Pattern[str]]] = {
    "russian": re.compile("[а-яё]{2}"),
    "greek": re.compile("[ά-ώ]{2}"),
    "hindi": re.compile("[अ-ह]"),
    "arabic": re.compile("[ء-ي]{2}"),
}
_SPOKEN_IN: Final = {
    word: tuple(language for language, words in _WORDS.items() if word in words) for word in chain(*_WORDS.values())
}
_LETTERS: Final = {
    "german": re.compile("[äöüß]"),
    "french": re.compile("[àâçèéêëîïôùûœ]"),
    "turkish": re.compile("[ğışç]"),
}
_UNLESS_KNOWN: Final[tuple[Language, ...]] = (
    "german",
    "french",
)  # stems that a query gets without any sign of its language
_EDGES: Final = ".,;:!?()[]{}\"'«»„“”‚‘’…*_<>"
# Hyphens and the apostrophes of elisions end a word.
_WORD: Final = re.compile(
    r"(?<!\w)[a-zà-öø-ÿœğış]{3,40}(?!\w)|[а-яё]{3,40}|[ά-ώ]{3,40}|[\u0900-\u0963]{2,40}|[\u0621-\u0652\u0670]{3,40}"
)
_LEAST_WRITTEN: Final = 0.3  # share of a text's words in a script
_LEAST_SHARE: Final = 0.08  # of a text's words; German and French have 0.25 to 0.45, tables and lists of names less
_LEAST: Final = 3  # minimum in a text; a query needs one
_CLEARLY: Final = 1.25  # times the count of any other language


def language_of(text: str) -> Language | None:
    """Return the language that the text's script or its function words tell; None for English, another language, or too few
    of these words."""
    words = text.lower().split()
    if (language := _written_in(words)) is not None:
        return language
    counts = _function_words(words)
    if not counts:
        return None
    first, second = [*sorted(counts.values(), reverse=True), 0][:2]
    if first < max(_LEAST, _LEAST_SHARE * len(words), _CLEARLY * second):
        return None
    return next((language for language in _WORDS if language != "english" and counts[language] == first), None)


def _written_in(words: Sequence[str]) -> Language | None:
    """Return the language by whose script a third of the words are written."""
    for language, script in _SCRIPTS.items():
        if sum(script.search(word) is not None for word in words if not word.isascii()) > _LEAST_WRITTEN * len(words):
            return language
    return None


def stems(text: str, language: Language) -> list[str]:
    """Return the stems of a text's words that `keyword.terms.analyze` does not give, in order, with repetitions."""
    return [stem for piece in text.split() for _, stem in _stems(language, piece)]


def query_stems(text: str) -> tuple[dict[str, list[str]], bool]:
    """Return the stems of each term in the languages that the query may be in, and whether that is certain."""
    languages, is_sure = _languages_of_query(text)
    stems_by_term: dict[str, list[str]] = {}
    for piece in text.split() if languages else ():
        for language in languages:
            for term, stem in _stems(language, piece):
                term_stems = stems_by_term.setdefault(term, [])
                if stem not in term_stems:
                    term_stems.append(stem)
    return stems_by_term, is_sure


def is_english(text: str) -> bool:
    """Return whether the function words of a query are English."""
    return _languages_of_query(text) == ((), True)


def _languages_of_query(text: str) -> tuple[tuple[Language, ...], bool]:
    """Return the languages that a query may be in, and whether exactly one language is likely."""
    lower = text.lower()
    if (language := _written_in(lower.split())) is not None:
        return (language,), True
    counts: Counter[str] = _function_words(word.strip(_EDGES) for word in lower.split())
    scores = {name: counts[name] + 0.5 * (_found(name, lower)) for name in _WORDS}
    most = max(scores.values())
    if most and scores["english"] == most:
        return (), True
    if not most:
        return _UNLESS_KNOWN, False
    likely = tuple(name for name, score in scores.items() if score == most and name != "english")
    return likely, len(likely) == 1


def _found(language: str, lower: str) -> bool:
    return language in _LETTERS and _LETTERS[language].search(lower) is not None


def _function_words(words: Iterable[str]) -> Counter[str]:
    return Counter(chain.from_iterable(filter(None, map(_SPOKEN_IN.get, words))))


_per_thread = threading.local()  # the stemmer keeps state, so each thread needs its own


@functools.lru_cache(maxsize=50_000)
def _stems(language: Language, piece: str) -> tuple[tuple[str, str], ...]:
    """Return a piece's stems that are no terms of it, each with its term. Accents are folded after stemming."""
    stemmer = getattr(_per_thread, language, None)
    if stemmer is None:
        stemmer = snowballstemmer.stemmer(language)
        setattr(_per_thread, language, stemmer)
    terms, asked = analyze(piece), query_terms(piece)
    pairs: list[tuple[str, str]] = []
    for word in _WORD.findall(normal_form("NFKC", piece).casefold()) if terms else ():  # a tatweel alone is no term
        stem = fold(str(stemmer.stemWord(word)))
        if language in _SPOKEN_IN.get(word, ()) or stem in terms:
            continue
        own = query_terms(word)
        pairs.append((own[0] if own and own[0] in asked else terms[0], stem))
    return tuple(pairs)
