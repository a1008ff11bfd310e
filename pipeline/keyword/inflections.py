"""Inflected words of languages other than English: detect the language of a text, and give its words a common stem."""

import functools
import re
import threading
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from itertools import chain
from typing import Final, Protocol

import snowballstemmer

from pipeline.keyword.normal_form import normal_form
from pipeline.keyword.terms import analyze, fold, query_terms

Language = str  # of Snowball, or one of `_OWN`


def _set_of(words: str) -> frozenset[str]:
    return frozenset(words.split())


# Function words, which make up a third of any text. Those of English are listed for their overlap with the others.
_WORDS: Final[dict[Language, frozenset[str]]] = {
    "german": _set_of(
        """aber alle als am auch auf aus bei beim bis bzw da das dass dem den der des die dies diese dieser dieses doch
        durch ein eine einem einen einer eines er es für gegen hat haben ich ihr im in ist ja jede jeder kann keine können
        man mehr mit muss nach nicht noch nur ob oder ohne sein seine sich sie sind so soll über um und unter vom von vor
        war waren warum was wegen welche welcher wem wen wenn wer werden wie wird wo wurde wurden zu zum zur zwischen"""
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
        """a al como con cuando cuál de del desde donde dónde el en entre es esta este esto están está fue ha hay la las lo
        los más muy ni no o para pero por porque que qué se según ser si sin sobre son su sus sí también tiene un una y ya"""
    ),
    "italian": _set_of(
        """a ai al alla alle anche che chi come con da dal dalla dalle degli dei del della delle di dove e gli ha i il in la
        le lo ma nel nella non o per perché più quando quale questa questo se si solo sono su sul sulla tra un una è"""
    ),
    "portuguese": _set_of(
        """a ao aos as com como da das de do dos e em entre esta este foi mais mas na nas no nos não o onde os ou para pela
        pelo por pode qual quando que se sem ser seu sua são também tem um uma à é"""
    ),
    "catalan": _set_of(
        """a al als amb aquest aquesta com de del dels des el els en entre es és està ha hi i la les li més no o on per
        però què quan que qui sense seva són també un una va"""
    ),
    "romanian": _set_of(
        """a al ale care ce cu cum de din după este fi fost în la lui mai nu o pe pentru prin sau se și şi sunt un
        unde unei unui va vor"""
    ),
    "swedish": _set_of(
        """alla att av den det de detta du efter eller en ett från för han har hon hur i inom inte jag kan man med mellan mot
        måste när och om på ska som till under utan vad var vara vid vilken är över"""
    ),
    "danish": _set_of(
        """af alle at blev blive både da de den der deres det dette du efter eller en er et for fra han har hun hvad hvis
        hvor hvordan i ikke jeg kan man med mellem mod når og også om over på skal som til ud under uden ved være"""
    ),
    "norwegian": _set_of(
        """alle at av ble bli både da de den der det dette du eller en er et etter for fra han har hun hva hvis hvor hvordan
        i ikke jeg kan man med mellom mot når og også om over på skal som til ut under uten ved være"""
    ),
    "finnish": _set_of(
        """ei eivät että hän ja jos joka jonka jotka kanssa kuin kun kuinka mikä millä miksi missä milloin mitä mukaan mutta
        myös ne niin noin olevan oli olla on ovat saa se sekä sen siitä tai tämä vain voi voidaan"""
    ),
    "estonian": _set_of(
        """aga ei et ehk ja juures kas kes kui kuidas kus ka mida millal mis need nii ning oli oma on on peab pärast see
        selle siis sõi ta tema võib või"""
    ),
    "hungarian": _set_of(
        """a az azt azok csak de egy el és ez ezt hogy hol hogyan ha is itt kell között lehet ki meg melyik mely mi mikor
        milyen mint nem nincs ott szerint után vagy van volt"""
    ),
    "polish": _set_of(
        """a aby albo ale bez być co czy dla do gdy gdzie i ich jak jako jest jego jej już kiedy kto która które który lub
        ma mogą może można na należy nie o od oraz po pod przed przez przy są się ta także te ten to tylko w wynosi z za ze
        że"""
    ),
    "czech": _set_of(
        """a aby ale ani až být by co do i jak jako je jeho jejich jen jsou kde kdy kdo která které který má mezi mohou může
        na nebo není o od po pod podle pro proto před přes při s se si tak také ten to v ve z za ze že"""
    ),
    "lithuanian": _set_of(
        """apie ar ant bei bet buvo dėl gali iki ir iš jei jis ji jo jų kad kai kaip kas kuri kuris kur nėra ne nuo o pagal
        per po prie su tai tik už yra į"""
    ),
    "serbian": _set_of(
        """a ali bez bi bio da do gde gdje i ili iz ima je jedan kada kako kao koja koje koji li mogu može na nakon ne nije
        o od po pod pre prije s sa samo se su šta što te to u uz za"""
    ),
    "turkish": _set_of(
        """ama ancak bir bu bunu çok da daha de değil diye en gibi hangi her için ile ise kadar mi mı mu mü ne neden nasıl
        nedir nerede olan olarak oldu olur onu o sonra şu tarafından var ve veya ya yok"""
    ),
    "indonesian": _set_of(
        """ada adalah agar akan anda apa atau bagaimana bagi bahwa belum berapa bisa boleh dalam dan dapat dari dengan di
        harus hanya ini itu jika juga kami karena kapan ke kepada oleh pada saat sebagai selama siapa sudah tidak untuk
        yang"""
    ),
    "basque": _set_of(
        "bai baina bat da dago dira du dute edo ere eta ez hau hori izan nola non noiz oso zein zer zuen"
    ),
    "irish": _set_of("agus ag an ar as bhí cad cé conas do faoi go i is le leis mar na ní nó ó sa sé sí tá trí"),
}
# Scripts by their letters, each with its languages and the sign by which a language is recognised; the last one needs none.
_SCRIPTS: Final[tuple[tuple[re.Pattern[str], dict[Language, str]], ...]] = (
    (re.compile("[а-яёєіїґђјљњћџ]"), {"serbian": "[ђјљњћџ]", "ukrainian": "[іїєґ]", "russian": ""}),
    (re.compile("[ά-ώ\u1f00-\u1fff]"), {"greek": ""}),
    (re.compile("[अ-ह]"), {"nepali": "(?<!च)\u094dछ(?!\\w)|(?<!\\w)छन?(?!\\w)|छन्|छैन|हरू|हरु|पनि(?!\\w)", "hindi": ""}),
    (re.compile("[ء-يٹ-ۓ]"), {"urdu": "[ٹڈڑںھے]", "persian": "[پچژگیک]", "arabic": ""}),
    (re.compile("[א-ת]"), {"hebrew": ""}),
    (re.compile("[অ-হ]"), {"bengali": ""}),
    (re.compile("[அ-ஹ]"), {"tamil": ""}),
    (re.compile("[ա-և]"), {"armenian": ""}),
)
_SPOKEN_IN: Final = {
    word: tuple(language for language, words in _WORDS.items() if word in words) for word in chain(*_WORDS.values())
}
_LETTERS: Final = {
    language: frozenset(letters)
    for language, letters in {
        "german": "äöüß",
        "french": "àâçèéêëîïôùûœ",
        "turkish": "âçğıîöşüû\u0307",
        "spanish": "áíñóúü¿¡",
        "italian": "àèìòù",
        "portuguese": "ãõáâàçêíóôú",
        "catalan": "àçèíïòóúü·",
        "romanian": "ăâîșțşţ",
        "swedish": "åäö",
        "danish": "æøå",
        "norwegian": "æøå",
        "dutch": "ëï",
        "finnish": "äöå",
        "hungarian": "áíóöőúüű",
        "polish": "ąćęłńóśźż",
        "czech": "áčďěíňóřšťúůýž",
        "lithuanian": "ąčęėįšųūž",
        "estonian": "õäöüšž",
        "serbian": "čćšđž",
        "irish": "áíóú",
    }.items()
}
_SIGNS: Final = "¿¡\u0307"  # besides letters: of İ in lower case
_IN_LOANWORDS: Final = frozenset("é")  # tells French, and nothing of other languages
_UNLESS_KNOWN: Final[tuple[Language, ...]] = (
    "german",
    "french",
)  # stems that a query gets without any sign of its language
_EDGES: Final = ".,;:!?()[]{}\"'«»„“”‚‘’…*_<>¿¡"
# Hyphens and the apostrophes of elisions and endings end a word.
_NO_LETTERS: Final = "\u0e00-\u0fff\u1000-\u109f\u1780-\u17ff\u3000-\ufaff\U00020000-\U000323af"
_WORD: Final = re.compile(
    rf"(?<!\w)(?:[^\W\d_{_NO_LETTERS}]|[\u0900-\u0963\u0980-\u0dff\u064b-\u0652\u0670]){{2,40}}(?!\w)"
)
_SHORTEST: Final = 3  # letters, but in Indian scripts
_LEAST_WRITTEN: Final = 0.3  # share of a text's words in a script
_LEAST_SHARE: Final = 0.08  # of a text's words; German and French have 0.25 to 0.45, tables and lists of names less
_LEAST: Final = 3  # minimum in a text; a query and a short text need one
_SHORT: Final = 20  # words
_CLEARLY: Final = 1.25  # times the count of any other language
_MOST_LANGUAGES: Final = 2  # of one text: Danish and Norwegian share most of these words


def languages_of(text: str) -> tuple[Language, ...]:
    """Return the languages that the text's script or its function words tell, seldom two; none for English, another
    language, or too few of these words."""
    words = text.lower().split()
    if language := _written_in(words):
        return (language,)
    counts = _function_words(word.strip(_EDGES) for word in words)
    is_short = len(words) < _SHORT
    least = 1 if is_short else max(_LEAST, _LEAST_SHARE * len(words))
    scores = _scored(counts, text.lower() if is_short else "")
    first = max(scores.values(), default=0.0)
    likely = tuple(language for language, score in scores.items() if first <= _CLEARLY * score)
    is_told = first >= least or (is_short and first > 0 and len(likely) == 1)
    return likely if is_told and "english" not in likely and len(likely) <= _MOST_LANGUAGES else ()


def _written_in(words: Sequence[str]) -> Language | None:
    """Return the language that the script of a third of the words and its signs tell."""
    others = [word for word in words if not word.isascii()]
    if len(others) <= _LEAST_WRITTEN * len(words):
        return None
    for script, languages in _SCRIPTS:
        if sum(script.search(word) is not None for word in others) > _LEAST_WRITTEN * len(words):
            text = " ".join(others)
            return next(language for language, sign in languages.items() if re.search(sign, text))
    return None


def stems(text: str, languages: Iterable[Language]) -> list[str]:
    """Return the stems of a text's words that `keyword.terms.analyze` does not give, in order, with repetitions of words."""
    pieces = text.split()
    return [stem for language in languages for piece in pieces for _, stem in _stems(language, piece)]


def query_stems(text: str) -> tuple[dict[str, list[str]], bool]:
    """Return the stems of each term in the languages that the query may be in, and whether that is certain."""
    languages, is_sure = _languages_of_query(text)
    return _by_term(text, languages), is_sure


def unsure_stems(text: str) -> dict[str, list[str]]:
    """Return the stems of each term of a query in any language of Europe, if its own is not certain."""
    if _languages_of_query(text)[1]:
        return {}
    return _by_term(text, (language for language in _WORDS if language != "english"))


def _by_term(text: str, languages: Iterable[Language]) -> dict[str, list[str]]:
    stems_by_term: dict[str, list[str]] = {}
    pieces = text.split()
    for language in languages:
        for piece in pieces:
            for term, stem in _stems(language, piece):
                term_stems = stems_by_term.setdefault(term, [])
                if stem not in term_stems:
                    term_stems.append(stem)
    return stems_by_term


def is_grammar(text: str) -> bool:
    """Return whether all words of a query are function words of one language."""
    words = [word.strip(_EDGES) for word in text.lower().split()]
    return bool(words) and any(known.issuperset(words) for known in _WORDS.values())


def is_english(text: str) -> bool:
    """Return whether the function words of a query are English."""
    return _languages_of_query(text) == ((), True)


def _languages_of_query(text: str) -> tuple[tuple[Language, ...], bool]:
    """Return the languages that a query may be in, and whether exactly one language, or one script's, is likely."""
    lower = text.lower()
    words = lower.split()
    if language := _written_in(words):
        return (language,), True
    counts = _function_words(word.strip(_EDGES) for word in words)
    scores = _scored(counts, lower)
    most = max(scores.values(), default=0.0)
    if most <= 0:
        return _UNLESS_KNOWN, False
    if scores["english"] == most:
        return (), True
    likely = tuple(name for name, score in scores.items() if score == most)
    if len(likely) > _MOST_LANGUAGES and not counts:  # of many languages that have its letters
        return _UNLESS_KNOWN, False
    return likely, len(likely) == 1


def _scored(counts: Counter[str], lower: str) -> dict[Language, float]:
    """Return the number of a text's function words in each language; one more if the language has all of its letters beyond
    ASCII, one less if it has none: ş is in Turkish and in Romanian, ğ only in Turkish."""
    letters = (
        set() if lower.isascii() else {sign for sign in lower if sign >= "\x80" and (sign.isalpha() or sign in _SIGNS)}
    )
    scores = {name: float(counts[name]) for name in _WORDS}
    if letters:
        for name, own in _LETTERS.items():
            if known := letters if name == "french" else letters - _IN_LOANWORDS:
                scores[name] += 2 * len(own & known) / len(known) - 1
    return scores


def _function_words(words: Iterable[str]) -> Counter[str]:
    return Counter(chain.from_iterable(filter(None, map(_SPOKEN_IN.get, words))))


class _Stemmer(Protocol):
    def stemWord(self, word: str) -> str: ...  # noqa: N802


class _Hebrew:
    """Takes one prefix (the, and, in, to, from, as) and an ending of number or gender away."""

    _PREFIX: Final = re.compile("ו?[הבלמשכ](?=.{3})|ו(?=.{3})")
    _ENDING: Final = re.compile("(?<=.{3})(?:ים|ות|ה|ת)$")

    def stemWord(self, word: str) -> str:  # noqa: N802
        prefix = self._PREFIX.match(word)
        return self._ENDING.sub("", word[prefix.end() :] if prefix else word)


class _Endings:
    """Takes the longest of some endings away, as long as a number of letters remain, and then a vowel that some forms
    lack."""

    def __init__(self, endings: str, *, least: int = 3, fleeting: str = "(?!)", softened: str = "") -> None:
        """``softened``: a last letter, and the one that it is before other endings."""
        longest_first = "|".join(sorted(normal_form("NFKC", endings).split(), key=len, reverse=True))
        self._ending = re.compile(f"(?<=.{{{least}}})(?:{longest_first})$")
        self._fleeting = re.compile(fleeting)
        self._soft, self._hard = softened[:1], softened[1:]

    def stemWord(self, word: str) -> str:  # noqa: N802
        stem = self._fleeting.sub("", self._ending.sub("", word))
        return stem[:-1] + self._hard if self._soft and stem.endswith(self._soft) else stem


def _ukrainian() -> _Stemmer:
    """Return a stemmer by the endings of nouns, adjectives and verbs."""
    return _Endings(
        """а я и і ї у ю о е є ь й ою ею єю ом ем єм ам ям ами ями ах ях ів їв ей ові еві єві ий ій ого його ому йому
        им їм іх їх их ими їми ої ую юю яя ть ти ють уть ять ать ння нню нням нями""",
        fleeting="(?<=..)[оеє](?=[кц]$)",  # будинок, in other cases будинк-
        softened="цк",  # бібліотека, у бібліотеці
    )


def _urdu() -> _Stemmer:
    """Return a stemmer by the endings of plurals and of the oblique case, ہ and ا of singular nouns as well."""
    return _Endings("اں یں وں ات ے ہ ا", least=2)


def _bengali() -> _Stemmer:
    """Return a stemmer by the endings of plurals, of cases and of the article."""
    return _Endings(
        "গুলি গুলো গুলির গুলোর গুলিতে গুলোতে গুলিকে রা দের েরা টি টা টির টার টিকে টাকে টিতে কে র ের য় তে ে য়ের য়ে",
        least=2,
    )


class _Corrected:
    """A stemmer of Snowball, and a further ending that it leaves."""

    def __init__(self, language: Language, ending: str) -> None:
        self._stemmer, self._ending = snowballstemmer.stemmer(language), re.compile(ending)

    def stemWord(self, word: str) -> str:  # noqa: N802
        return self._ending.sub("", str(self._stemmer.stemWord(word)))


_OWN: Final[dict[Language, Callable[[], _Stemmer]]] = {
    "hebrew": _Hebrew,
    "ukrainian": _ukrainian,
    "urdu": _urdu,
    "bengali": _bengali,
    "polish": lambda: _Corrected("polish", "(?<=...)um$"),  # muzeum, in the plural muzea
    "romanian": lambda: _Corrected("romanian", "(?<=...)ur$"),  # preț, in the plural prețuri
}
_PERSIAN: Final = str.maketrans("يك", "یک")  # as Persian and Urdu write them
_per_thread = threading.local()  # the stemmer keeps state, so each thread needs its own


@functools.lru_cache(maxsize=10_000)  # 93 of 100 words of an English corpus; five times as many entries hold 95
def _stems(language: Language, piece: str) -> tuple[tuple[str, str], ...]:
    """Return a piece's stems that are no terms of it, each with its term. Accents are folded after stemming."""
    stemmer = getattr(_per_thread, language, None)
    if stemmer is None:
        stemmer = _OWN[language]() if language in _OWN else snowballstemmer.stemmer(language)
        setattr(_per_thread, language, stemmer)
    terms, asked = analyze(piece), query_terms(piece)
    pairs: list[tuple[str, str]] = []
    for word in (
        _WORD.findall(normal_form("NFKC", piece).casefold().replace("i\u0307", "i")) if terms else ()
    ):  # a tatweel alone is no term
        if (word.isascii() and language not in _WORDS) or (len(word) < _SHORTEST and word < "\u0900"):
            continue
        written = word.translate(_PERSIAN) if language in ("persian", "urdu") else word
        stem = fold(str(stemmer.stemWord(written)))
        if language in _SPOKEN_IN.get(word, ()) or stem in terms:
            continue
        own = query_terms(word)
        pairs.append((own[0] if own and own[0] in asked else terms[0], stem))
    return tuple(pairs)
