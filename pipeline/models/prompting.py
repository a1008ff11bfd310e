"""Prompts are files: an instruction and a template, edited without touching code."""

from __future__ import annotations

import functools
import re
from dataclasses import dataclass
from importlib import resources
from typing import Final

from pipeline.errors import Misconfigured

_DIVIDER: Final = "<!-- user -->"
_PLACEHOLDER: Final = re.compile(r"\{\{(\w+)\}\}")


@dataclass(frozen=True, slots=True, kw_only=True)
class Prompt:
    """``system`` says what to do and never holds anything of a user's; ``template`` is filled in for each request."""

    system: str
    template: str

    def fill(self, **values: str) -> str:
        """The template with each ``{{name}}`` replaced, in one pass: a value that holds a placeholder stays as it is.

        Raises KeyError for a placeholder without a value.
        """
        return _PLACEHOLDER.sub(lambda match: values[match[1]], self.template)


@functools.cache
def load_prompt(name: str) -> Prompt:
    """The prompt ``name`` from the prompts folder. Raises Misconfigured when the file lacks its divider."""
    text = resources.files("pipeline").joinpath("models", "prompts", f"{name}.md").read_text(encoding="utf-8")
    system, divider, template = text.partition(_DIVIDER)
    if not divider:
        raise Misconfigured(f"the prompt {name}.md has no line {_DIVIDER}")
    return Prompt(system=system.strip(), template=template.strip())
