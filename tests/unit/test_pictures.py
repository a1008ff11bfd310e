"""The pictures of README and docs: each one that a page shows is there, and `make pictures` takes every page of the console."""

from __future__ import annotations

import re

from compose.pictures.__main__ import gallery, subjects
from tests.support.repository.guides import pages
from tests.support.repository.project import ROOT

IMAGES = ROOT / "docs/images"


def shown() -> set[str]:
    """Every picture that a page shows, as a path below docs/images."""
    text = "".join((ROOT / page).read_text(encoding="utf-8") for page in pages())
    return set(re.findall(r"!\[[^\]]*]\((?:docs/|\.\./)*images/([^)]+)\)", text))


def it_shows_pictures_that_exist_and_all_of_them():
    assert shown() == {path.relative_to(IMAGES).as_posix() for path in IMAGES.rglob("*") if path.is_file()}


def it_takes_every_page_of_the_console():
    names = set(re.findall(r'page\("([\w-]+)"', (ROOT / "api_gateway/console/js/pages.js").read_text(encoding="utf-8")))
    wanted = subjects({"trace": "traces/1"})
    assert {f"console/{name}" for name in names} <= wanted.keys()
    assert wanted["console/trace"] == "console/#/traces/1"
    assert "![Playground](images/console/playground.png)" in gallery(list(wanted))
