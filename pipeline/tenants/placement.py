"""The placement of a tenant on one of the installation's pairs of stores, and the states of a move."""

import enum
from dataclasses import dataclass

from pipeline.records import TenantId
from pipeline.setting_values import DEFAULT_PAIR


class PlacementState(enum.StrEnum):
    """The state of a tenant's placement."""

    SETTLED = "settled"
    COPYING = "copying"  # to ``target``, while the tenant goes on where it is
    FROZEN = "frozen"  # the last differences are copied to ``target``; writes are refused
    LEAVING = "leaving"  # the tenant is at ``pair``; its rows in ``target``, where it was, are still to be deleted


@dataclass(frozen=True, slots=True, kw_only=True)
class Placement:
    """The pair that holds a tenant. ``target``: the other pair of a move under way."""

    tenant_id: TenantId
    pair: str = DEFAULT_PAIR
    state: PlacementState = PlacementState.SETTLED
    target: str | None = None
