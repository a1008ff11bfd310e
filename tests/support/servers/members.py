"""Servers that take over from each other: each behind a wire of its own, to be killed, frozen, cut off and brought back."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Literal, Protocol

from tests.support.servers.proxy import Proxy

# Handed over: the server ends in order, or becomes a replica, and another one takes over.
Fault = Literal["killed", "frozen", "cut off", "handed over"]


class Running(Protocol):
    """A process, or several that run together."""

    def start(self) -> None:
        """Start it, with the data it had, and wait until it is ready."""

    def kill(self) -> None:
        """``kill -9``."""

    def stop(self) -> None:
        """Have it end in order."""

    def freeze(self) -> None:
        """SIGSTOP."""

    def thaw(self) -> None:
        """SIGCONT."""


@dataclass(kw_only=True)
class Member:
    """One server of a cluster. ``wire``: the port by which clients reach it, None for one without clients."""

    name: str
    server: Running
    wire: Proxy | None = None
    fault: Fault | None = None

    def strike(self, fault: Fault) -> None:
        """Take the server away, until `bring_back`."""
        self.fault = fault
        if fault == "killed":
            self.server.kill()
        elif fault == "handed over":
            self.server.stop()
        elif fault == "frozen":
            self.server.freeze()
        if fault != "frozen" and self.wire is not None:
            self.wire.cut()

    def bring_back(self) -> None:
        """End the fault."""
        if self.fault in ("killed", "handed over"):
            self.server.start()
        elif self.fault == "frozen":
            self.server.thaw()
        if self.wire is not None:
            self.wire.heal()
        self.fault = None


@dataclass(kw_only=True)
class Cluster:
    """``members`` of one kind of server. ``faults``: those that each of them is to survive."""

    kind: str
    members: Sequence[Member]
    faults: Sequence[Fault] = field(default=("killed", "frozen", "cut off"))

    def primary(self) -> Member:
        """Return the member that does the work: by default the one with most connections."""
        wires = [(member.wire.connected if member.wire else 0, member) for member in self.members]
        return max(wires, key=lambda each: each[0])[1]

    def strike(self, lost: Member, fault: Fault) -> None:
        """Take a member away."""
        lost.strike(fault)

    def take_over(self) -> None:
        """Do what the operator's tool does once the primary is lost: by default nothing, because the cluster does it."""

    def bring_back(self, lost: Member) -> None:
        """Let a lost member join again."""
        lost.bring_back()

    def is_whole(self) -> bool:
        """Return whether all members work and any one could be lost now."""
        return True
