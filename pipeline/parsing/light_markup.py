"""AsciiDoc, Org, reStructuredText and LaTeX to text: their headings, lists, tables and code in the marks of Markdown."""

import csv
import re
from collections.abc import Callable, Sequence
from textwrap import dedent

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
    text = _counted(text)
    warnings: list[str] = []
    blocks = markdown_blocks(text, warnings)
    return assemble(blocks, title=title[1].strip() if title else None, encoding=decoded.encoding, warnings=warnings)


def _heading(match: re.Match[str]) -> str:
    """Return a heading of Markdown: as deep as its mark is long, by its command of LaTeX, or by its underline."""
    mark = match["mark"]
    level = _LEVELS.get(mark.replace("sub", ""), len(mark)) + mark.count("sub")
    return f"\n{'#' * min(level, 6)} {match['name'].strip()}\n"


def _bars(rows: Sequence[Sequence[str]]) -> str:
    """Return the rows of a table, each with its cells between bars, the first one as header."""
    cells = [[" ".join(cell.split()).replace("|", r"\|") for cell in row] for row in rows]
    lines = [f"| {' | '.join(row)} |" for row in cells]
    return "\n\n" + "\n".join([*lines[:1], "|---" * len(cells[0]) + "|" if cells else "", *lines[1:]]) + "\n\n"


def _tabular(match: re.Match[str]) -> str:
    return _bars([re.split(r"(?<!\\)&", row) for row in match["rows"].split(r"\\") if row.strip()])


def _adoc_table(match: re.Match[str]) -> str:
    """Return a table of AsciiDoc, with as many columns as the first line has cells or as its attribute says."""
    lines = [line for line in match["rows"].split("\n") if line.strip()]
    cells = re.split(r"(?:^|(?<=\s))(?:\d+[+*]|[a-z.<^>]{1,2})?\|", "\n".join(lines))[1:]
    named = re.search(r"cols=\"?(?:(\d+)\*|([^\"\]\n]+))", match["of"] or "")
    width = lines[0].count("|") if lines else 0
    if named:
        width = int(named[1] or named[2].count(",") + 1)
    return _bars([cells[at : at + width] for at in range(0, len(cells), width)]) if width else ""


def _grid(match: re.Match[str]) -> str:
    """Return a table that is drawn with lines, whose cells may have several lines."""
    rows, is_new = list[list[str]](), True
    for line in match[0].strip().split("\n"):
        line = line.strip()
        if not line.startswith("|"):
            is_new = True
            continue
        cells = line.strip("|").split("|")
        if is_new or len(cells) != len(rows[-1]):
            rows.append(cells)
        else:
            rows[-1] = [f"{above} {cell}" for above, cell in zip(rows[-1], cells, strict=True)]
        is_new = False
    return _bars(rows)


def _columns(match: re.Match[str]) -> str:
    """Return a table whose columns stand below rules of equal signs."""
    begins = [rule.start() for rule in re.finditer("=+", match["rule"])]
    rows: list[list[str]] = []
    for line in match["rows"].split("\n"):
        if not line.strip() or set(line) <= set("= -"):
            continue
        cells = re.split(r"\s{2,}", line.strip())
        if len(cells) != len(begins) or line.startswith(" "):
            cells = [line[begin:end] for begin, end in zip(begins, [*begins[1:], None], strict=True)]
        if rows and not cells[0].strip():
            rows[-1] = [f"{above} {cell}" for above, cell in zip(rows[-1], cells, strict=True)]
        else:
            rows.append(cells)
    return _bars(rows)


def _list_table(match: re.Match[str]) -> str:
    rows = re.split(r"^[ \t]*\*[ \t]+", match["rows"], flags=re.MULTILINE)[1:]
    cells = [re.split(r"(?:^|\n[ \t]*)-(?:[ \t]+|(?=\n|$))", row)[1:] for row in rows]
    return f"{match['caption']}{_bars(cells)}"


def _csv_table(match: re.Match[str]) -> str:
    header = re.findall(r":header:[ \t]*(.+)", match["options"])[:1]
    delimiter = re.search(r":delim:[ \t]*(tab|space|[^\s\w\"])", match["options"])
    sign = {"tab": "\t", "space": " "}.get(delimiter[1], delimiter[1]) if delimiter else ","
    lines = [*header, *dedent(match["rows"]).strip().split("\n")]
    csv.field_size_limit(len(match[0]) + len(lines))
    rows = csv.reader((f"{line}\n" for line in lines), delimiter=sign, skipinitialspace=True)
    return f"{match['caption']}{_bars([row for row in rows if row])}"


def _org_table(match: re.Match[str]) -> str:
    """Return a table of Org without its rules; the row above the first one within is its header."""
    lines = [line.strip() for line in match[0].strip().split("\n")]
    rows = [line.strip("|").split("|") for line in lines if not line.startswith("|-")]
    return _bars(rows) if rows and len(rows) < len(lines) else match[0]


def _with_words_replaced(match: re.Match[str]) -> str:
    """Return a text of reStructuredText with the words for which its names between bars stand."""
    words = dict(_REPLACED.findall(match[0]))
    return re.sub(_NAMED_WORDS, lambda name: words.get(name[1], name[0]), _REPLACED.sub("", match[0]))


def _fenced(match: re.Match[str]) -> str:
    return f"\n```{match['language'] or ''}\n{dedent(match['code']).strip(chr(10))}\n```\n"


def _enumerated(match: re.Match[str]) -> str:
    before, *items = (part.strip() for part in re.split(r"\\item(?![a-z])", match["items"]))
    return "\n".join([before, *(f"#. {item}" for item in items)]) + "\n\n"


def _counted(text: str) -> str:
    """Return a text with numbers in place of the marks ``#.`` of items that count themselves, for each depth."""
    if "#. " not in text:
        return text
    lines, numbers = text.split("\n"), dict[int, int]()
    for at, line in enumerate(lines):
        item = re.match(r"( *)#\. ", line)
        depth = len(item[1]) if item else len(line) - len(line.lstrip())
        if line.strip():
            numbers = {each: number for each, number in numbers.items() if each < depth + bool(item)}
        if item:
            numbers[depth] = numbers.get(depth, 0) + 1
            lines[at] = f"{item[1]}{numbers[depth]}. {line[item.end() :]}"
    return "\n".join(lines)


def _item(match: re.Match[str]) -> str:
    """Return the mark of an item of AsciiDoc, as deep as it is long."""
    return "   " * (len(match["mark"]) - 1) + ("#. " if match["mark"].startswith(".") else "- ")


_MARKS = ("part chapter =", "section -", "~ +", "^ ` \" '", "paragraph")
_LEVELS = {mark: level for level, marks in enumerate(_MARKS, start=1) for mark in marks.split()}
_ORG: _Rules = (
    (r"^[ \t]*:(?:PROPERTIES|LOGBOOK):\n(?:[^\n]*\n){0,40}?[ \t]*:END:\n?", ""),
    (r"^[ \t]*#\+(?i:begin|end)_(?i:src|example)[ \t]*(\w*)[^\n]*", r"```\1"),
    (r"^[ \t]*#\+(?i:caption)(?:\[[^\]\n]*\])?:[ \t]*([^\n]*)$", r"\1\n"),
    (r"^(?:[ \t]*#\+\w[^\n]*|#[ \t][^\n]*)\n?|\[@\w+\] ?", ""),
    (r"^(?P<mark>\*{1,9}) (?P<name>[^\n]+?)(?:[ \t]+:[\w@:]+:)?[ \t]*$", _heading),
    (r"^(?:[ \t]*\|[^\n]*(?:\n|\Z))+", _org_table),
    (r"\[\[[^\]\n]{1,500}\]\[([^\]\n]{1,500})\]\]", r"\1"),
)
_BLOCK = r"(?:[ \t]*\n|[ \t]{2,}\S[^\n]*\n?)"  # a line of an indented block
_LEFT_OUT = r"(?:_[^\n:]+:|(?:image|figure|contents|toctree|index|raw|include|highlight)::)"
_REPLACED = re.compile(r"^\.\. \|([^|\n]+)\| replace::[ \t]*([^\n]*)\n?", re.MULTILINE)
_NAMED_WORDS = re.compile(r"\|(?! )([^|\n]{1,100})(?<! )\|")
_TABLE_DIRECTIVE = r"-table::[ \t]*(?P<caption>[^\n]*)\n(?P<options>(?:[ \t]+:[^\n]*\n)*)"
_RST: _Rules = (
    (r"\A[\s\S]+\Z", _with_words_replaced),
    (
        r"^(?:([=\-~^\"'+`])\1{2,}\n)?(?P<name> ?\w[^\n]*)\n(?P<mark>[=\-~^\"'+`])(?P=mark){2,}[ \t]*$",
        _heading,
    ),  # first: code ends with a line like theirs
    (r"^([ \t]*)\+(?:[-=]+\+)+\n(?:\1[|+][^\n]*\n?)+", _grid),
    (r"^(?P<rule>=+(?:[ ]+=+)+)[ ]*\n(?P<rows>(?:[^\n]*\n){1,500}?)(?P=rule)[ ]*$(?!\n[^\s=])", _columns),
    (rf"^\.\. list{_TABLE_DIRECTIVE}(?P<rows>{_BLOCK}++)", _list_table),
    (rf"^\.\. csv{_TABLE_DIRECTIVE}(?P<rows>{_BLOCK}++)", _csv_table),
    (
        rf"^\.\. (?:code(?:-block)?|sourcecode)::[ \t]*(?P<language>\w*)[^\n]*\n(?:[ \t]+:[^\n]*\n)*(?P<code>{_BLOCK}++)",
        _fenced,
    ),
    (r"^\.\. (?:image|figure)::[^\n]*\n(?:[ \t]+:(?!alt:)[^\n]*\n)*[ \t]+:alt:[ \t]*([^\n]*)$", r"\1"),
    (rf"^\.\. {_LEFT_OUT}[^\n]*\n(?:[ \t]+:[^\n]*\n)*|^[ \t]*(?:::|\.\.)[ \t]*$", ""),
    (r"^\.\. (?![\[|_]|[\w+:.-]+::)[^\n]*\n?(?:[ \t]+\S[^\n]*\n?)*+", ""),
    (r"^\.\. (?=\[)|(?<=\])_(?!\w)", ""),
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
    (rf"\\begin{_TABLE}(?:{_NAME})*\s*(?P<rows>(?:[^\n]*\n){{0,200}}?[^\n]*?)\\end{_TABLE}", _tabular),
    (r"\\begin\{enumerate\}(?P<items>(?:(?!\\begin\{|\\end\{)[\s\S]){1,20000})\\end\{enumerate\}", _enumerated),
    (r"\\(?:begin|end)\{(?:equation|align|gather|multline|displaymath|eqnarray)\*?\}", "$$"),
    (r"\\item(?:\[([^\]\n]*)\])?[ \t]*", lambda item: f"\n- {item[1] + ' ' if item[1] else ''}"),
    (rf"\\(?:begin|end)\{{[a-z]+\*?\}}{_OPTIONS}", "\n"),
    (rf"\\(?:emph|text[a-z][a-z]|caption|auth[a-z]r|date|href{_NAME}|url)\{{([^{{}}]{{0,2000}})\}}", r"\1"),
    (r"\\footnote\{([^{}]{0,2000})\}", r" (\1)"),
    (r"\\(?:cite[a-z]*|(?:eq|auto|c)?ref)(?:\[[^\]\n]*\])*\{([^{}\n]*)\}", r"[\1]"),
    (r"\\([%&_#$])(?!\w*\$)", r"\1"),
    (r"(?<!\\)~|\\ ", " "),
    (r"(?<!`)``(?!`)|''", '"'),
)
_ADOC: _Rules = (
    (r"^////+\n(?:(?!////)[^\n]*\n){0,500}////+$|^//(?!/)[^\n]*\n?", ""),
    (r"^:!?[\w-]+!?:[^\n]*\n?|^= [^\n]*\n(?:[^\n=:]+<[^\n]*>\n)?", ""),
    (r"^(?:\[(?P<of>[^\]\n]*)\]\n)?\|===\n(?P<rows>(?:(?!\|===)[^\n]*\n){0,2000})\|===$", _adoc_table),
    (
        r"^(?:\[source,?[ \t]*(\w*)[^\]\n]*\]\n)?(-{4,}|\.{4,})\n((?:(?!\2$)[^\n]*\n){0,2000})\2$",
        r"```\1\n\3```",
    ),
    (r"^\[[^\]\n]*\]{1,2}\n|^\+$|^(?:={4,}|\*{4,}|_{4,})$|^\.(?=[^\s.])", ""),
    (r"^(?P<mark>={2,6}) (?P<name>[^\n]+)$", _heading),
    (r"^(?P<mark>\.{1,5}|\*{1,5})[ \t]+", _item),
    (r"(?:link:|xref:|(?=https?://|mailto:))[^\s\[\]]{1,500}\[([^\]\n]{1,500})\]", r"\1"),
    (r"<<[^,>\n]{1,500},[ ]*([^>\n]{1,500})>>|image::?[^\s\[]{1,500}\[([^\],\n]{0,500})[^\]\n]{0,500}\]", r"\1\2"),
)
# By suffix: where the title is named, and the rules that write the marks of Markdown.
MARKUPS: dict[str, tuple[str, _Rules]] = {
    **dict.fromkeys((".adoc", ".asciidoc"), (r"^= (.+)$", _ADOC)),
    ".org": (r"^#\+title:[ \t]*(.+)$", _ORG),
    ".rst": ("", _RST),
    ".tex": (r"\\title(?:\[[^\]]*\])?\{([^{}\n]*)\}", _TEX),
}
