"""The official OpenAI client in front of this gateway, told nothing but where it is and which key to use."""

from __future__ import annotations

import io
import os
import uuid

import openai

from pipeline.resources import Resources
from tests.conftest import make_tenant

BASE = "/openai/v1"


def base_url() -> str:
    """Where the dialect is spoken."""
    return os.environ["CHORDWISE_URL"] + BASE


def client_of(use: Resources) -> openai.OpenAI:
    """A client with the key of a new tenant."""
    return openai.OpenAI(base_url=base_url(), api_key=make_tenant(use)[1])


def named(name: str, text: str | bytes) -> tuple[str, io.BytesIO]:
    """A file to be uploaded."""
    return name, io.BytesIO(text if isinstance(text, bytes) else text.encode())


def asked_anew(words: str) -> str:
    """The words with one that no other search has, so that no kept answer is given."""
    return f"{words} {uuid.uuid4().hex[:8]}"
