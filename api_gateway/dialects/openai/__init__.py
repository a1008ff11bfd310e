"""OpenAI's interface for files and vector stores, under /openai/v1. A vector store is a namespace."""

from fastapi import APIRouter

from api_gateway.dialects.openai import file_batches as batches
from api_gateway.dialects.openai import lookups, search
from api_gateway.dialects.openai import stored_files as files
from api_gateway.dialects.openai import vector_store_files as store_files
from api_gateway.dialects.openai import vector_stores as stores
from api_gateway.http import problems

PREFIX = "/openai/v1"
MODULES = (files, stores, search, store_files, batches)


def routers() -> list[APIRouter]:
    """Return the routes of this dialect, and register its error format under its prefix."""
    problems.DIALECTS[f"{PREFIX}/"] = lookups.error_response
    together = APIRouter(prefix=PREFIX, tags=["openai"])
    for module in MODULES:
        together.include_router(module.router)
    return [together]
