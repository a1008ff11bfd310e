"""The Celery app of programs that watch workers over the broker: `celery -A workers.observer flower`, `… inspect`. It has the
settings of messages and no tasks, which would load stores and models: 50 MB and a second of processor time less."""

from __future__ import annotations

from celery import Celery

from workers.transport import PersistentConnection

app = Celery("chordwise")
app.config_from_object("celery_config")
app.amqp.Connection = PersistentConnection
