"""Keep Celery from subscribing to results that nobody will read.

Sending a chord makes the sender subscribe to the callback's result and keep that subscription for ever: thousands after
an hour. Answers travel by another way (`pipeline.stores.queries`), so no process here ever waits for a Celery result.
"""

from __future__ import annotations

from celery import Celery


def subscribe_to_nothing(app: Celery) -> None:
    """Turn off the subscriptions of this app's result backend; storing and counting chord parts goes on."""
    app.backend.result_consumer.consume_from = lambda _task_id: None
    app.backend.result_consumer.start = lambda *_args, **_kwargs: None
