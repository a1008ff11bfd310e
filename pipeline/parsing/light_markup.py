"""Org, reStructuredText and LaTeX to text: their headings, lists, tables and code in the marks of Markdown."""

import re
from collections.abc import Callable

from pipeline.documents.clean_text import clean_code
from pipeline.parsing.assembly import assemble
from pipeline.parsing.encodings import read_text
from pipeline.parsing.markdown_text import markdown_blocks
from pipeline.records import Parsed

_Rules = tuple[tuple[str, str | Callable[[re.Match[str]], str]], ...]


def parse_markup(body: bytes, charset: str | None, suffix: str) -> Parsed:
    """Return the text of a file with a suffix of ``MARKUPS`` under its headings. Title: the one that it names."""
    decoded = read_text(body, declared=charset)
    text = clean_code(decoded.text)
    pattern, rules = MARKUPS[suffix]
    title = re.search(pattern, text, re.IGNORECASE | re.MULTILINE) if pattern else None
    if suffix == ".tex":
        before, begin, content = text.partition(r"\begin{document}")
        text = content.partition(r"\end{document}")[0] if begin else before
    for rule, written in rules:
        text = re.sub(rule, written, text, flags=re.MULTILINE)
    warnings: list[str] = []
    blocks = markdown_blocks(text, warnings)
    return assemble(blocks, title=title[1].strip() if title else None, encoding=decoded.encoding, warnings=warnings)


def _heading(match: re.Match[str]) -> str:
    """Return a heading of Markdown: as deep as its mark is long, by its command of LaTeX, or by its underline."""
    mark = match["mark"]
    level = _LEVELS.get(mark.replace("sub", ""), len(mark)) + mark.count("sub")
    return f"\n{'#' * min(level, 6)} {match['name'].strip()}\n"


def _bars(match: re.Match[str]) -> str:
    """Return the rows of a table, each with its cells between bars, the first one as header."""
    rows = [row for row in match["rows"].split(r"\\") if row.strip()]
    cells = [[" ".join(cell.split()) for cell in re.split(r"(?<!\\)&", row)] for row in rows]
    lines = [f"| {' | '.join(row)} |" for row in cells]
    return "\n\n" + "\n".join([*lines[:1], "|---" * len(cells[0]) + "|" if cells else "", *lines[1:]]) + "\n\n"


_MARKS = ("part chapter =", "section -", "~ +", "^ ` \" '", "paragraph")
_LEVELS = {mark: level for level, marks in enumerate(_MARKS, start=1) for mark in marks.split()}
_ORG: _Rules = (
    (r"^[ \t]*:(?:PROPERTIES|LOGBOOK):\n(?:[^\n]*\n){0,40}?[ \t]*:END:\n?", ""),
    (r"^[ \t]*#\+(?i:begin|end)_(?i:src|example)[ \t]*(\w*)[^\n]*", r"```\1"),
    (r"^(?:[ \t]*#\+\w[^\n]*|#[ \t][^\n]*)\n?|\[@\w+\] ?", ""),
    (r"^(?P<mark>\*{1,9}) (?P<name>[^\n]+?)(?:[ \t]+:[\w@:]+:)?[ \t]*$", _heading),
    (r"^([ \t]*\|[-+]+\|)[ \t]*$", lambda rule: rule[1].replace("+", "|")),
    (r"\[\[[^\]\n]{1,500}\]\[([^\]\n]{1,500})\]\]", r"\1"),
)
_LEFT_OUT = r"(?:_[^\n:]+:|(?:image|contents|toctree|index|raw|include|code(?:-block)?|sourcecode|highlight)::)"
_RST: _Rules = (
    (r"^(?:([=\-~^\"'+`])\1{2,}\n)?(?P<name> ?\w[^\n]*)\n(?P<mark>[=\-~^\"'+`])(?P=mark){2,}[ \t]*$", _heading),
    (rf"^\.\. {_LEFT_OUT}[^\n]*\n(?:[ \t]+:[^\n]*\n)*|^[ \t]*(?:::|\.\.)[ \t]*$", ""),
    (r"^\.\. (\w+)::[ \t]*", lambda directive: f"{directive[1].capitalize()}: "),
    (
        r"(?::[\w:+.-]{1,40}:)?`~?([^`<\n]{1,300}?)\s*<[^>`\n]{0,500}>`_{0,2}|:[\w:+.-]{1,40}:`([^`<\n]{1,300})`",
        r"\1\2",
    ),
    (r"::$", ":"),
)
_OPTIONS, _NAME = r"(?:\[[^\]\n]*\])?", r"\{[^{}\n]*\}"
_CODE, _TABLE = r"\{(?:verbatim|lstlisting|minted)\}", r"\{(?:tabular[x*]?|longtable)\}"
_TEX: _Rules = (
    (r"(?<!\\)%[^\n]*", ""),
    (
        rf"\\(?:title|label|[vh]space\*?|bibliography(?:style)?|includegraphics|c(?:mid)?r?(?:ule|line)){_OPTIONS}{_NAME}",
        "",
    ),
    (r"\\(?:maketitle|tableofcontents|centering|noindent|hline|(?:top|mid|bottom)rule|(?:new|clear)page)\b", ""),
    (
        rf"\\(?P<mark>part|chapter|(?:sub)*section|(?:sub)?paragraph)\*?{_OPTIONS}\{{(?P<name>(?:[^{{}}\n]|{_NAME})+)\}}",
        _heading,
    ),
    (rf"\\begin{_CODE}[^\n]*|\\end{_CODE}", "\n```\n"),
    (rf"\\multi(?:row|column){_NAME}{_NAME}\{{([^{{}}\n]*)\}}", r"\1"),
    (rf"\\begin{_TABLE}(?:\{{[^\n]*?\}})*\n(?P<rows>(?:[^\n]*\n){{0,200}}?[^\n]*?)\\end{_TABLE}", _bars),
    (r"\\(?:begin|end)\{(?:equation|align|gather|multline|displaymath|eqnarray)\*?\}", "$$"),
    (r"\\item(?:\[([^\]\n]*)\])?[ \t]*", lambda item: f"\n- {item[1] + ' ' if item[1] else ''}"),
    (rf"\\(?:begin|end)\{{[a-z]+\*?\}}{_OPTIONS}", "\n"),
    (rf"\\(?:emph|text[a-z][a-z]|caption|auth[a-z]r|date|href{_NAME}|url)\{{([^{{}}]{{0,2000}})\}}", r"\1"),
    (r"\\footnote\{([^{}]{0,2000})\}", r" (\1)"),
    (r"\\(?:cite[a-z]*|(?:eq|auto|c)?ref)(?:\[[^\]\n]*\])*\{([^{}\n]*)\}", r"[\1]"),
    (r"\\([%&_#$])(?!\w*\$)", r"\1"),
    (r"(?<!\\)~|\\ ", " "),
    (r"``|''", '"'),
)
# By suffix: where the title is named, and the rules that write the marks of Markdown.
MARKUPS: dict[str, tuple[str, _Rules]] = {
    ".org": (r"^#\+title:[ \t]*(.+)$", _ORG),
    ".rst": ("", _RST),
    ".tex": (r"\\title(?:\[[^\]]*\])?\{([^{}\n]*)\}", _TEX),
}
