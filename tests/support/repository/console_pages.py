"""The pages of the console, as `js/pages.js` lists them."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Final

_LIST = Path(__file__).parents[3] / "api_gateway" / "console" / "js" / "pages.js"

PAGES: Final = tuple(re.findall(r'\bpage\("([a-z-]+)"', _LIST.read_text(encoding="utf-8")))
assert PAGES
