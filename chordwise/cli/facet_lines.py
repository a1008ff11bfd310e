"""Facets and the values of groups in words."""

from chordwise.api.queries import Facet
from chordwise.cli import screen


def facet_line(facet: Facet) -> str:
    """Return the counts of a facet in one line."""
    counts = [f"{screen.clean(spelled(value.value))} {value.passages}" for value in facet.values]
    counts += [f"others {facet.other}"] if facet.other else []
    over = "that match" if facet.counted_over == "matches" else "that were recalled"
    return f"{', '.join(counts) or 'no value'} (of {facet.passages} passages {over})"


def spelled(value: str | float) -> str:
    """Return a value of a field as text."""
    return str(value).lower() if isinstance(value, bool) else str(value)
