"""Org, reStructuredText, AsciiDoc and LaTeX to text: their headings, lists, tables and code in the marks of Markdown."""

import re
from collections.abc import Callable, Iterator

from pipeline.documents.clean_text import clean_code
from pipeline.parsing.assembly import assemble
from pipeline.parsing.encodings import read_text
from pipeline.parsing.markdown_text import markdown_blocks
from pipeline.records import Parsed

_Rules = tuple[tuple[str, str | Callable[[re.Match[str]], str]], ...]


def parse_markup(body: bytes, charset: str | None, suffix: str) -> Parsed:
    """Return the text of a file with one of the suffixes in ``MARKUPS`` under its headings. Title: the one that it names,
    else the first heading of level 1."""
    decoded = read_text(body, declared=charset)
    text = clean_code(decoded.text)
    pattern, rules = MARKUPS[suffix]
    title = re.search(pattern, text, re.IGNORECASE | re.MULTILINE) if pattern else None
    if suffix == ".tex":
        before, begin, content = text.partition(r"\begin{document}")
        text = content.partition(r"\end{document}")[0] if begin else before
    elif suffix == ".rst":
        text = "\n".join(_rst_headings(text.split("\n")))
    for rule, written in rules:
        text = re.sub(rule, written, text, flags=re.MULTILINE)
    warnings: list[str] = []
    name = title[1].strip() if title else None
    return assemble(markdown_blocks(text, warnings), title=name, encoding=decoded.encoding, warnings=warnings)


def _heading(match: re.Match[str]) -> str:
    """Return a heading of Markdown: as deep as its mark is long, or by its command of LaTeX."""
    level = _LEVELS.get(match["mark"].rstrip("*")) or len(match["mark"])
    return f"\n{'#' * min(level, 6)} {match['name'].strip()}\n"


def _bars(match: re.Match[str]) -> str:
    """Return the rows of a table, each with its cells between bars, the first one as header."""
    rows = [row for row in re.split(r"\\\\|\n\s*\n", match["rows"]) if row.strip()]
    cells = [
        [" ".join(cell.split()) for cell in re.split(r"(?<!\\)&|\|", row.strip().removeprefix("|"))] for row in rows
    ]
    lines = [f"| {' | '.join(row)} |" for row in cells]
    return "\n\n" + "\n".join([*lines[:1], "|---" * len(cells[0]) + "|" if cells else "", *lines[1:]]) + "\n\n"


def _rst_headings(lines: list[str]) -> Iterator[str]:
    """Yield lines with those that are underlined, perhaps overlined, as headings, whose levels are in order of their marks."""
    marks: list[str] = []
    at = 0
    while at < len(lines):
        over = at + 2 < len(lines) and lines[at] == lines[at + 2] and bool(_UNDERLINE.fullmatch(lines[at]))
        name = lines[at + over]
        under = lines[at + over + 1] if at + over + 1 < len(lines) else ""
        is_heading = _UNDERLINE.fullmatch(under) and name.strip() and len(under) >= len(name.strip())
        if is_heading and not _UNDERLINE.fullmatch(name):
            mark = under[0] + str(over)
            marks += [mark] if mark not in marks else []
            yield f"{'#' * min(marks.index(mark) + 1, 6)} {name.strip()}"
            at += 2 + over
        else:
            yield lines[at]
            at += 1


_MOST_LINES = 200  # of a table
_UNDERLINE = re.compile(r"([=\-~^\"'*+#.:_`])\1{2,}")
_LEVELS = {
    "part": 1,
    "chapter": 1,
    "section": 2,
    "subsection": 3,
    "subsubsection": 4,
    "paragraph": 5,
    "subparagraph": 6,
}
_ORG: _Rules = (
    (r"^[ \t]*:(?:PROPERTIES|LOGBOOK):\n(?:[^\n]*\n){0,40}?[ \t]*:END:\n?", ""),
    (r"^[ \t]*#\+(?:begin_(?:src|example)|BEGIN_(?:SRC|EXAMPLE))[ \t]*(\w*)[^\n]*", r"```\1"),
    (r"^[ \t]*#\+(?:end_(?:src|example)|END_(?:SRC|EXAMPLE))", "```"),
    (r"^(?:[ \t]*#\+\w[^\n]*|#[ \t][^\n]*)\n?|\[@\w+\] ?", ""),
    (r"^(?P<mark>\*{1,9}) (?P<name>[^\n]+?)(?:[ \t]+:[\w@:]+:)?[ \t]*$", _heading),
    (r"^([ \t]*\|[-+]+\|)[ \t]*$", lambda rule: rule[1].replace("+", "|")),
    (r"\[\[[^\]\n]{1,500}\]\[([^\]\n]{1,500})\]\]", r"\1"),
)
_RST: _Rules = (
    (r"^\.\. (?:_[^\n:]+:|(?:image|contents|toctree|index|raw|include)::)[^\n]*\n(?:[ \t]+:[^\n]*\n)*", ""),
    (r"^\.\. (?:code-block|code|sourcecode|highlight)::[^\n]*\n(?:[ \t]+:[^\n]*\n)*", ""),
    (r"^\.\. (\w+)::[ \t]*", lambda directive: f"{directive[1].capitalize()}: "),
    (r":[\w:+.-]{1,40}:`~?([^`<\n]{1,200}?)(?:\s*<[^>`\n]{0,500}>)?`", r"\1"),
    (r"`([^`<\n]{1,300}?)\s*<[^>`\n]{1,500}>`__?", r"\1"),
    (r"^[ \t]*(?:::|\.\.)[ \t]*$", ""),
    (r"::$", ":"),
)
_ADOC: _Rules = (
    (r"^////+\n(?:[^\n]*\n){0,200}?////+$|^//(?!/)[^\n]*$|^:[\w!-]+:[^\n]*$|^\[[^\[\]\n]*\]$|^\.(?=\w)", ""),
    (r"^(?:====+|\*\*\*\*+|____+|\+\+\+\++|--)$", ""),
    (r"^(?:----+|\.\.\.\.+)$", "```"),
    (r"footnote:\w*\[([^\]\n]+)\]", r" (\1)"),
    (r"^(?P<mark>={1,6}) (?P<name>[^\n]+)$", _heading),
    (r"^(?:\*\*+|\.\.+) ", "  - "),
    (r"^\. ", "1. "),
    (rf"^\|===\n(?P<rows>(?:[^\n]*\n){{0,{_MOST_LINES}}}?)\|===$", _bars),
    (r"(?:link:|xref:|mailto:|image::?|https?://)\S{0,300}?\[([^\]\n]{1,300})\]", r"\1"),
)
_OPTIONS, _NAME = r"(?:\[[^\]\n]*\])?", r"\{[^{}\n]*\}"
_CODE, _TABLE = r"\{(?:verbatim|lstlisting|minted)\}", r"\{(?:tabular[x*]?|longtable)\}"
_TEX: _Rules = (
    (r"(?<!\\)%[^\n]*", ""),
    (rf"\\(?:title|label|[vh]space\*?|bibliography(?:style)?|includegraphics){_OPTIONS}{_NAME}", ""),
    (r"\\(?:maketitle|tableofcontents|centering|noindent|hline|toprule|midrule|bottomrule|(?:new|clear)page)\b", ""),
    (
        rf"\\(?P<mark>(?:part|chapter|(?:sub){{0,2}}section|(?:sub)?paragraph)\*?){_OPTIONS}"
        r"\{(?P<name>(?:[^{}\n]|\{[^{}\n]*\})+)\}",
        _heading,
    ),
    (rf"\\begin{_CODE}[^\n]*|\\end{_CODE}", "\n```\n"),
    (r"\\multi(?:row|column)\{[^{}\n]*\}\{[^{}\n]*\}\{([^{}\n]*)\}", r"\1"),
    (r"\\(?:cmidrule|cline|rule|specialrule)(?:\([^)\n]*\))?(?:\{[^{}\n]*\})+", ""),
    (rf"\\begin{_TABLE}(?:\{{[^\n]*?\}})*\n(?P<rows>(?:[^\n]*\n){{0,{_MOST_LINES}}}?[^\n]*?)\\end{_TABLE}", _bars),
    (r"\\(?:begin|end)\{(?:equation|align|gather|multline|displaymath|eqnarray)\*?\}", "$$"),
    (r"\\item(?:\[([^\]\n]*)\])?[ \t]*", lambda item: f"\n- {item[1] + ' ' if item[1] else ''}"),
    (rf"\\(?:begin|end)\{{[a-z]+\*?\}}{_OPTIONS}", "\n"),
    (
        rf"\\(?:emph|text[a-z]{{2}}|underline|mbox|caption|author|date|thanks|href{_NAME}|url)\{{([^{{}}]{{0,2000}})\}}",
        r"\1",
    ),
    (r"\\footnote\{([^{}]{0,2000})\}", r" (\1)"),
    (r"\\(?:cite[a-z]*|(?:eq|auto|c)?ref)(?:\[[^\]\n]*\])*\{([^{}\n]*)\}", r"[\1]"),
    (r"\\([%&_#$])(?!\w*\$)", r"\1"),
    (r"(?<!\\)~|\\ ", " "),
    (r"``|''", '"'),
    (r"(?<=\w)---?(?=\w)", "–"),
)
# By suffix: where the title is named, and the rules that write the marks of Markdown.
MARKUPS: dict[str, tuple[str, _Rules]] = {
    ".org": (r"^#\+title:[ \t]*(.+)$", _ORG),
    ".rst": ("", _RST),
    ".adoc": ("", _ADOC),
    ".asciidoc": ("", _ADOC),
    ".tex": (r"\\title(?:\[[^\]]*\])?\{([^{}\n]*)\}", _TEX),
}
