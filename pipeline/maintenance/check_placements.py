"""Compare the tenants that each pair of stores holds with the directory, around backups of single pairs."""

from collections import defaultdict
from typing import Final

import structlog

from pipeline.database.engines import mysql_engine
from pipeline.database.installation import id_in
from pipeline.database.statements import tenant_ids
from pipeline.database.unit_of_work import reading
from pipeline.errors import BackupFailed, Unavailable
from pipeline.records import TenantId
from pipeline.resources import Resources
from pipeline.setting_values import DEFAULT_PAIR
from pipeline.settings import Settings
from pipeline.tenants import placement_store

log = structlog.get_logger(__name__)

_MOST_NAMED: Final = 20
_TENANTS = "SELECT tenant_id FROM tenants ORDER BY tenant_id"
_ERASED = "SELECT tenant_id FROM erasures ORDER BY tenant_id"


def refuse_moves(settings: Settings) -> None:
    """Raise BackupFailed while a tenant moves between pairs: the backup of neither would hold it whole."""
    if not settings.store_pairs:
        return
    mysql = mysql_engine(settings)
    try:
        with reading(mysql) as connection:
            moves = placement_store.moves(connection)
    finally:
        mysql.dispose()
    if moves:
        named = ", ".join(move.tenant_id for move in moves[:_MOST_NAMED])
        raise BackupFailed(f"tenants move between pairs of stores: {named}; continue or undo these moves first")


def refuse_misplaced(use: Resources) -> None:
    """Raise BackupFailed with the tenants that are on other pairs than the directory has it, or on none. Pairs that do not
    answer, or are not restored yet, are left out."""
    if len(use.pairs) == 1:
        return
    holders, erased, compared = _holders(use)
    with reading(use.mysql) as connection:
        homes = placement_store.homes(connection)
    faults = [
        f"{tenant_id} is on {' and '.join(pairs)}, and the directory has it on {home}"
        for tenant_id, pairs in sorted(holders.items())
        if pairs != [home := homes.get(tenant_id, DEFAULT_PAIR)]
    ]
    faults += [
        f"{tenant_id} should be on {home} and is on no pair, unless it was placed and never created"
        for tenant_id, home in sorted(homes.items())
        if home in compared and tenant_id not in {*holders, *erased}
    ]
    if faults:
        more = f"; and {len(faults) - _MOST_NAMED} more" if len(faults) > _MOST_NAMED else ""
        raise BackupFailed(
            f"the backup is loaded, but the pairs of stores are not from the same moment: {'; '.join(faults[:_MOST_NAMED])}"
            f"{more}; restore all pairs from backups between which no tenant was moved"
        )


def _holders(use: Resources) -> tuple[dict[TenantId, list[str]], set[TenantId], set[str]]:
    """Return the pairs that hold each tenant, the tenants that were erased, and the pairs that were asked."""
    holders: defaultdict[TenantId, list[str]] = defaultdict(list)
    erased: set[TenantId] = set()
    compared: set[str] = set()
    with reading(use.mysql) as connection:
        own = id_in(connection)
    for stores in use.pairs:
        try:
            with reading(stores.mysql) as connection:
                if id_in(connection) != own:
                    log.warning("store_pair_not_compared", pair=stores.pair, code="not_restored")
                    continue
                for tenant_id in tenant_ids(connection, _TENANTS):
                    holders[tenant_id].append(stores.pair)
                erased.update(tenant_ids(connection, _ERASED))
        except Unavailable as error:
            log.warning("store_pair_not_compared", pair=stores.pair, code=error.code)
            continue
        compared.add(stores.pair)
    return holders, erased, compared
