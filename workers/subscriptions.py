"""Keep Celery from subscribing to results nobody reads: sending a chord would keep a subscription for ever, and answers
travel by `pipeline.stores.queries`."""

from __future__ import annotations

from celery import Celery


def subscribe_to_nothing(app: Celery) -> None:
    """Turn off the subscriptions of this app's result backend; storing and counting chord parts goes on."""
    app.backend.result_consumer.consume_from = lambda _task_id: None
    app.backend.result_consumer.start = lambda *_args, **_kwargs: None
