"""Words that our parsers keep of the files of a folder, beside a plain reader of the same files.

PDF files: those that `pdftotext` finds, or pdfium where that is not installed, without lines at the edges of pages that
stand on several of them. Word documents: the text elements of their main part. Words are compared without their order.
"""

from __future__ import annotations

import html
import re
import shutil
import subprocess
import unicodedata
import zipfile
from collections import Counter
from pathlib import Path
from typing import Any

import pypdfium2

from pipeline.errors import Rejected
from pipeline.parsing.formats import media_type_of, parse

_EDGE_LINES, _LEAST_PAGES = 3, 2
_WORD = re.compile(r"[^\W_]+")
_CJK = re.compile("[\u3000-\u9fff\uac00-\ud7af]")
_NUMBER = re.compile(r"\d+|\b[ivxl]{1,7}\b")
_BROKEN = re.compile("(?<=\\w)[-\u00ad\ufffe]\\s*\n(?=[a-z])")
_DROPPED = re.compile(
    r"<w:(?:delText|instrText)\b.*?</w:(?:delText|instrText)>|<mc:Fallback>.*?</mc:Fallback>", re.DOTALL
)

_TEXT = re.compile(r"<w:t(?: [^>]*)?>([^<]*)</w:t>|</w:p>|<w:(?:tab|br|cr)\b")


def run(folder: Path) -> dict[str, Any]:
    """Return for each PDF file and Word document of a folder the words that a plain reader finds, and the share of them
    that our text has; null for one that we refuse."""
    found: dict[str, Any] = {}
    for path in sorted(folder.rglob("*")):
        if path.suffix.lower() not in (".pdf", ".docx"):
            continue
        try:
            parsed = parse(path.read_bytes(), media_type=media_type_of(path.name, None), filename=path.name)
        except Rejected as error:
            found[path.name] = {"words": 0, "kept": None, "refused": error.code}
            continue
        words = _words(_of_pdf(path) if path.suffix.lower() == ".pdf" else _of_docx(path))
        total = sum(words.values())
        lost = sum((words - _words(parsed.text)).values())
        found[path.name] = {"words": total, "kept": round(1 - lost / total, 4) if total else 1.0}
    return found


def show(results: dict[str, Any]) -> str:
    """Return a line for each file, the worst first, and one for all."""
    read = {name: entry for name, entry in results.items() if entry["kept"] is not None}
    lines = [
        f"{entry['kept']:.3f}  {entry['words']:>8}  {name}"
        for name, entry in sorted(read.items(), key=lambda item: item[1]["kept"])
    ]
    lines += [f"refused ({entry['refused']})  {name}" for name, entry in results.items() if entry["kept"] is None]
    total = sum(entry["words"] for entry in read.values())
    kept = sum(entry["words"] * entry["kept"] for entry in read.values())
    return "\n".join(["kept      words  file", *lines, f"{kept / total if total else 1.0:.3f}  {total:>8}  all"])


def _words(text: str) -> Counter[str]:
    """Return words, and Chinese, Japanese and Korean characters one by one."""
    counted: Counter[str] = Counter()
    for word in _WORD.findall(unicodedata.normalize("NFKC", text).casefold()):
        counted.update(word if _CJK.search(word) else [word])
    return counted


def _of_pdf(path: Path) -> str:
    if program := shutil.which("pdftotext"):
        done = subprocess.run([program, str(path), "-"], capture_output=True, check=True)
        pages = done.stdout.decode("utf-8", "replace").split("\f")
    else:
        with pypdfium2.PdfDocument(path) as document:
            pages = [page.get_textpage().get_text_range(errors="replace").replace("\r\n", "\n") for page in document]
    lines = [[line for line in page.split("\n") if line.strip()] for page in pages]
    at_edges = Counter(key for page in lines for key in {_key(line) for line in _edges(page)})
    body = [
        line
        for page in lines
        for line in page
        if line not in _edges(page) or at_edges[_key(line)] < max(_LEAST_PAGES, min(3, len(lines) // 4))
    ]
    return _BROKEN.sub("", "\n".join(body))


def _edges(page: list[str]) -> list[str]:
    return page[:_EDGE_LINES] + page[-_EDGE_LINES:]


def _key(line: str) -> str:
    return _NUMBER.sub("#", line.strip().casefold())


def _of_docx(path: Path) -> str:
    with zipfile.ZipFile(path) as archive:
        main = archive.read("word/document.xml").decode("utf-8", "replace")
    texts = (found[1] if found[1] is not None else " " for found in _TEXT.finditer(_DROPPED.sub("", main)))
    return html.unescape("".join(texts))
