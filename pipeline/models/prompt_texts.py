"""Prompts are files: an instruction and a template, edited without changing code."""

import bisect
import hashlib
import json
import re
import secrets
from dataclasses import dataclass
from importlib import resources
from typing import Any, Final

from pipeline.errors import Misconfigured
from pipeline.privacy.redaction import redact

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
        """Replace each ``{{name}}`` of the template in one pass. ``{{nonce}}`` is a random word, which no text that is filled
        in can know. Raises KeyError for a placeholder without a value."""
        known = {"nonce": secrets.token_hex(8), **values}
        return _PLACEHOLDER.sub(lambda match: known[match[1]], self.template)

    def messages(self, **values: str) -> list[dict[str, str]]:
        """Return the instruction and the filled template as messages of a chat."""
        return [{"role": "system", "content": self.system}, {"role": "user", "content": self.fill(**values)}]


def load_prompt(name: str) -> Prompt:
    """Load the prompt ``name`` from the prompts folder. Raises Misconfigured when the file lacks its divider."""
    text = resources.files("pipeline").joinpath("models", "prompts", f"{name}.md").read_text(encoding="utf-8")
    system, divider, template = text.partition(_DIVIDER)
    if not divider:
        raise Misconfigured(f"the prompt {name}.md has no line {_DIVIDER}")
    return Prompt(system=system.strip(), template=template.strip())


def as_json(value: Any) -> str:
    """Return ``value`` as one line of valid JSON that can end neither its own string nor a fence of tags around it."""
    well_formed = json.dumps(value, ensure_ascii=False).encode("utf-8", "replace").decode("utf-8")
    return well_formed.replace("<", "\\u003c").replace("\u2028", "\\u2028").replace("\u2029", "\\u2029")


# The most tokens one input may have: the limit of OpenAI's embedding models, applied to the local one too.
MAX_INPUT_TOKENS = 8192

# A blank text has no direction, and services refuse it. This one replaces all blank texts.
_BLANK = "."

# Rough and on the high side, so that a batch within the estimate really fits.
_ASCII_PER_TOKEN = 3.0
_TOKENS_PER_WIDE = 1.2
_LONGEST_SECRET: Final = 640  # characters of the longest e-mail address, the longest of the masked patterns


# Not punctuation: that of full width is the ordinary one of Chinese.
_NARROW: Final = {
    wide: wide - 0xFEE0 for wide in (*range(0xFF10, 0xFF1A), *range(0xFF21, 0xFF3B), *range(0xFF41, 0xFF5B))
}


def sendable(text: str, *, most_tokens: int = MAX_INPUT_TOKENS) -> str:
    """Return ``text`` as models accept it: without lone surrogates, not blank, cut to about ``most_tokens`` tokens, and with
    letters and digits of full width narrow, as models that read the narrow ones do not know the others."""
    well_formed = text.encode("utf-8", "replace").decode("utf-8")
    if not well_formed.isascii():
        well_formed = well_formed.translate(_NARROW)
    if not well_formed.strip():
        return _BLANK
    return _beginning(well_formed, most_tokens)


def estimated_tokens(text: str) -> int:
    """Estimate the tokens of ``text`` without a tokenizer: at least 1, and rather too many than too few."""
    ascii_count = len(text) if text.isascii() else len(text.encode("ascii", "ignore"))
    return 1 + int(ascii_count / _ASCII_PER_TOKEN + (len(text) - ascii_count) * _TOKENS_PER_WIDE)


def _beginning(text: str, max_tokens: int) -> str:
    if len(text) * _TOKENS_PER_WIDE < max_tokens:
        return text  # fits whatever its characters are
    longest = range(min(len(text), int(max_tokens * _ASCII_PER_TOKEN)) + 1)
    return text[: bisect.bisect_right(longest, max_tokens, key=lambda length: estimated_tokens(text[:length])) - 1]


def masked_beginning(text: str, limit: int) -> str:
    """Return up to ``limit`` characters of the redacted ``text`` in time proportional to ``limit``; a number that may
    be cut off at the end is hidden."""
    part = text[: limit + 2 * _LONGEST_SECRET]
    masked = redact(part)
    return masked[: limit if len(part) == len(text) else min(limit, len(masked) - _LONGEST_SECRET)]
