"""The installation that each store belongs to: its address, its claim, and the comparison of two claims."""

from dataclasses import dataclass
from typing import Final, Literal

from sqlalchemy import URL, make_url

from pipeline.errors import WrongInstallation
from pipeline.settings import Settings

ADOPT: Final = "python -m pipeline.maintenance.migrate_schema adopt"


@dataclass(frozen=True, slots=True, kw_only=True)
class Address:
    """The variable that names a store, and the store's URL without password and options."""

    variable: str
    url: str

    def __str__(self) -> str:
        return f"{self.variable} ({self.url})"


@dataclass(frozen=True, slots=True, kw_only=True)
class InstallationClaim:
    """The installation that a store belongs to; ``installation_id`` None: none yet, or no table."""

    address: Address
    installation_id: str | None


def addresses(settings: Settings) -> dict[Literal["mysql", "postgres", "redis", "broker"], Address]:
    """Return every store that has the id. The broker is included only if it is another Redis."""
    stores: dict[Literal["mysql", "postgres", "redis", "broker"], Address] = {
        "mysql": Address(variable="CHORDWISE_MYSQL_URL", url=_shown(settings.mysql_url.get_secret_value())),
        "postgres": Address(variable="CHORDWISE_POSTGRES_URL", url=_shown(settings.postgres_url.get_secret_value())),
        "redis": Address(variable="CHORDWISE_REDIS_URL", url=_shown(settings.redis_url.get_secret_value())),
    }
    if has_redis_broker(settings):
        stores["broker"] = Address(variable="CHORDWISE_BROKER_URL", url=_shown(settings.broker))
    return stores


def compare(record: InstallationClaim, other: InstallationClaim) -> str:
    """Return the id of the installation that both stores belong to. Raises WrongInstallation unless there is one."""
    if record.installation_id is not None and record.installation_id == other.installation_id:
        return record.installation_id
    if record.installation_id is None and other.installation_id is None:
        raise WrongInstallation(
            f"{record.address} and {other.address} belong to no installation yet:"
            " run python -m pipeline.maintenance.migrate_schema upgrade"
        )
    raise WrongInstallation(
        f"{record.address} belongs to {named(record)}, but {other.address} to {named(other)}:"
        f" correct the address that is wrong, or run {ADOPT} if this MySQL is to be their record from now on"
    )


def has_redis_broker(settings: Settings) -> bool:
    """Return whether messages go through another Redis than results and caches."""
    is_redis = settings.broker.startswith(("redis://", "rediss://"))
    return is_redis and settings.broker != settings.redis_url.get_secret_value()


def named(claim: InstallationClaim) -> str:
    """Return a description of a store's owner."""
    return "no installation yet" if claim.installation_id is None else f"installation {claim.installation_id}"


def _shown(url: str) -> str:
    """Return a URL without password and options; options may be secret too."""
    parts = make_url(url)
    shown = URL.create(
        parts.drivername, username=parts.username, host=parts.host, port=parts.port, database=parts.database
    )
    return shown.render_as_string()
