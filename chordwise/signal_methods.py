"""What is told when jobs end, and what failed for good: the methods of both clients for webhooks and dead letters."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, TypeVar, Unpack

from chordwise.hooks import Delivery, Webhook
from chordwise.letters import DeadLetter
from chordwise.operations import Operations
from chordwise.options import DeadLetterFilters
from chordwise.transport import Steps

T = TypeVar("T")


class SignalMethods:
    """The methods of ``Chordwise`` for webhooks and dead letters."""

    _operations: Operations

    if TYPE_CHECKING:

        def _run(self, steps: Steps[T]) -> T: ...

    def dead_letters(self, *, limit: int | None = 100, **chosen: Unpack[DeadLetterFilters]) -> list[DeadLetter]:
        """Documents that failed for good, the latest first: those that fit every filter given."""
        return self._run(self._operations.dead_letters(limit=limit, **chosen))

    def dead_letter(self, letter_id: str) -> DeadLetter:
        """One dead letter."""
        return self._run(self._operations.dead_letter(letter_id))

    def replay_dead_letter(self, letter_id: str) -> int:
        """Try one again; gives 1."""
        return self._run(self._operations.replay_dead_letter(letter_id))

    def replay_dead_letters(self, *, everything: bool = False, **chosen: Unpack[DeadLetterFilters]) -> int:
        """Try again those that fit every filter given, or, with no filter, ``everything``. Gives how many."""
        return self._run(self._operations.replay_dead_letters(everything=everything, **chosen))

    def drop_dead_letter(self, letter_id: str) -> None:
        """Give one up: its bytes are deleted, in its job it stays failed."""
        self._run(self._operations.drop_dead_letter(letter_id))

    def webhooks(self) -> list[Webhook]:
        """Every endpoint that is told how jobs end."""
        return self._run(self._operations.webhooks())

    def add_webhook(self, url: str, *, events: Iterable[str] | None = None) -> Webhook:
        """Have an endpoint told, by default of every end of a job. Its ``secret``, for ``verify_webhook``, is shown once."""
        return self._run(self._operations.add_webhook(url, events))

    def remove_webhook(self, webhook_id: str) -> None:
        """Tell an endpoint nothing more."""
        self._run(self._operations.remove_webhook(webhook_id))

    def rotate_webhook(self, webhook_id: str, *, overlap_seconds: int | None = None) -> Webhook:
        """Give an endpoint a new ``secret``; for ``overlap_seconds``, a day by default, the old one signs too."""
        return self._run(self._operations.rotate_webhook(webhook_id, overlap_seconds))

    def enable_webhook(self, webhook_id: str) -> Webhook:
        """Call an endpoint again that was given up."""
        return self._run(self._operations.enable_webhook(webhook_id))

    def test_webhook(self, webhook_id: str) -> str:
        """Have a test message sent; gives the id of its delivery."""
        return self._run(self._operations.test_webhook(webhook_id))

    def webhook_deliveries(self, webhook_id: str, *, state: str | None = None, limit: int = 100) -> list[Delivery]:
        """The latest messages to an endpoint; ``state``: pending, delivered or dead."""
        return self._run(self._operations.deliveries(webhook_id, state=state, limit=limit))

    def webhook_delivery(self, webhook_id: str, delivery_id: str) -> Delivery:
        """One message to an endpoint."""
        return self._run(self._operations.delivery(webhook_id, delivery_id))

    def redeliver(self, webhook_id: str, delivery_id: str) -> None:
        """Send a message again that has ended, under the same id."""
        self._run(self._operations.redeliver(webhook_id, delivery_id))


class AsyncSignalMethods:
    """The methods of ``AsyncChordwise`` for webhooks and dead letters."""

    _operations: Operations

    if TYPE_CHECKING:

        async def _run(self, steps: Steps[T]) -> T: ...

    async def dead_letters(self, *, limit: int | None = 100, **chosen: Unpack[DeadLetterFilters]) -> list[DeadLetter]:
        """See ``Chordwise.dead_letters``."""
        return await self._run(self._operations.dead_letters(limit=limit, **chosen))

    async def dead_letter(self, letter_id: str) -> DeadLetter:
        """See ``Chordwise.dead_letter``."""
        return await self._run(self._operations.dead_letter(letter_id))

    async def replay_dead_letter(self, letter_id: str) -> int:
        """See ``Chordwise.replay_dead_letter``."""
        return await self._run(self._operations.replay_dead_letter(letter_id))

    async def replay_dead_letters(self, *, everything: bool = False, **chosen: Unpack[DeadLetterFilters]) -> int:
        """See ``Chordwise.replay_dead_letters``."""
        return await self._run(self._operations.replay_dead_letters(everything=everything, **chosen))

    async def drop_dead_letter(self, letter_id: str) -> None:
        """See ``Chordwise.drop_dead_letter``."""
        await self._run(self._operations.drop_dead_letter(letter_id))

    async def webhooks(self) -> list[Webhook]:
        """See ``Chordwise.webhooks``."""
        return await self._run(self._operations.webhooks())

    async def add_webhook(self, url: str, *, events: Iterable[str] | None = None) -> Webhook:
        """See ``Chordwise.add_webhook``."""
        return await self._run(self._operations.add_webhook(url, events))

    async def remove_webhook(self, webhook_id: str) -> None:
        """See ``Chordwise.remove_webhook``."""
        await self._run(self._operations.remove_webhook(webhook_id))

    async def rotate_webhook(self, webhook_id: str, *, overlap_seconds: int | None = None) -> Webhook:
        """See ``Chordwise.rotate_webhook``."""
        return await self._run(self._operations.rotate_webhook(webhook_id, overlap_seconds))

    async def enable_webhook(self, webhook_id: str) -> Webhook:
        """See ``Chordwise.enable_webhook``."""
        return await self._run(self._operations.enable_webhook(webhook_id))

    async def test_webhook(self, webhook_id: str) -> str:
        """See ``Chordwise.test_webhook``."""
        return await self._run(self._operations.test_webhook(webhook_id))

    async def webhook_deliveries(
        self, webhook_id: str, *, state: str | None = None, limit: int = 100
    ) -> list[Delivery]:
        """See ``Chordwise.webhook_deliveries``."""
        return await self._run(self._operations.deliveries(webhook_id, state=state, limit=limit))

    async def webhook_delivery(self, webhook_id: str, delivery_id: str) -> Delivery:
        """See ``Chordwise.webhook_delivery``."""
        return await self._run(self._operations.delivery(webhook_id, delivery_id))

    async def redeliver(self, webhook_id: str, delivery_id: str) -> None:
        """See ``Chordwise.redeliver``."""
        await self._run(self._operations.redeliver(webhook_id, delivery_id))
