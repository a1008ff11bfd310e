"""The Prefer header (RFC 7240): how long a client wants to wait before it takes a 202."""

import re
from collections.abc import Iterable
from dataclasses import dataclass
from itertools import islice

LONGEST_WAIT_S = 60

_MOST_ITEMS = 64  # items of one header that are parsed
# An item between two commas; a comma within quotes does not separate, and unclosed quotes extend to the end.
_ITEM = re.compile(r"""(?:[^",]++|"(?:[^"\\]++|\\.?)*+"?+)++""", re.DOTALL)
# A preference, its value if it has one, and its parameters, which no known preference uses.
_PREFERENCE = re.compile(
    r"""\s*+([!#$%&'*+.^_`|~0-9A-Za-z-]++)\s*+(?:=\s*+("(?:[^"\\]|\\.)*+"|[^\s,;"]*+))?\s*+(?:;.*+)?""", re.DOTALL
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Preference:
    """The known preferences of a request. ``wait_s`` is capped at the gateway's limit."""

    wait_s: int | None = None
    respond_async: bool = False

    def applied(self, *, waited: bool, ready: bool) -> str | None:
        """Return the value of Preference-Applied, None if no preference affected the answer."""
        parts = ["respond-async"] if self.respond_async and not ready else []
        if waited and self.wait_s is not None:
            parts.append(f"wait={self.wait_s}")
        return ", ".join(parts) or None


def parse_prefer(values: Iterable[str]) -> Preference:
    """Read all Prefer headers of a request. Unknown and malformed preferences are ignored; the first of two wins."""
    preferences: dict[str, str] = {}
    for value in values:
        for item in islice(_ITEM.finditer(value), _MOST_ITEMS):
            if preference := _PREFERENCE.fullmatch(item[0]):
                preferences.setdefault(preference[1].lower(), (preference[2] or "").strip('"'))
    wait = preferences.get("wait", "")
    return Preference(
        wait_s=min(int(wait[:9]), LONGEST_WAIT_S) if wait.isascii() and wait.isdigit() else None,
        respond_async="respond-async" in preferences,
    )
