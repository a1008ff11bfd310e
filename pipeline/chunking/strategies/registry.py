"""The chunking strategies by name, and checks of their options."""

from collections.abc import Iterator, Mapping
from typing import Any

from pipeline.chunking.cut import embedding_text
from pipeline.chunking.strategies.prose import PARENT_CHILD, SENTENCES, WINDOW
from pipeline.chunking.strategies.question_answer import QA
from pipeline.chunking.strategies.segments import SEGMENTS
from pipeline.chunking.strategies.strategy import Cut, Option, PassageBudget, Strategy
from pipeline.records import Chunking, Parsed, Passage

STRATEGIES: dict[str, Strategy] = {
    strategy.name: strategy for strategy in (SENTENCES, PARENT_CHILD, WINDOW, QA, SEGMENTS)
}
BUILT_IN = frozenset(STRATEGIES)  # the others are known only to the processes that registered them
_OWN_FIELDS = ("max_tokens", "overlap")  # options of every strategy that has them; the others stand in `options`


def register(strategy: Strategy) -> None:
    """Add a strategy; gateway and workers must both do so. Raises ValueError for a name that is taken."""
    if strategy.name in STRATEGIES:
        raise ValueError(f"there is a chunking strategy {strategy.name} already")
    STRATEGIES[strategy.name] = strategy


def cut(parsed: Parsed, chunking: Chunking, *, most: int | None = None) -> Cut:
    """Cut the document. Raises DocumentTooLarge above ``most`` pieces, ValueError for a wrong strategy or number."""
    strategy = STRATEGIES.get(chunking.strategy)
    if strategy is None:
        raise ValueError(f"there is no chunking strategy {chunking.strategy}; there are: {', '.join(STRATEGIES)}")
    return strategy.cut(parsed, chunking, PassageBudget(most))


def searched_text(passage: Passage, strategy: str) -> str:
    """Return the text by which a passage is found. Chunks of a strategy that no longer exists keep their own text."""
    return STRATEGIES[strategy].indexed(passage) if strategy in STRATEGIES else passage.text


def embedding_text_of(passage: Passage, title: str | None, strategy: str) -> str:
    """Return the text to embed: the passage's headings and the text by which it is found."""
    return embedding_text(passage, title, text=searched_text(passage, strategy))


def window_of(chunking: Chunking) -> int:
    """Return how many chunks before and after one are read with it, unless a query overrides it."""
    option = WINDOW.options["window"]
    return int(chunking.options.get("window", option.default or 0)) if chunking.strategy == WINDOW.name else 0


def flaws_in_options(
    strategy: str, options: Mapping[str, Any], usual: Mapping[str, float]
) -> Iterator[tuple[str, str]]:
    """Return options that are unknown, no number, out of range or in conflict, and why. ``usual``: the defaults."""
    allowed = STRATEGIES[strategy].options
    flaws = [
        (name, flaw)
        for name, value in options.items()
        if (flaw := _flaw(allowed.get(name), value, strategy)) is not None
    ]
    yield from flaws
    if not flaws:
        conflict = STRATEGIES[strategy].conflict({**_defaults(allowed, usual), **options})
        if conflict is not None:
            yield conflict


def complete(strategy: str, options: Mapping[str, Any], usual: Mapping[str, float]) -> Chunking:
    """Return the chunking with these options and the defaults of all others."""
    values = {**_defaults(STRATEGIES[strategy].options, usual), **options}
    return Chunking(
        strategy=strategy,
        max_tokens=int(values["max_tokens"]),
        overlap=float(values.get("overlap", 0.0)),
        options={name: int(value) for name, value in values.items() if name not in _OWN_FIELDS},
    )


def options_of(chunking: Chunking) -> dict[str, int | float]:
    """Return every option that a document was cut with; of a strategy that no longer exists, the stored ones."""
    own: dict[str, int | float] = {"max_tokens": chunking.max_tokens, "overlap": chunking.overlap}
    strategy = STRATEGIES.get(chunking.strategy)
    return {name: value for name, value in own.items() if strategy is None or name in strategy.options} | dict(
        chunking.options
    )


def _defaults(options: Mapping[str, Option], usual: Mapping[str, float]) -> dict[str, float]:
    return {name: usual[name] if option.default is None else option.default for name, option in options.items()}


def _flaw(option: Option | None, value: Any, strategy: str) -> str | None:
    if option is None:
        return f"is not an option of the strategy {strategy}"
    if isinstance(value, bool) or not isinstance(value, int if option.is_whole else int | float):
        return "must be an integer" if option.is_whole else "must be a number"
    if value < option.minimum:
        return f"is below {option.minimum:g}"
    if value > option.maximum:
        return f"is above {option.maximum:g}"
    return None
