"""Trees of documents that are no pages of HTML, for the code that writes those: lists by depth, merged cells, code."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

from pipeline.parsing.assembly import LONGEST_CODE, code_runs
from pipeline.parsing.html_tree import LINE_END, TAB, Element

_DEEPEST = 8  # of lists within lists


@dataclass(slots=True)
class Cell:
    """A cell of a table, which may go on from its left neighbour or from the row above."""

    element: Element = field(default_factory=lambda: Element("td"))
    across: int = 1
    from_left: bool = False
    from_above: bool = False


def table_of(rows: Iterable[Sequence[Cell]]) -> Element:
    """Return a table of cells, those that go on merged."""
    table = Element("table")
    above: dict[int, list[int]] = {}  # by first column: columns and rows of the cell
    spans: list[tuple[Element, list[int]]] = []
    for cells in rows:
        line, column, open_span = Element("tr"), 0, [0, 0]
        table.children.append(line)
        for cell in cells:
            if cell.from_left and open_span[0]:
                open_span[0] += cell.across
            elif cell.from_above and column in above:
                above[column][1] += 1
                open_span = [0, 0]
            else:
                open_span = above[column] = [cell.across, 1]
                spans.append((cell.element, open_span))
                line.children.append(cell.element)
            column += cell.across
    for element, (across, down) in spans:
        element.source = f' colspan="{across}" rowspan="{down}"' if across + down > 2 else ""
    return table


def list_at(place: Element, depth: int) -> Element:
    """Return the list of a depth that is open at the end of a place, or begin it. Depths count from the list's first item."""
    depth = min(depth, _DEEPEST)
    while place.children and isinstance(last := place.children[-1], Element) and last.tag == "ul":
        if depth <= int(last.marker or 0):
            last.marker = str(depth)
            return last
        item = last.children[-1]
        assert isinstance(item, Element)  # lists hold nothing but items
        place = item
    begun = Element("ul", marker=str(depth))
    place.children.append(begun)
    return begun


def append_code(place: Element, content: Iterable[Element | str]) -> None:
    """Add a line of code to the code at the end of a place, or begin it."""
    last = place.children[-1] if place.children else None
    if isinstance(last, Element) and last.tag == "pre":
        last.children += ["\n", *content]
    else:
        place.children.append(Element("pre", children=[*content]))


def is_short(text: str) -> bool:
    """Return whether the lines of a text are short enough for code."""
    return max(map(len, text.split(LINE_END))) <= LONGEST_CODE


def with_code(root: Element) -> Element:
    """Turn the paragraphs of a tree that look like a program or settings into code, whatever their font."""
    texts = [_plain(child) for child in root.children]
    children, end = list[Element | str](), 0
    for run in code_runs(texts):
        code = Element("pre", children=["\n".join(texts[run.start : run.stop])])
        children += [*root.children[end : run.start], code]
        end = run.stop
    root.children = children + root.children[end:]
    return root


def _plain(child: Element | str) -> str:
    """Return a paragraph of nothing but text, which no bar divides; nothing for any other element."""
    texts = (
        [] if isinstance(child, str) or child.tag != "p" else [each for each in child.children if isinstance(each, str)]
    )
    text = "".join(texts) if isinstance(child, Element) and len(texts) == len(child.children) else ""
    return "" if "|" in text else text.replace(LINE_END, "\n").replace(TAB, "\t")
