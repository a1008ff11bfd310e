"""Prompts are files: an instruction and a template, edited without changing code."""

from __future__ import annotations

import functools
import hashlib
import json
import re
from dataclasses import dataclass
from importlib import resources
from typing import Any, Final

from pipeline.errors import Misconfigured

_DIVIDER: Final = "<!-- user -->"
_PLACEHOLDER: Final = re.compile(r"\{\{(\w+)\}\}")


@dataclass(frozen=True, slots=True, kw_only=True)
class Prompt:
    """``system`` is the instruction and never holds user data; ``template`` is filled in for each request."""

    system: str
    template: str

    @property
    def version(self) -> str:
        """A hash of the wording, so that cached results of another wording are not reused."""
        words = f"{self.system}\0{self.template}".encode()
        return hashlib.blake2b(words, digest_size=8).hexdigest()

    def fill(self, **values: str) -> str:
        """Replace each ``{{name}}`` of the template in one pass. Raises KeyError for a placeholder without a value."""
        return _PLACEHOLDER.sub(lambda match: values[match[1]], self.template)


@functools.cache
def load_prompt(name: str) -> Prompt:
    """Load the prompt ``name`` from the prompts folder. Raises Misconfigured when the file lacks its divider."""
    text = resources.files("pipeline").joinpath("models", "prompts", f"{name}.md").read_text(encoding="utf-8")
    system, divider, template = text.partition(_DIVIDER)
    if not divider:
        raise Misconfigured(f"the prompt {name}.md has no line {_DIVIDER}")
    return Prompt(system=system.strip(), template=template.strip())


def as_json(value: Any) -> str:
    """Return ``value`` as one line of JSON that can end neither its own string nor a fence of tags around it, in valid
    UTF-8."""
    well_formed = json.dumps(value, ensure_ascii=False).encode("utf-8", "replace").decode("utf-8")
    return well_formed.replace("<", "\\u003c").replace("\u2028", "\\u2028").replace("\u2029", "\\u2029")
