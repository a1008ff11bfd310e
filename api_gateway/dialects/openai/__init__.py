"""Files and vector stores as the clients of OpenAI speak of them, under /openai/v1. A vector store is a namespace."""

from __future__ import annotations

from fastapi import APIRouter

from api_gateway import problems
from api_gateway.facades.openai import batches, errors, files, search, store_files, stores

PREFIX = "/openai/v1"
MODULES = (files, stores, search, store_files, batches)


def routers() -> list[APIRouter]:
    """The routes of this dialect; from now on errors under its prefix are told its way."""
    problems.DIALECTS[f"{PREFIX}/"] = errors.told
    together = APIRouter(prefix=PREFIX, tags=["openai"])
    for module in MODULES:
        together.include_router(module.router)
    return [together]
