"""Raised and lowered text and formulas in one line that cannot be read as another number: `10^6`, `(3)/(20)`, `x_1`."""

import re

from pipeline.parsing.assembly import one_line
from pipeline.parsing.html_tree import Element

_ORDINAL = re.compile(r"(?:st|nd|rd|th|er|e|ème|º|ª|o|a|\.)$", re.IGNORECASE)
_MARK = re.compile(r"[™®©*†‡§]+$|\[.*\]$")
RAISED_TEXT = re.compile(r"[\w+−-]{1,5}")  # that only its place or size tells
_TEX = re.compile(r"tex|latex", re.IGNORECASE)
_SCRIPTS = {"msup": "^", "mover": "^", "msub": "_", "munder": "_"}
_STROKE = re.compile(r"(?P<before>\^)?(?P<above>\d{1,3})\s?[/⁄∕]\s?_(?P<below>\d{1,3})\b")
_LOGARITHM = ("log", "Log")
_LETTER_END = re.compile(r"[^\W\d_]$")


def raised(before: str, text: str) -> str:
    """Return raised text for its place after ``before``: ``^6``, ``^(n+1)``; ordinals and marks as they are."""
    if not text or _ORDINAL.match(text) or _MARK.match(text) or not before.strip():
        return text
    return f"^{_grouped(text)}"


def lowered(before: str, text: str) -> str:
    """Return lowered text for its place after ``before``: as it is after a letter, as in CO2, else ``_2``."""
    if before.endswith(_LOGARITHM):
        return f"_{_grouped(text)} "
    if not text or (_LETTER_END.search(before) and len(text) <= 3 and text.isalnum()):
        return text
    return f"_{_grouped(text)}"


def with_fractions(text: str) -> str:
    """Return a text in which a raised and a lowered number around a stroke are a fraction, as in ``3 1/2``."""

    def written(match: re.Match[str]) -> str:
        return f"{' ' if match['before'] else ''}{match['above']}/{match['below']}"

    return _STROKE.sub(written, text) if "_" in text else text


def fraction(above: str, below: str) -> str:
    """Return a fraction in a line."""
    return f"({above})/({below})"


def root(text: str, degree: str = "") -> str:
    """Return a root in a line."""
    return f"root({degree}, {text})" if degree else f"sqrt({text})"


_EQUATION = re.compile(r"\s*+EQ\s++(\\[fr]|.)", re.IGNORECASE)
_SWITCH = re.compile(r"\\[a-z]{1,2}(?:\d+)?|\\(?=[(),])", re.IGNORECASE)
_OF_TWO = re.compile(r"\\([fr])\s{0,9}\(([^(),;]*)[,;]([^(),;]*)\)", re.IGNORECASE)


def of_equation(field: str) -> str:
    """Return the formula of a field EQ of old Word documents, with fractions and roots; empty for any other field."""
    if not _EQUATION.match(field):
        return ""
    text = _OF_TWO.sub(
        lambda of: fraction(of[2], of[3]) if of[1] in "fF" else root(of[3], of[2]), field.split(None, 1)[1]
    )
    return one_line(_SWITCH.sub(" ", text))


def linear_mathml(math: Element) -> str:
    """Return a formula of MathML in one line; by its TeX source if the page has it."""
    source = next(
        (one_line(note.text) for note in math.descendants() if note.tag == "annotation" and _TEX.search(note.source)),
        "",
    )
    return f"${source}$" if source else one_line(_linear(math))


def _linear(node: Element) -> str:
    parts = [child for child in node.elements() if child.tag not in ("annotation", "annotation-xml")]
    if node.tag == "mfrac" and len(parts) == 2:
        return fraction(_linear(parts[0]), _linear(parts[1]))
    if node.tag in _SCRIPTS and len(parts) == 2:
        return _linear(parts[0]) + _SCRIPTS[node.tag] + _grouped(_linear(parts[1]))
    if node.tag in ("msubsup", "munderover") and len(parts) == 3:
        base, low, high = map(_linear, parts)
        return f"{base}_{_grouped(low)}^{_grouped(high)}{' ' * (node.tag == 'munderover')}"
    if node.tag == "mmultiscripts":
        return " ".join(map(_linear, parts))
    if node.tag == "msqrt":
        return root("".join(map(_linear, parts)))
    if node.tag == "mroot" and len(parts) == 2:
        return root(_linear(parts[0]), _linear(parts[1]))
    if node.tag == "mfenced":
        return f"({', '.join(map(_linear, parts))})"
    if node.tag in ("mtr", "mtable"):
        return ("; " if node.tag == "mtable" else ", ").join(map(_linear, parts))
    if node.tag == "mo":
        return f" {node.text.strip()} " if node.text.strip() in "=<>≤≥≠≈→+-−±×·" else node.text.strip()
    if parts:
        return "".join(map(_linear, parts))
    return node.text.strip()


_NARY = {"∑": "sum", "∏": "prod", "∫": "int"}


def linear_omml(formula: Element) -> str:
    """Return a formula of an Office document in one line."""
    return one_line(_office(formula))


def _office(node: Element) -> str:
    tag = node.tag
    if tag.endswith("Pr") or tag in ("ctrlPr", "rPr"):
        return ""
    parts = {child.tag: _office(child) for child in node.elements() if tag in _STRUCTURES}
    if tag == "f":
        return fraction(parts.get("num", ""), parts.get("den", ""))
    if tag == "sPre":  # of an isotope
        return f"_{_grouped(parts.get('sub', ''))}^{_grouped(parts.get('sup', ''))} {parts.get('e', '')}"
    if tag in ("limLow", "limUpp"):
        return f"{parts.get('e', '')}{'_' if tag == 'limLow' else '^'}{_grouped(parts.get('lim', ''))}"
    if tag in ("sSup", "sSub", "sSubSup"):
        low = f"_{_grouped(parts['sub'])}" if "sub" in parts else ""
        high = f"^{_grouped(parts['sup'])}" if "sup" in parts else ""
        return parts.get("e", "") + low + high
    if tag == "rad":
        return root(parts.get("e", ""), parts.get("deg", ""))
    if tag == "nary":
        sign = next((each.source for each in node.descendants() if each.tag == "chr"), "∫")
        low = f"_{_grouped(parts['sub'])}" if parts.get("sub") else ""
        high = f"^{_grouped(parts['sup'])}" if parts.get("sup") else ""
        return f"{_NARY.get(sign, sign)}{low}{high} {parts.get('e', '')}"
    if tag == "d":
        signs = {each.tag: each.source for each in node.descendants() if each.tag in ("begChr", "endChr")}
        inner = ", ".join(_office(child) for child in node.elements() if child.tag == "e")
        return f"{signs.get('begChr', '(')}{inner}{signs.get('endChr', ')')}"
    if tag in ("m", "eqArr"):
        return "; ".join(_office(child) for child in node.elements() if child.tag in ("mr", "e"))
    if tag == "mr":
        return ", ".join(map(_office, node.elements()))
    if tag == "func":
        return f"{parts.get('fName', '')} {parts.get('e', '')}"
    if tag == "t":
        return node.text
    return "".join(map(_office, node.elements()))


_STRUCTURES = frozenset({"f", "sSup", "sSub", "sSubSup", "sPre", "limLow", "limUpp", "rad", "nary", "func"})


def _grouped(text: str) -> str:
    return text if re.fullmatch(r"[\w.]+|[+-]?\d+", text) else f"({text})"
