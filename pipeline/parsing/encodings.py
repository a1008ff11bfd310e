"""Decode bytes to clean text."""

import codecs
import re
import unicodedata
from dataclasses import dataclass, replace

from pipeline.errors import UndecodableText
from pipeline.parsing.containers import SOMETHING_ELSE, what_it_is
from pipeline.parsing.detection import codec_of, guess, public_name
from pipeline.records import Encoding

_BYTE_ORDER_MARKS = (
    (codecs.BOM_UTF8, "utf-8"),
    (codecs.BOM_UTF32_LE, "utf-32-le"),  # before UTF-16, whose mark is its beginning
    (codecs.BOM_UTF32_BE, "utf-32-be"),
    (codecs.BOM_UTF16_LE, "utf-16-le"),
    (codecs.BOM_UTF16_BE, "utf-16-be"),
)
_CONTROL_BYTES = bytes(code for code in range(32) if code not in b"\t\n\r\f\x1b")
_MOST_NULS = 0.3  # share of the body
_DIVIDING_NULS = re.compile(rb"(?<=[^\s\0])\0+(?=[^\s\0])")
_NULS = "NUL bytes in the text were left out"
_MOST_CONTROL_BYTES = 0.01  # share of the body; text has next to none, random bytes have a tenth
_SAMPLE = 64 * 1024  # bytes examined when the encoding is unknown
_SURE = 0.93  # probability below which a document gets a warning
_LONGEST_WARNING = 255  # characters
_MISREAD = re.compile("[ÃÂ][\u0080-\u00bf€‚ƒ„…†‡ˆ‰Š‹ŒŽ‘’“”•–—˜™š›œžŸ]|â€")  # UTF-8 that was read as Windows-1252
_LOST, _MOST_MARKS = re.compile(r"\?{2,}"), 0.2  # question marks in place of characters, and share of them
_LEAST_MISREAD = 3  # places
_UNMARKED = 0.99  # probability of UTF-16 without its mark, recognised by its zero bytes
_FEW = 6  # number of multi-byte characters up to which valid UTF-8 may be another encoding by chance
_ISO_2022 = ((b"\x1b$B", "iso2022_jp"), (b"\x1b$@", "iso2022_jp"), (b"\x1b$)C", "iso2022_kr"))

_UTF16_SAMPLE = 16 * 1024  # bytes examined
_LEAST_SPACES = 0.04  # share of zero bytes on one side: the ASCII characters, at least the spaces of another script
_LEAST_ZEROS = 2
_MOST_STRAYS = 0.002  # share of zero bytes on the other side
_MOST_ODD = 0.01  # share of characters that do not occur in text


@dataclass(frozen=True, slots=True, kw_only=True)
class DecodedText:
    """The text of a body, not yet cleaned, and its encoding."""

    text: str
    encoding: Encoding


def decode(body: bytes, *, declared: str | None = None) -> str:
    """Return the text of `read_text` alone."""
    return read_text(body, declared=declared).text


def read_text(body: bytes, *, declared: str | None = None) -> DecodedText:
    """Decode a body by byte order mark, as unmarked UTF-16, as UTF-8, or in the most likely encoding. ``declared``: the
    charset a sender named, preferred unless far less likely. Undecodable bytes become U+FFFD. The encoding has a
    warning if it is unsure, not the declared one, or left bytes undecoded. Raises UndecodableText."""
    for mark, encoding in _BYTE_ORDER_MARKS:
        if body.startswith(mark):
            return _decoded(body[len(mark) :], _strictly(body[len(mark) :], encoding), encoding)
    codec = codec_of(declared) if declared else None
    if codec is not None and codec.startswith(("utf-16", "utf-32")):
        try:
            return _decoded(body, body.decode(codec), codec)
        except UnicodeDecodeError:
            codec = None
    if (unmarked := unmarked_utf16(body)) is not None:
        text = body.decode(unmarked, "replace")
        return _decoded(body, text, unmarked, probability=_UNMARKED, declared=declared)
    if (known := what_it_is(body)) != SOMETHING_ELSE:
        raise UndecodableText(f"the body is {known}, not text")
    is_binary = _has_controls(body)
    if b"\0" in body and (without := _without_nuls(body)) is not None:
        padded = read_text(without, declared=declared)
        return replace(padded, encoding=replace(padded.encoding, warning=padded.encoding.warning or _NULS))
    if not is_binary and (decoded := _as_unambiguous(body, declared, codec)) is not None:
        return decoded
    likely = guess(body, declared=codec)
    if likely is not None and (not is_binary or (likely.codec.startswith("utf-16") and likely.is_plausible)):
        text = body.decode(likely.codec, "replace")
        if likely.is_plausible or codec == likely.codec:
            return _decoded(
                body, text, likely.codec, probability=likely.probability, rival=likely.rival, declared=declared
            )
    if is_binary:
        raise UndecodableText("the body is binary data, not text")
    raise UndecodableText("the text is in no encoding that could be recognised; save it as UTF-8")


def _has_controls(body: bytes) -> bool:
    controls = len(body) - len(body.translate(None, _CONTROL_BYTES))
    return controls > max(1, len(body) * _MOST_CONTROL_BYTES)


def _without_nuls(body: bytes) -> bytes | None:
    """Return a text without the NUL bytes that pad or divide its fields; None for what is no text without them."""
    if body.count(b"\0") > len(body) * _MOST_NULS:
        return None
    text = _DIVIDING_NULS.sub(b" ", body).replace(b"\0", b"")
    try:
        text.decode("utf-8")
    except UnicodeDecodeError:
        return None
    return None if _has_controls(text) else text


def _strictly(body: bytes, encoding: str) -> str:
    try:
        return body.decode(encoding)
    except UnicodeDecodeError:
        raise UndecodableText(f"the body begins as {encoding.upper()} text, but is not") from None


def _as_unambiguous(body: bytes, declared: str | None, codec: str | None) -> DecodedText | None:
    """Return the text if the bytes are unambiguous: ISO 2022 by its escapes, or UTF-8 of more than a few characters."""
    if b"\x1b$" in body and body.isascii():
        for escape, encoding in _ISO_2022:
            if escape in body:
                try:
                    return _decoded(body, body.decode(encoding), encoding, declared=declared)
                except UnicodeDecodeError:
                    continue
    try:
        text = body.decode("utf-8")
    except UnicodeDecodeError:
        return None
    beyond_ascii = len(body) - len(text)  # a lower bound of the number of multi-byte characters, times one to three
    if b"\0" in body[:_SAMPLE]:
        return None
    if body.isascii():
        return _decoded(body, text, "utf-8")
    if beyond_ascii > 3 * _FEW or codec == "utf-8" or len(_MISREAD.findall(text)) >= _LEAST_MISREAD:
        return _decoded(body, text, "utf-8", declared=declared)
    likely = guess(body, declared=codec, is_utf_8=len(body.translate(None, _CONTROL_BYTES + b"\x7f")) == len(body))
    if likely is None or likely.codec == "utf-8":
        probability = likely.probability if likely else 1.0
        return _decoded(
            body, text, "utf-8", probability=probability, rival=likely.rival if likely else None, declared=declared
        )
    if likely.probability > _SURE and likely.is_plausible:
        return None
    rival, probability = likely.codec, 1 - likely.probability
    return _decoded(body, text, "utf-8", probability=probability, rival=rival, declared=declared)


def _decoded(
    body: bytes,
    text: str,
    codec: str,
    *,
    probability: float = 1.0,
    rival: str | None = None,
    declared: str | None = None,
) -> DecodedText:
    name = public_name(codec)
    warnings = []
    if declared and codec_of(declared) is None:
        warnings.append(f"the declared charset {declared[:40]!a} is not known")
    elif declared and codec_of(declared) != codec and not _reads_alike(body, text, codec_of(declared)):
        warnings.append(f"the text does not fit the declared charset {declared[:40]!a} and was read as {name}")
    if probability < _SURE:
        other = f", and may be {public_name(rival)}" if rival else ""
        warnings.append(f"the encoding is not sure: the text was read as {name}{other}; name it in `charset`")
    if replaced := text.count("\ufffd"):
        if codec != "utf-8" or not is_utf8(body):
            warnings.append(f"{replaced} places of the text cannot be decoded as {name}")
        else:
            warnings.append(f"{replaced} characters had been lost before the file was sent (U+FFFD)")
    elif "锟斤拷" in text:
        warnings.append("characters had been lost before the file was sent (锟斤拷)")
    elif sum(map(len, _LOST.findall(text, 0, _SAMPLE))) > _MOST_MARKS * len(text[:_SAMPLE]):
        warnings.append("characters may have been lost before the file was sent (???)")
    if not text.isascii() and len(_MISREAD.findall(text, 0, _SAMPLE)) >= _LEAST_MISREAD:
        warnings.append("the text had been saved in a wrong encoding before the file was sent (such as Ã¤ for ä)")
    encoding = Encoding(
        name=name, probability=round(min(probability, 1.0), 3), warning="; ".join(warnings)[:_LONGEST_WARNING] or None
    )
    return DecodedText(text=text, encoding=encoding)


def _reads_alike(body: bytes, text: str, codec: str | None) -> bool:
    """Return whether the bytes give the same text in the other codec."""
    try:
        return codec is not None and body.decode(codec, "replace") == text
    except (LookupError, UnicodeError):
        return False


def is_utf8(body: bytes) -> bool:
    """Return whether all of a body is valid UTF-8."""
    try:
        body.decode("utf-8")
    except UnicodeDecodeError:
        return False
    return True


def unmarked_utf16(body: bytes) -> str | None:
    """Return ``utf-16-le`` or ``utf-16-be`` if the zero bytes of ``body`` tell UTF-16 without a mark, else None."""
    sample = body[:_UTF16_SAMPLE]
    if len(body) < 4 or len(body) % 2:
        return None
    pairs = len(sample) // 2
    first, second = sample[0::2].count(0), sample[1::2].count(0)
    least, most = max(_LEAST_ZEROS, pairs * _LEAST_SPACES), pairs * _MOST_STRAYS
    for encoding, zeros, others in (("utf-16-le", second, first), ("utf-16-be", first, second)):
        is_padded = zeros <= pairs * _MOST_NULS and sample.isascii()  # a text with a few NUL bytes
        if zeros >= least and others <= most and not is_padded and _is_text(sample, encoding):
            return encoding
    return None


def _is_text(sample: bytes, encoding: str) -> bool:
    text = sample.decode(encoding, "replace")
    odd = sum(
        unicodedata.category(character) in ("Cc", "Cn", "Co", "Cs") and character not in "\t\n\r\x0c"
        for character in text
    )
    return odd + text.count("\ufffd") <= max(1, len(text) * _MOST_ODD)
