"""The first digits of an id in its place, as the console shows them."""

import re
from collections.abc import Callable, Iterable

from chordwise.client import Chordwise
from chordwise.errors import InvalidInput, ProblemError

NEWEST = 1000  # jobs and queries among which a short id is looked up
_SHORT = re.compile(r"[0-9a-f][0-9a-f-]{7,34}", re.IGNORECASE)
_CANDIDATES = 10


def full_id(given: str, ids: Callable[[], Iterable[str]], noun: str) -> str:
    """Return the id in ``ids`` that begins with ``given``; ``given`` itself, without reading ``ids``, unless it is 8 to 35
    hexadecimal digits and hyphens, and also where no id fits.

    Raises InvalidInput with the candidates if several fit and none is equal.
    """
    if not _SHORT.fullmatch(given):
        return given
    prefix = given.lower()
    fitting = sorted({each for each in ids() if each.lower().startswith(prefix)})
    if len(fitting) <= 1 or given in fitting:
        return given if given in fitting or not fitting else fitting[0]
    more = f" and {len(fitting) - _CANDIDATES} more" if len(fitting) > _CANDIDATES else ""
    raise InvalidInput(
        f"{given} is the beginning of {len(fitting)} {noun}s, give more of the id: {', '.join(fitting[:_CANDIDATES])}{more}"
    )


def job(client: Chordwise, given: str) -> str:
    """Return the id of a job, from its first digits among the newest jobs."""
    return full_id(given, lambda: (each.job_id for each in client.jobs(limit=NEWEST)), "job")


def query(client: Chordwise, given: str) -> str:
    """Return the id of a query, from its first digits among the newest searches of the audit, if the key may read it."""

    def ids() -> list[str]:
        try:
            entries = client.audit(action="search", limit=NEWEST)
        except ProblemError as error:
            if error.status == 403:
                raise InvalidInput(
                    f"{given} is not a whole query id, and only a key with the scope admin can look up the rest"
                ) from error
            raise
        return [str(entry.detail["query_id"]) for entry in entries if entry.detail.get("query_id")]

    return full_id(given, ids, "query id")


def document(client: Chordwise, given: str, namespace: str) -> str:
    """Return the id of a document, from the first digits of one that the server made."""
    return full_id(
        given, lambda: (each.document_id for each in client.documents(namespace=namespace, limit=None)), "document"
    )


def source(client: Chordwise, given: str, namespace: str) -> str:
    """Return the id of a source, from its first digits."""
    return full_id(
        given, lambda: (each.source_id for each in client.sources(namespace=namespace, limit=None)), "source"
    )


def dead_letter(client: Chordwise, given: str) -> str:
    """Return the id of a dead letter, from its first digits."""
    return full_id(given, lambda: (each.id for each in client.dead_letters(limit=None)), "dead letter")


def webhook(client: Chordwise, given: str) -> str:
    """Return the id of a webhook, from its first digits."""
    return full_id(given, lambda: (each.webhook_id for each in client.webhooks()), "webhook")


def delivery(client: Chordwise, given: str, webhook_id: str) -> str:
    """Return the id of a message, from its first digits among the newest of the endpoint."""
    return full_id(
        given, lambda: (each.delivery_id for each in client.webhook_deliveries(webhook_id, limit=200)), "message"
    )


def key(client: Chordwise, given: str, tenant_id: str | None) -> str:
    """Return the id of a key, from its first digits."""
    return full_id(given, lambda: (each.key_id for each in client.keys(tenant_id=tenant_id)), "key")
