"""The Celery app as a sender: configured, and with no task loaded."""

from __future__ import annotations

from celery import Celery

from workers.subscriptions import subscribe_to_nothing

producer = Celery("chordwise", set_as_current=False)
producer.config_from_object("celery_config")
subscribe_to_nothing(producer)
