"""The body of a query, from the words of the Python client."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from chordwise.api.documents import plain
from chordwise.errors import InvalidInput

_LONGEST_ID = 128  # the server makes an id of its own in place of a longer one


def query_body(
    text: str,
    *,
    namespace: str | None = None,
    namespaces: Iterable[str] | str | None = None,
    top_k: int | None = None,
    filters: Mapping[str, Any] | None = None,
    method: str | None = None,
    retrieve: Mapping[str, Any] | None = None,
    rerank: bool | None = None,
    expand: bool | None = None,
    profile: str | None = None,
    context: Mapping[str, Any] | None = None,
    conversation: Sequence[str] | None = None,
    user_profile: Mapping[str, Any] | None = None,
    trace: bool | None = None,
    extra: Mapping[str, Any] | None = None,
) -> dict[str, Any]:
    """What is None is left out, so that the server's defaults hold. See options.QueryKeywords.

    Raises InvalidInput if no namespace is named.
    """
    named = namespace if namespaces is None else namespaces
    chosen = [named] if isinstance(named, str) else list(named or ())
    if not chosen:
        raise InvalidInput("a query must name at least one namespace")
    body = {
        "query_text": text,
        "namespaces": chosen,
        "top_k": top_k,
        "filters": None if filters is None else {name: plain(value) for name, value in filters.items()},
        "retrieve": {**(retrieve or {}), **({"method": method} if method else {})} or None,
        "enable_rerank": rerank,
        "enable_expand": expand,
        "profile": profile,
        "context": context,
        "conversation": None if conversation is None else list(conversation),
        "user_profile": user_profile,
        "trace": trace,
        **(extra or {}),
    }
    return {name: value for name, value in body.items() if value is not None}


def query_headers(request_id: str | None, *, fresh: bool) -> dict[str, str]:
    """What a query is sent with. Raises InvalidInput for a ``request_id`` that no header can hold."""
    headers = {"Cache-Control": "no-cache"} if fresh else {}
    if request_id is None:
        return headers
    if not (
        0 < len(request_id) <= _LONGEST_ID
        and request_id.isascii()
        and request_id.isprintable()
        and " " not in request_id
    ):
        raise InvalidInput(f"a request id has 1 to {_LONGEST_ID} visible ASCII characters")
    return {**headers, "X-Request-ID": request_id}
