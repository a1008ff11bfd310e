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
    """Return parameters for a page in each language at each width in pixels: every suite shows Chinese on a telephone, the
    thorough one all."""
    rest = [
        pytest.param(words, width, id=f"{name}-{width}", marks=pytest.mark.thorough)
        for name, words, width in (("en", english, 360), ("en", english, 1360), ("zh", chinese, 1360))
    ]
    return [pytest.param(chinese, 360, id="zh-360"), *rest]
