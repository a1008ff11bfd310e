"""The parsers of all formats, and the detection of a document's media type."""

import re
from collections.abc import Callable
from dataclasses import dataclass, replace
from importlib import import_module
from importlib.util import find_spec
from pathlib import PurePosixPath
from typing import cast

from pipeline.documents.clean_text import clean
from pipeline.errors import EmptyDocument, MalformedDocument, UnsupportedMediaType
from pipeline.parsing.assembly import Block, assemble, one_line
from pipeline.parsing.csv import parse_csv, parse_tsv
from pipeline.parsing.docx import parse_docx
from pipeline.parsing.encodings import read_text
from pipeline.parsing.html import parse_html
from pipeline.parsing.json_documents import parse_json
from pipeline.parsing.light_markup import MARKUPS, parse_markup
from pipeline.parsing.markdown_text import parse_markdown
from pipeline.parsing.recognition import PageReader
from pipeline.records import Parsed

Parser = Callable[[bytes, str | None], Parsed]

_MEDIA_TYPE = re.compile(r"[a-z0-9][a-z0-9.+-]*/[a-z0-9][a-z0-9.+-]*", re.ASCII)
_SUFFIX = re.compile(r"\.[a-z0-9][a-z0-9_-]*", re.ASCII)
_LONGEST_MEDIA_TYPE = 127
_CUE = r"(?:\d{1,3}:)?\d\d:\d\d[,.]\d{3} --> (?:\d{1,3}:)?\d\d:\d\d[,.]\d{3}"
_SUBTITLES = re.compile(rf"\s{{0,9}}(?:WEBVTT\b|\d{{1,6}}\r?\n{_CUE})")
_CUE_PLACE = re.compile(rf"^({_CUE}) [^\r\n]*", re.MULTILINE)  # on the screen
_VOICE = re.compile(r"<v(?:\.[\w.]+)? ([^<>\n]{1,99})>")  # of a speaker
_CUE_TAG = re.compile(r"</?(?:[bciuv]|font|lang|ruby|rt|[\d:.]{1,16}+)(?:[.\s][^<>\n]{0,99})?>|\{\\[^{}\n]{0,99}\}")
PLAIN, MARKDOWN, HTML, JSONL = "text/plain", "text/markdown", "text/html", "application/jsonl"
CSV, TSV, JSON, PDF = "text/csv", "text/tab-separated-values", "application/json", "application/pdf"
DOCX = "application/vnd.openxmlformats-officedocument.wordprocessingml.document"
XLSX = "application/vnd.openxmlformats-officedocument.spreadsheetml.sheet"
PPTX = "application/vnd.openxmlformats-officedocument.presentationml.presentation"
PNG, JPEG, TIFF = "image/png", "image/jpeg", "image/tiff"
_OPEN_DOCUMENT = "application/vnd.oasis.opendocument."
ODT, ODS, ODP = (f"{_OPEN_DOCUMENT}{kind}" for kind in ("text", "spreadsheet", "presentation"))
XLS, XLSB = "application/vnd.ms-excel", "application/vnd.ms-excel.sheet.binary.macroenabled.12"
EPUB, RTF, NOTEBOOK = "application/epub+zip", "application/rtf", "application/x-ipynb+json"
EML, MHTML = "message/rfc822", "application/x-mimearchive"


@dataclass(frozen=True, slots=True, kw_only=True)
class Format:
    """A format of documents. ``media_type``: lower case, without parameters; ``suffixes``: with their dot. ``parse``:
    takes the bytes and the declared charset or None, raises `Rejected` errors, runs in the limited parser process and
    should import lazily."""

    media_type: str
    suffixes: tuple[str, ...]
    parse: Parser

    def __post_init__(self) -> None:
        if not _MEDIA_TYPE.fullmatch(self.media_type) or len(self.media_type) > _LONGEST_MEDIA_TYPE:
            raise ValueError(f"{self.media_type!r} is no media type")
        wrong = [suffix for suffix in self.suffixes if not _SUFFIX.fullmatch(suffix)]
        if wrong:
            raise ValueError(f"{wrong[0]!r} is no suffix such as .rst")


def parse_plain(body: bytes, charset: str | None) -> Parsed:
    """Return one section without a heading: in plain text, headings look like short lines. Subtitles are read without their
    tags."""
    decoded = read_text(body, declared=charset)
    text = decoded.text
    if _SUBTITLES.match(text):
        text = _CUE_TAG.sub("", _VOICE.sub(r"\1: ", _CUE_PLACE.sub(r"\1", text)))
    return assemble([Block(text=text)], encoding=decoded.encoding)


def _of(module: str, function: str) -> Parser:
    """Return a parser that is imported with the first document that needs it, because its libraries are slow to load; the
    gateway, which only needs media types, never loads it."""

    def parse_later(body: bytes, _charset: str | None) -> Parsed:
        return cast(Parsed, getattr(import_module(f"pipeline.parsing.{module}"), function)(body))

    return parse_later


# Called with the body and the character set of its media type, if any. A new format is a line here and in SUFFIXES, or
# a `Format` that another package registers.
PARSERS: dict[str, Parser] = {
    PLAIN: parse_plain,
    MARKDOWN: parse_markdown,
    HTML: parse_html,
    CSV: parse_csv,
    TSV: parse_tsv,
    JSON: parse_json,
    PDF: _of("pdf.pages", "parse_pdf"),
    DOCX: lambda body, _charset: parse_docx(body),
    XLSX: _of("workbook", "parse_xlsx"),
    XLSB: _of("workbook", "parse_xlsx"),
    XLS: _of("other_workbooks", "parse_xls"),
    ODS: _of("other_workbooks", "parse_ods"),
    ODT: _of("opendocument", "parse_odt"),
    ODP: _of("opendocument", "parse_odp"),
    RTF: _of("rich_text", "parse_rtf"),
    EPUB: _of("books_and_mail", "parse_epub"),
    EML: _of("books_and_mail", "parse_eml"),
    MHTML: _of("books_and_mail", "parse_mhtml"),
    NOTEBOOK: _of("notebooks", "parse_notebook"),
}

# Programs, settings, logs and subtitles: read as plain text, which keeps their indentation, unless a `Format` is
# registered. The client has the same list.
_TEXT_KINDS = (
    "adoc asciidoc ass bat bib c cc cfg cjs clj conf cpp cs css cxx dart diff env ex exs fs go gradle graphql"
    " groovy h hh hpp hs hxx ics ini java jl js json5 jsonc jsx kt kts less log lrc lua m mjs mts org pas patch"
    " php pl plist po properties proto ps1 psm1 py pyi r rb rs rst scala scss sh sql srt ssa sub svelte swift"
    " tex tf toml ts tsx vb vcf vtt vue xml xsd xsl yaml yml zsh"
)
_SLIDES = ".pptx .pptm .ppsx .ppsm .potx".split()  # noqa: SIM905 - easier to read in a row, as are those below
_NAMES = {
    **{PLAIN: f"txt text {_TEXT_KINDS}", MARKDOWN: "md markdown mdx mkd rmd qmd", HTML: "html htm xhtml"},
    **{JSON: "json geojson", JSONL: "jsonl ndjson", CSV: "csv", TSV: "tsv", PDF: "pdf", DOCX: "docx docm dotx dotm"},
    **{XLSX: "xlsx xlsm xltx xltm"},
    **{XLSB: "xlsb", XLS: "xls xlt", ODS: "ods ots fods", ODT: "odt ott fodt", ODP: "odp otp fodp", RTF: "rtf"},
    **{EPUB: "epub", EML: "eml", MHTML: "mhtml mht", NOTEBOOK: "ipynb"},
}
# Every accepted media type; JSON lines contain many documents and are split before parsing.
SUFFIXES = {f".{name}": media_type for media_type, names in _NAMES.items() for name in names.split()}
_OTHER_NAMES = {
    "text/x-markdown": MARKDOWN,
    "application/xhtml+xml": HTML,
    "application/x-ndjson": JSONL,
    "application/ndjson": JSONL,
    "application/x-jsonlines": JSONL,
    "application/jsonlines": JSONL,
    "application/csv": CSV,
    "text/tsv": TSV,
    "text/json": JSON,
    "application/x-pdf": PDF,
    "image/jpg": JPEG,
    "application/vnd.ms-word.document.macroenabled.12": DOCX,
    "application/vnd.ms-excel.sheet.macroenabled.12": XLSX,
    **{f"{kind}-template": kind for kind in (ODT, ODS, ODP)},
    "text/rtf": RTF,
    "multipart/related": MHTML,
    "application/x-ipynb": NOTEBOOK,
}
RECOGNISED = frozenset({PDF, PNG, JPEG, TIFF})  # formats whose text may depend on the recognition of pictures
_PICTURES = {".png": PNG, ".jpg": JPEG, ".jpeg": JPEG, ".tif": TIFF, ".tiff": TIFF}
if find_spec("pptx") is not None:
    PARSERS[PPTX] = _of("slides", "parse_pptx")
    SUFFIXES |= dict.fromkeys(_SLIDES, PPTX)
_WITHOUT_PPTX = "; to read slides, install the extra slides (pip install 'chordwise[slides]')"
_WITHOUT_OCR = "; to read pictures, install tesseract-ocr and 'chordwise[ocr]', and set CHORDWISE_OCR_LANGUAGES"
# The remedy for what this installation could read and does not.
_REMEDIES = {
    **dict.fromkeys((*_SLIDES, PPTX), _WITHOUT_PPTX),
    **dict.fromkeys((*_PICTURES, *_PICTURES.values()), _WITHOUT_OCR),
    **dict.fromkeys((".ppt", ".pps", ".key"), "; save slides as .pptx or .pdf"),
    **dict.fromkeys((".doc", ".dot", ".wps", ".pages", ".mobi", ".azw3"), "; save it as .docx, .pdf or .html"),
    ".msg": "; save it as .eml",
    **dict.fromkeys((".et", ".numbers"), "; save it as .xlsx or .csv"),
    **dict.fromkeys((".zip", ".gz", ".tgz", ".tar", ".7z", ".rar"), "; unpack it and send its files"),
}


def register(format: Format) -> None:
    """Accept and parse another format, once. Raises ValueError if its media type or a suffix belongs to another."""
    if PARSERS.get(format.media_type, format.parse) is not format.parse:
        raise ValueError(f"{format.media_type} has a parser already")
    taken = [
        suffix
        for suffix in format.suffixes
        if SUFFIXES.get(suffix, format.media_type)
        not in (format.media_type, PLAIN if suffix[1:] in _TEXT_KINDS.split() else None)
    ]
    if taken or format.media_type in _OTHER_NAMES or format.media_type == JSONL:
        raise ValueError(f"{taken[0] if taken else format.media_type} stands for another format already")
    PARSERS[format.media_type] = format.parse
    SUFFIXES.update(dict.fromkeys(format.suffixes, format.media_type))


def read_pictures(reader: PageReader) -> None:
    """Accept picture files, and let ``reader`` recognise them and the pages of PDF files that hold only pictures."""

    def picture(body: bytes, _charset: str | None) -> Parsed:
        from pipeline.parsing.pictures import parse_picture

        return parse_picture(body, reader)

    def pdf(body: bytes, _charset: str | None) -> Parsed:
        from pipeline.parsing.pdf.pages import parse_pdf

        return parse_pdf(body, reader)

    PARSERS[PDF] = pdf
    if find_spec("PIL") is not None:
        PARSERS.update(dict.fromkeys((PNG, JPEG, TIFF), picture))
        SUFFIXES.update(_PICTURES)


def media_type_of(filename: str | None, declared: str | None) -> str:
    """Return the media type to parse as: by the name's suffix, else as ``declared``, whose character set is kept.
    Raises UnsupportedMediaType, which names what is accepted."""
    suffix = PurePosixPath((filename or "").replace("\\", "/")).suffix.lower().strip()
    base, _, parameters = (declared or "").partition(";")
    base = base.strip().lower()
    media_type = (
        SUFFIXES.get(suffix)
        or _OTHER_NAMES.get(base)
        or (base if base in SUFFIXES.values() or base in PARSERS else None)
    )
    if media_type is None:
        raise UnsupportedMediaType(_refusal(suffix or base or "a file without a type"))
    return f"{media_type};{parameters}" if "charset" in parameters.lower() else media_type


def parse(body: bytes, *, media_type: str, filename: str | None = None) -> Parsed:
    """Return a document's text, sections and title (of the file's name if it has none); offsets count characters of
    ``Parsed.text``. ``media_type`` as from `media_type_of`. Raises Rejected errors, such as EmptyDocument.
    `sandbox.process` bounds the cost."""
    base, _, parameters = media_type.partition(";")
    parser = PARSERS.get(base.strip().lower())
    if parser is None:
        raise UnsupportedMediaType(_refusal(base.strip() or "an empty media type"))
    suffix = PurePosixPath((filename or "").replace("\\", "/")).suffix.lower()
    try:
        is_marked, charset = parser is parse_plain and suffix in MARKUPS, charset_of(parameters)
        parsed = parse_markup(body, charset, suffix) if is_marked else parser(body, charset)
    except RecursionError:
        raise MalformedDocument("the document is nested too deeply") from None
    if not parsed.text.strip():
        warning = parsed.encoding.pages_warning if parsed.encoding else None
        raise EmptyDocument(f"the document holds no text; {warning}" if warning else "the document holds no text")
    if parsed.title is None and filename:
        stem = PurePosixPath(filename.replace("\\", "/")).stem
        parsed = replace(parsed, title=one_line(clean(stem)) or None)
    return parsed


def charset_of(parameters: str) -> str | None:
    """Return the character set among the parameters of a media type."""
    for parameter in parameters.split(";"):
        name, _, value = parameter.partition("=")
        if name.strip().lower() == "charset":
            return value.strip().strip("\"'") or None
    return None


def main_suffixes() -> list[str]:
    """Return the first suffix of each accepted format, in order of the alphabet."""
    return sorted({media_type: suffix for suffix, media_type in reversed(SUFFIXES.items())}.values())


def _refusal(what: str) -> str:
    kinds, media_types = ", ".join(main_suffixes()), ", ".join(sorted({*SUFFIXES.values(), *PARSERS}))
    accepted = f"accepted are {kinds} and texts such as .log, .py and .yaml ({media_types})"
    if what in _REMEDIES:
        return f"{what} is not supported{_REMEDIES[what]}; {accepted}"
    return f"{what} is not supported; {accepted}; to read it as one of these, name that in parser_hint (--parser-hint)"
