"""Ways of cutting a document, chosen by name. Adding one: write a `Strategy` and give it a line in `registry`."""

from pipeline.chunking.strategies.registry import (
    BUILT_IN,
    STRATEGIES,
    complete,
    cut,
    embedding_text_of,
    flaws_in_options,
    options_of,
    register,
    searched_text,
    window_of,
)
from pipeline.chunking.strategies.strategy import Cut, Option, PassageBudget, Strategy

__all__ = [
    "BUILT_IN",
    "STRATEGIES",
    "Cut",
    "Option",
    "PassageBudget",
    "Strategy",
    "complete",
    "cut",
    "embedding_text_of",
    "flaws_in_options",
    "options_of",
    "register",
    "searched_text",
    "window_of",
]
