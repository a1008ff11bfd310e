"""Other models in the place of those that the settings name."""

from __future__ import annotations

from pipeline.models.live_spaces import Spaces
from pipeline.models.ports import Embedder
from pipeline.records import EmbeddingSpace


def use_embedder(spaces: Spaces, space: EmbeddingSpace, embedder: Embedder) -> None:
    """Have ``embedder`` stand for the model of ``space``."""
    spaces._embedders[space] = embedder
