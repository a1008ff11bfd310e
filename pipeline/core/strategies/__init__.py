"""Ways of cutting a document, chosen by name. Adding one: write a `Strategy` and give it a line in `registry`."""

from pipeline.core.strategies.port import Cut, Option, Strategy
from pipeline.core.strategies.registry import (
    STRATEGIES,
    complete,
    cut,
    embedding_text_of,
    flaws_in_options,
    register,
    searched_text,
    window_of,
)

__all__ = [
    "STRATEGIES",
    "Cut",
    "Option",
    "Strategy",
    "complete",
    "cut",
    "embedding_text_of",
    "flaws_in_options",
    "register",
    "searched_text",
    "window_of",
]
