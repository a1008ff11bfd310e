"""Find the apt sources of the distribution itself; pure text functions."""

from __future__ import annotations

import re
from dataclasses import dataclass

# Where Debian and Ubuntu keep the servers and their libraries; a source with none of these belongs to a third party.
_COMPONENTS = ("main", "universe")
_ONE_LINE = re.compile(r"^deb\s+(?:\[(?P<options>[^\]]*)\]\s+)?(?P<uri>\S+)\s+(?P<suite>\S+)\s+(?P<components>.+)$")


@dataclass(frozen=True, slots=True)
class Sources:
    """apt sources in both of its notations, ready to be written to a `.list` and a `.sources` file."""

    one_line: str
    stanzas: str

    def __bool__(self) -> bool:
        return bool(self.one_line or self.stanzas)


def distribution_only(one_line_files: list[str], stanza_files: list[str], *, codename: str) -> Sources:
    """Return the entries for release ``codename``, its updates and its security fixes, without unneeded components.

    Third parties are left out: they may be slow, broken or enormous.
    """
    suites = {codename, *(f"{codename}{ending}" for ending in ("-updates", "-security", "/updates"))}
    lines = (_kept_line(line, suites) for text in one_line_files for line in text.splitlines())
    stanzas = (_kept_stanza(part, suites) for text in stanza_files for part in re.split(r"\n[ \t]*\n", text))
    return Sources("".join(f"{line}\n" for line in lines if line), "\n".join(stanza for stanza in stanzas if stanza))


def _kept_line(line: str, suites: set[str]) -> str:
    match = _ONE_LINE.match(line.partition("#")[0].strip())
    if match is None or match["suite"] not in suites:
        return ""
    components = [name for name in match["components"].split() if name in _COMPONENTS]
    options = f"[{match['options']}] " if match["options"] else ""
    return f"deb {options}{match['uri']} {match['suite']} {' '.join(components)}" if components else ""


def _kept_stanza(stanza: str, suites: set[str]) -> str:
    fields: dict[str, str] = {}
    name = ""
    for line in stanza.splitlines():
        if line.startswith("#") or not line.strip():
            continue
        if line[0] in " \t":  # a continuation, as of an embedded key
            fields[name] += f"\n{line}"
        else:
            name, _, value = line.partition(":")
            name = name.strip().lower()
            fields[name] = value.strip()
    kept_suites = [suite for suite in fields.get("suites", "").split() if suite in suites]
    components = [part for part in fields.get("components", "").split() if part in _COMPONENTS]
    if "deb" not in fields.get("types", "").split() or not kept_suites or not components:
        return ""
    if fields.get("enabled", "yes").lower() == "no":
        return ""
    fields |= {"types": "deb", "suites": " ".join(kept_suites), "components": " ".join(components)}
    return "".join(f"{name}: {value}\n" for name, value in fields.items())
