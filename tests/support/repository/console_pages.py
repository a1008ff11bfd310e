"""The pages of the console, as `js/pages.js` lists them."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any, Final

import pytest

_LIST = Path(__file__).parents[3] / "api_gateway" / "console" / "js" / "pages.js"

PAGES: Final = tuple(re.findall(r'\bpage\("([a-z-]+)"', _LIST.read_text(encoding="utf-8")))
assert PAGES


def languages_and_widths(english: object, chinese: object) -> list[Any]:
    """Return parameters for a page in each language at each width in pixels: every suite shows each language once, the
    thorough one at the other width as well."""
    rest = [
        pytest.param(english, 1360, id="en-1360", marks=pytest.mark.thorough),
        pytest.param(chinese, 360, id="zh-360", marks=pytest.mark.thorough),
    ]
    return [pytest.param(english, 360, id="en-360"), pytest.param(chinese, 1360, id="zh-1360"), *rest]
