"""Jupyter notebooks to text: Markdown as Markdown, code to the character, and what the code printed."""

from collections.abc import Iterator
from typing import Any

from pipeline.documents.clean_text import clean
from pipeline.errors import MalformedDocument
from pipeline.parsing.assembly import Block, assemble
from pipeline.parsing.encodings import read_text
from pipeline.parsing.html import blocks_of_tree, read_fragment
from pipeline.parsing.json_documents import value_of
from pipeline.parsing.markdown_text import markdown_blocks
from pipeline.records import Parsed


def parse_notebook(body: bytes) -> Parsed:
    """Return the cells in order, each of code followed by its output: text, or tables of HTML. Pictures and other output
    are counted in a warning. Title: the first heading of level 1. Raises MalformedDocument."""
    decoded = read_text(body)
    notebook = value_of(decoded.text, [])
    sheets = notebook.get("worksheets", [notebook]) if isinstance(notebook, dict) else []
    cells = [cell for sheet in sheets if isinstance(sheet, dict) for cell in _list(sheet.get("cells"))]
    if not isinstance(notebook, dict) or "nbformat" not in notebook:
        raise MalformedDocument("the file is not a Jupyter notebook")
    warnings: list[str] = []
    return assemble(_blocks(cells, warnings), title=None, encoding=decoded.encoding, warnings=warnings)


def _blocks(cells: list[Any], warnings: list[str]) -> Iterator[Block]:
    unread = 0
    for cell in cells:
        if not isinstance(cell, dict):
            continue
        source, kind = _joined(cell.get("source", cell.get("input"))), cell.get("cell_type")
        if kind == "markdown":
            yield from markdown_blocks(clean(source), warnings)
        elif kind == "heading":  # of format 3
            level = str(cell.get("level", "1"))
            yield Block(text=source, level=int(level) if level in "123456" else 1)
        else:
            yield Block(text=source, is_code=True)
        for output in _list(cell.get("outputs")):
            blocks = list(_output(output)) if isinstance(output, dict) else []
            unread += not blocks
            yield from blocks
    if unread:
        warnings.append(f"{unread} outputs of code without text, such as pictures, were left out")


def _output(output: dict[str, Any]) -> Iterator[Block]:
    data = output.get("data")
    data = data if isinstance(data, dict) else output
    if any(kind.startswith("image/") for kind in data) or "png" in data:
        return  # its text names the object of the program
    page = _joined(data.get("text/html", data.get("html")))
    if "<table" in page:
        yield from blocks_of_tree(read_fragment(page).root)
        return
    text = _joined(data.get("text/plain", data.get("text"))) or _joined(output.get("traceback"), "\n")
    if text.strip() and not text.startswith("<IPython.core.display"):  # stands for what a browser shows
        yield Block(text=text, is_code=True)


def _list(value: Any) -> list[Any]:
    return value if isinstance(value, list) else []


def _joined(value: Any, between: str = "") -> str:
    return value if isinstance(value, str) else between.join(line for line in _list(value) if isinstance(line, str))
