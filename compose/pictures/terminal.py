"""The output of `make demo` as a page to take a picture of: two of its questions, and what follows them."""

import io

from rich.console import Console
from rich.terminal_theme import MONOKAI
from rich.text import Text

_ENGLISH = "compare two lists"
_CHINESE = "MySQL 报错 1213"
_THEN = "The same document again"


def page_of(output: str) -> str:
    """Return HTML of the output, with its colours."""
    lines = [line.rstrip() for line in output.splitlines()]
    shown = ["$ make demo", "  ...", *_part(lines, _ENGLISH), "", *_part(lines, _CHINESE), "", *_rest(lines, _THEN)]
    console = Console(record=True, width=108, file=io.StringIO(), force_terminal=True, color_system="truecolor")
    for line in shown:
        console.print(Text.from_ansi(line), no_wrap=True, overflow="crop", crop=True, highlight=False)
    code = "<pre style=\"font: 14px/1.45 'DejaVu Sans Mono', monospace; margin: 20px\">{code}</pre>"
    style = "background: {background}; color: {foreground}; margin: 0"
    template = f'<!doctype html><meta charset="utf-8"><body style="{style}">{code}</body>'
    return console.export_html(theme=MONOKAI, inline_styles=True, code_format=template)


def _part(lines: list[str], words: str) -> list[str]:
    """Return the question with these words and its answer, up to the empty line behind it."""
    begins = next(place for place, line in enumerate(lines) if words in line and "?" in line)
    ends = next((place for place in range(begins + 1, len(lines)) if not lines[place]), len(lines))
    return lines[begins:ends]


def _rest(lines: list[str], words: str) -> list[str]:
    return lines[next(place for place, line in enumerate(lines) if words in line) :]
