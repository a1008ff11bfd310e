"""The Celery app as a sender: configured, without loading any task."""

from __future__ import annotations

import re
import ssl
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from shlex import quote
from typing import Any, Final
from urllib.parse import urlsplit

import structlog
from celery import Celery
from kombu.connection import Connection
from kombu.exceptions import KombuError
from kombu.transport import pyamqp

from pipeline.database.store_errors import Location, certificate_advice, untrusted
from pipeline.deadline import Deadline
from pipeline.errors import PipelineError, StoreFull, causes
from pipeline.maintenance.doctor import NodeFacts
from pipeline.store_urls import for_celery
from workers.transport import BrokerAlarm

log = structlog.get_logger(__name__)

# Those of py-amqp: a refused password is an error of a channel, and no KombuError.
AMQP_ERRORS: Final = (*pyamqp.Transport.connection_errors, *pyamqp.Transport.channel_errors)
OLDEST_RABBITMQ: Final = (3, 10)
_ONCE: Final = {"max_retries": 0, "interval_start": 0, "interval_step": 0}
_ONCE_MORE: Final = {"max_retries": 1, "interval_start": 0, "interval_step": 0}
_PORT: Final = 5672
_VARIABLE: Final = "CHORDWISE_BROKER_URL"
_ACCESS_REFUSED, _NOT_ALLOWED = 403, 530  # AMQP's reply codes
_BIND, _PUBLISH = (50, 20), (60, 40)  # AMQP's methods; those that declare need another right
_DENIED: Final = re.compile(r"access to (\w+) '([^']*)' in vhost '([^']*)' refused for user '([^']*)'")
_ALARM_ADVICE: Final = "free some there, or change disk_free_limit or vm_memory_high_watermark"
_PERMITTED_S: Final = 30.0

_permitted: dict[str, Deadline] = {}  # brokers whose rights were tried, by URL, until when that holds

producer = Celery("chordwise", set_as_current=False)


producer.config_from_object("celery_config", force=True)  # read now: a wrong setting ends the process in one sentence


def broker_version(app: Celery = producer) -> dict[str, str]:
    """Ask an AMQP broker for its name and version; nothing for a Redis. Raises StoreMisconfigured, StoreUnavailable."""
    with app.connection_for_write() as connection, amqp_errors(connection):
        if not _speaks_amqp(connection):
            return {}
        connection.ensure_connection(**_ONCE_MORE)
        facts = connection.connection.server_properties
        return {str(facts["product"]): str(facts["version"])}


def broker_nodes(url: str, app: Celery = producer) -> list[NodeFacts]:
    """Return a RabbitMQ that is named with several nodes: the first that answers, and how many others do; nothing for another
    broker, or if none answers."""
    nodes = url.split(";")
    answering = [node for node in nodes if len(nodes) > 1 and _answers(node, app)]
    if not answering:
        return []
    first = urlsplit(answering[0])
    address = f"{first.hostname}:{first.port or _PORT}"
    return [NodeFacts(server="RabbitMQ", node=address, others=len(nodes) - 1, ready=len(answering) - 1)]


def _answers(url: str, app: Celery) -> bool:
    bare, tls = for_celery(url)
    with app.connection(bare, ssl=tls) as connection, suppress(KombuError, OSError, *AMQP_ERRORS):
        connection.ensure_connection(**_ONCE)
        return True
    return False


def check_broker(app: Celery = producer) -> bool:
    """Try out an AMQP broker on a connection of its own and return True; return False for a Redis without asking it. Raises
    StoreMisconfigured (a version that is too old, password, virtual host, rights, certificate), StoreFull (an alarm),
    StoreUnavailable."""
    with app.connection_for_write() as connection, amqp_errors(connection):
        if not _speaks_amqp(connection):
            return False
        connection.ensure_connection(**_ONCE_MORE)
        facts = connection.connection.server_properties
        version = str(facts["version"])
        if facts["product"] == "RabbitMQ" and tuple(map(int, version.split(".")[:2])) < OLDEST_RABBITMQ:
            needed = f"RabbitMQ {'.'.join(map(str, OLDEST_RABBITMQ))} or newer is needed"
            raise _location(connection).refused(
                f"the server is version {version}, but {needed}; upgrade it, or name another one in {_VARIABLE}"
            )
        url = str(connection.as_uri())
        if url not in _permitted or _permitted[url].has_passed:
            _declare_all(connection, app)
            _permitted[url] = Deadline.after(_PERMITTED_S)
        connection.connection.probe()
    return True


def _declare_all(connection: Connection, app: Celery) -> None:
    """Declare every queue and the exchanges of remote control, as processes do; binding takes the rights to write and read.
    Only the last declaration is waited for, which raises the first refusal."""
    channel: Any = connection.default_channel  # py-amqp's
    for queue in app.amqp.queues.values():
        queue(channel).declare_all()
    mailbox = app.control.mailbox
    mailbox.exchange(channel).declare(nowait=True)
    mailbox.reply_exchange(channel).declare()


def broker_full(error: BaseException) -> StoreFull | None:
    """Return the error to report for one of publishing while the broker has an alarm; None for another error."""
    if not any(isinstance(cause, BrokerAlarm) for cause in causes(error)):
        return None
    return _full(_location(producer.connection_for_write()))


def _full(at: Location) -> StoreFull:
    return at.full("it takes no messages, as it is short of disk space or memory (alarm)", _ALARM_ADVICE)


@contextmanager
def amqp_errors(connection: Connection) -> Iterator[None]:
    """Translate the errors of an AMQP connection into one sentence with the remedy; those of a Redis pass."""
    try:
        yield
    except (KombuError, OSError, *AMQP_ERRORS) as error:
        if not _speaks_amqp(connection):
            raise
        raise _of_amqp(error, _location(connection)) from error


def _speaks_amqp(connection: Connection) -> bool:
    return str(connection.transport_cls).startswith(("amqp", "pyamqp"))


def _location(connection: Connection) -> Location:
    address = urlsplit(str(connection.as_uri())).netloc.rpartition("@")[2]
    return Location(server="RabbitMQ", variable=_VARIABLE, address=address)


def _of_amqp(error: BaseException, at: Location) -> PipelineError:
    every = list(causes(error))
    if any(isinstance(cause, BrokerAlarm) for cause in every):
        return _full(at)
    if (denied := next((denial for cause in every if (denial := _denial(cause))), None)) is not None:
        return at.refused(denied)
    codes = {getattr(cause, "code", None) for cause in every}
    if (reason := untrusted(error)) is not None:
        authority = f"?ssl_ca_certs=/path/ca.pem with the CA of this server to {at.variable}"
        advice = certificate_advice(reason, authority)
        return at.refused(f"the certificate of the server in {at.variable} is not trusted ({reason}); {advice}")
    if any(isinstance(cause, ssl.SSLError) for cause in every):
        advice = f"amqps:// in {at.variable} is for a port with TLS, amqp:// for one without"
        return at.refused(f"no TLS connection could be made; {advice}")
    if _ACCESS_REFUSED in codes:
        return at.refused(f"the user or the password is wrong; check {at.settings}")
    if _NOT_ALLOWED in codes:
        advice = "create it, or run rabbitmqctl set_permissions as docs/install.md says"
        return at.refused(f"the user may not use the virtual host in {at.variable}; {advice}")
    refusals = (cause.strerror for cause in reversed(every) if isinstance(cause, OSError) and cause.strerror)
    return at.away(f"it does not answer ({next(refusals, type(error).__name__)}); start it, or correct {at.variable}")


def _denial(error: BaseException) -> str | None:
    """Return the right that the broker's user lacks, with the remedy; None for another error."""
    denial = _DENIED.search(str(error))
    method = getattr(error, "method_sig", None)
    if denial is None or method is None:
        return None
    kind, name, host, user = denial.groups()
    right = {_BIND: "read" if kind == "exchange" else "write", _PUBLISH: "write"}.get(method, "configure")
    grant = f"rabbitmqctl set_permissions -p {quote(host)} {quote(user)} '.*' '.*' '.*'"
    return f"user {user} lacks the {right} permission on {kind} '{name}'; as an administrator run: {grant}"


def waiting_messages(queues: Sequence[str], app: Celery = producer) -> Mapping[str, int]:
    """Return the number of messages of each queue by AMQP; nothing while it is unavailable. Opens a connection."""
    waiting = dict.fromkeys(queues, 0)
    try:
        with app.connection_for_write() as connection:
            connection.ensure_connection(**_ONCE_MORE)
            for queue in queues:
                with suppress(*connection.channel_errors), connection.channel() as channel:
                    waiting[queue] = channel.queue_declare(queue, passive=True).message_count
    except (KombuError, OSError, *AMQP_ERRORS) as error:
        log.warning("queues_not_counted", error=type(error).__name__)
        return {}
    return waiting
