"""Detect the encoding of bytes without a mark that are not UTF-8: the one in which they are the most likely text.

Each candidate encoding is scored by the log-likelihood of the whole text under the languages written in it: the
characters by `character_models`, and how often a non-ASCII character follows another one. The candidates explain the
same bytes, so their likelihoods are comparable, and with a prior for each encoding they give probabilities (Bayes'
rule). As neighbouring characters depend on each other, the logarithms are damped by `_DAMPING` before.
"""

import codecs
import math
import re
import unicodedata
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache

from pipeline.parsing.character_models import IMPOSSIBLE, UNKNOWN, Language, languages

_ASCII = -3.5  # of an ASCII character, in any language
_DAMPING = 0.6
_FOREIGN = -4.0  # added for a language that an encoding can hold and is rarely used for
_JOINT = math.log(0.05)  # of a letter of another alphabet beside an ASCII letter
_DECLARED = 9.0  # added to the logarithm of the declared encoding, if the bytes decode in it
_MOST_OF_ONE = 1 / 8  # share of the non-ASCII characters above which one character is capped: rules of box drawings
_MOST_REPLACED = 0.02  # share of undecodable characters among the non-ASCII ones of a damaged text
_LOST = -8.0  # of a damaged character of UTF-8, whose other ones are no accident
_CLOSE = 25.0  # below the best: candidates whose text is compared with the best one's

_WHOLE = 256 * 1024  # bytes scored completely; beyond that, pieces from all non-ASCII lines
_PIECES, _PIECE = 16, 16 * 1024
_LINE_PART = re.compile(rb"[\t\n\r -/]")  # bytes that are not part of a multi-byte character

_NON_ASCII_RUNS = re.compile("[^\x00-\x7f]+")
_JOINTS = re.compile(rb"[A-Za-z][\x80-\xff]|[\x80-\xff][A-Za-z]")
_HIGH_RUNS = re.compile(rb"[\x80-\xff]+")
_CONTROLS = frozenset(chr(code) for code in range(32) if chr(code) not in "\t\n\r\f\x1b") | {"\x7f"}

_CHINESE_JAPANESE = ("zh-Hans", "zh-Hant", "ja")
_LATINS = ("western", "fr", "de", "es", "pt", "it", "nordic")
_CENTRAL = ("pl", "cs", "hu", "ro", "hr", "de")
# Codec of Python: the logarithm of its prior, and the languages that are written in it.
_OF_SEVERAL_BYTES: dict[str, tuple[float, tuple[str, ...]]] = {
    "gb18030": (0.0, _CHINESE_JAPANESE),
    "big5hkscs": (-0.5, ("zh-Hant", "ja")),
    "cp932": (-1.0, ("ja",)),
    "euc_jp": (-2.0, ("ja",)),
    "cp949": (-1.0, ("ko",)),
}
_OF_ONE_BYTE: dict[str, tuple[float, tuple[str, ...]]] = {
    "cp1252": (0.0, _LATINS),
    "iso8859-15": (-6.0, _LATINS),
    "mac-roman": (-8.0, _LATINS),
    "cp850": (-8.0, _LATINS),
    "cp1250": (-4.0, _CENTRAL),
    "iso8859-2": (-4.0, _CENTRAL),
    "cp852": (-8.0, _CENTRAL),
    "cp1254": (-5.0, ("tr",)),
    "cp1257": (-6.0, ("baltic",)),
    "iso8859-13": (-8.0, ("baltic",)),
    "cp1251": (-1.0, ("ru",)),
    "koi8-u": (-3.0, ("ru",)),
    "iso8859-5": (-5.0, ("ru",)),
    "cp866": (-5.0, ("ru",)),
    "mac-cyrillic": (-8.0, ("ru",)),
    "cp1253": (-3.0, ("el",)),
    "iso8859-7": (-4.0, ("el",)),
    "cp1255": (-3.0, ("he",)),
    "cp1256": (-3.0, ("ar",)),
    "iso8859-6": (-5.0, ("ar",)),
    "cp874": (-3.0, ("th",)),
}
_UTF_16 = -3.0
_BEGINNING = 4096  # bytes
_MEAN_AT_RANDOM = -13.0

# Other names of encodings, with the larger table that contains each.
_LARGER = {
    **dict.fromkeys(("gb2312", "gbk", "gb18030"), "gb18030"),
    **dict.fromkeys(("big5", "cp950", "big5hkscs"), "big5hkscs"),
    **dict.fromkeys(("shift_jis", "cp932"), "cp932"),
    **dict.fromkeys(("euc_kr", "cp949"), "cp949"),
    **dict.fromkeys(("iso8859-1", "ascii", "cp1252"), "cp1252"),
    **dict.fromkeys(("tis-620", "iso8859-11", "cp874"), "cp874"),
    **{"iso8859-9": "cp1254", "koi8-r": "koi8-u", "utf-8-sig": "utf-8"},
}
# Names of Python's codecs that are character sets of documents; others are not text, or take quadratic time.
_CHARACTER_SET = re.compile(r"(utf|gb|big5|euc|shift|iso|cp\d|koi8|mac|latin|johab|hz|tis|ascii)")
_NAMES = {
    **{"big5hkscs": "big5", "cp932": "shift_jis", "cp949": "euc-kr", "euc_jp": "euc-jp", "cp874": "windows-874"},
    **{"utf-16-le": "utf-16le", "utf-16-be": "utf-16be", "utf-32-le": "utf-32le", "utf-32-be": "utf-32be"},
    **{f"cp125{digit}": f"windows-125{digit}" for digit in range(9)},
    **{f"iso8859-{number}": f"iso-8859-{number}" for number in range(1, 17)},
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Guess:
    """The most likely encoding by its Python name. ``probability``: of its text, over all encodings with the same text.
    ``rival``: the most likely encoding of another text. ``is_plausible``: it looks like a known language."""

    codec: str
    probability: float
    rival: str | None
    is_plausible: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class _Scored:
    codec: str
    score: float
    mean: float  # of the characters that are not ASCII
    of_one_byte: bool


def public_name(codec: str) -> str:
    """Return the common name of a Python codec."""
    return _NAMES.get(codec, codec)


def codec_of(charset: str) -> str | None:
    """Return the codec of a character set's name, in the larger table where pages name a part of it; None if unknown."""
    try:
        name = codecs.lookup(charset.strip().lower().removeprefix("x-")).name
    except (LookupError, ValueError):
        return None
    return _LARGER.get(name, name) if _CHARACTER_SET.match(name) else None


def guess(body: bytes, *, declared: str | None = None, is_utf_8: bool = False) -> Guess | None:
    """Return the most likely encoding of a body, None if none fits. ``declared``: preferred unless far less likely.
    ``is_utf_8``: valid UTF-8, so not UTF-16. Above 256 KiB only non-ASCII lines, or pieces of them, are read."""
    sample = _sample(body)
    scored = [*_of_several_bytes(sample, declared), *_of_one_byte(sample, declared)]
    if len(body) % 2 == 0 and not is_utf_8 and _may_be_utf_16(body):
        sample_of_pairs = _sample_of_pairs(body)
        share = len(sample) / max(1, len(sample_of_pairs))
        utf_16 = _scores(sample_of_pairs, {"utf-16-le": _UTF_16, "utf-16-be": _UTF_16}, tuple(languages()))
        scored += [replace(candidate, score=candidate.score * share) for candidate in utf_16]
    if not scored:
        return None
    scored = [_preferred(candidate, declared, body) for candidate in scored]
    scored.sort(key=lambda candidate: (-candidate.score, candidate.codec))
    best = scored[0]
    close = [candidate for candidate in scored if candidate.score > best.score - _CLOSE]
    texts = {
        candidate.codec: (body[:_WHOLE] if candidate.codec.startswith("utf-16") else sample).decode(
            candidate.codec, "replace"
        )
        for candidate in close
    }
    weights = {candidate.codec: math.exp((candidate.score - best.score) * _DAMPING) for candidate in close}
    same = sum(weight for codec, weight in weights.items() if texts[codec] == texts[best.codec])
    rival = next((candidate.codec for candidate in close if texts[candidate.codec] != texts[best.codec]), None)
    return Guess(
        codec=best.codec,
        probability=same / sum(weights.values()),
        rival=rival,
        is_plausible=best.mean > (-8.0 if best.of_one_byte else -10.8),
    )


def _may_be_utf_16(body: bytes) -> bool:
    """Return whether the beginning is text as UTF-16. The bytes of any other text would be random characters."""
    scored = _scores(body[:_BEGINNING], {"utf-16-le": 0.0, "utf-16-be": 0.0}, tuple(languages()))
    return any(candidate.mean > _MEAN_AT_RANDOM for candidate in scored)


def _preferred(scored: _Scored, declared: str | None, body: bytes) -> _Scored:
    if scored.codec != declared:
        return scored
    try:
        body.decode(scored.codec)
    except UnicodeError:
        return scored
    return replace(scored, score=scored.score + _DECLARED)


def _of_several_bytes(sample: bytes, declared: str | None) -> Iterable[_Scored]:
    yield from _scores(sample, {"utf-8": 1.0}, tuple(languages()))  # damaged, or it would have been decoded before
    for codec, (prior, spoken) in _OF_SEVERAL_BYTES.items():
        yield from _scores(sample, {codec: prior}, spoken)
    if declared and declared not in {"utf-8", *_OF_SEVERAL_BYTES, *_OF_ONE_BYTE} and not declared.startswith("utf"):
        yield from _scores(sample, {declared: -6.0}, tuple(languages()))


def _scores(sample: bytes, priors: Mapping[str, float], spoken: Sequence[str]) -> Iterable[_Scored]:
    """Score each codec by the language in which its text is the most likely."""
    for codec, prior in priors.items():
        text = sample.decode(codec, "replace")
        counts = Counter(text)
        beyond = sum(count for character, count in counts.items() if not character.isascii())
        replaced = counts.pop("\ufffd", 0)
        if replaced > max(2, beyond - replaced if codec == "utf-8" else beyond * _MOST_REPLACED):
            continue
        runs = sum(1 for _ in _NON_ASCII_RUNS.finditer(text))
        ascii_count = sum(counts.values()) + replaced - beyond
        controls = sum(counts[control] for control in _CONTROLS)
        lost = _LOST if codec == "utf-8" else IMPOSSIBLE
        base = prior + _ASCII * (ascii_count - controls) + IMPOSSIBLE * controls + lost * replaced
        others = {character: count for character, count in counts.items() if not character.isascii()}
        # ASCII read as UTF-16 is ideographs: rules of hyphens must cost as much as in ASCII, where nothing is capped.
        best = _best_language(others, beyond, runs, spoken, is_capped=not codec.startswith("utf-16"))
        mean = (best + IMPOSSIBLE * controls) / max(1, beyond + controls)
        yield _Scored(codec=codec, score=base + best, mean=mean, of_one_byte=False)


def _of_one_byte(sample: bytes, declared: str | None) -> Iterable[_Scored]:
    counts = Counter(sample)
    runs = sum(1 for _ in _HIGH_RUNS.finditer(sample))
    joints = sum(1 for _ in _JOINTS.finditer(sample))
    high = {byte: count for byte, count in counts.items() if byte > 0x7F}
    beyond = sum(high.values())
    controls = sum(counts[ord(control)] for control in _CONTROLS)
    base = _ASCII * (len(sample) - beyond - controls) + IMPOSSIBLE * controls
    for codec, (prior, spoken) in _OF_ONE_BYTE.items():
        table = _table(codec)
        others: Counter[str] = Counter()
        for byte, count in high.items():
            others[table[byte]] += count
        if others["\ufffd"] > max(2, beyond * _MOST_REPLACED):
            continue
        best = _best_language(others, beyond, runs, spoken, joints=joints)
        mean = (best + IMPOSSIBLE * controls) / max(1, beyond + controls)
        if mean > IMPOSSIBLE / 2 or codec == declared:
            yield _Scored(codec=codec, score=base + prior + best, mean=mean, of_one_byte=True)


def _best_language(
    counts: Mapping[str, int],
    beyond: int,
    runs: int,
    spoken: Sequence[str],
    *,
    joints: int | None = None,
    is_capped: bool = True,
) -> float:
    """Return the highest log-likelihood of these characters among languages; those that are not ``spoken`` get a penalty.

    ``runs``: the number of stretches of non-ASCII characters, of which there are ``beyond``. ``joints``: how many of
    these stand beside an ASCII letter, for an encoding of one byte, whose languages are the spoken ones alone.
    """
    if not beyond:
        return 0.0
    cap = 1 + beyond * _MOST_OF_ONE if is_capped else beyond
    capped = {character: min(count, cap) for character, count in counts.items()}
    models = languages()
    return max(
        _log_likelihood(capped, models[name])
        + (beyond - runs) * math.log(models[name].stays)
        + runs * math.log(1 - models[name].stays)
        + ((joints or 0) * _JOINT if models[name].is_alphabet else 0.0)
        + (0.0 if name in spoken else _FOREIGN)
        for name in (models if joints is None else spoken)
    )


def _log_likelihood(counts: Mapping[str, float], language: Language) -> float:
    logs = language.logs
    total = 0.0
    for character, count in counts.items():
        log = logs.get(character)
        total += count * (_unlisted(character) if log is None else log)
    return total


@cache
def _unlisted(character: str) -> float:
    return IMPOSSIBLE if unicodedata.category(character) in ("Cc", "Cn", "Co", "Cs") else UNKNOWN


@cache
def _table(codec: str) -> Sequence[str]:
    return [bytes((byte,)).decode(codec, "replace") for byte in range(256)]


def _sample(body: bytes) -> bytes:
    if len(body) <= _WHOLE:
        return body
    body = b"\n".join([line for line in body.split(b"\n") if not line.isascii()])
    if len(body) <= _WHOLE:
        return body
    pieces = [body[:_PIECE]]
    step = len(body) // _PIECES
    for start in range(step, len(body) - _PIECE, step):
        begins = _LINE_PART.search(body, start, start + _PIECE)
        if begins:
            pieces.append(body[begins.end() : start + _PIECE])
    return b"\n".join(pieces)


def _sample_of_pairs(body: bytes) -> bytes:
    if len(body) <= _WHOLE:
        return body
    step = len(body) // _PIECES & ~1
    return b"".join(body[start : start + _PIECE] for start in range(0, len(body), step))
