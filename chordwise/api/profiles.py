"""Profiles: how queries are answered, by name and version."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from chordwise.records import Result
from chordwise.resource import Resource, as_content, operation, segment
from chordwise.transport import Steps

_PATH = "/v1/profiles"


@dataclass(frozen=True, slots=True, kw_only=True)
class Profile(Result):
    """A profile as it counts now. ``config`` is what it says, ``plan`` every setting that this makes on the server."""

    name: str
    config_version: int
    built_in: bool = False
    note: str = ""
    trial_version: int | None = None
    trial_share: float = 0.0
    previous_version: int | None = None
    config: Mapping[str, Any] = field(default_factory=dict)
    plan: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class ProfileVersion(Result):
    """One version of a profile, as it was stored."""

    config_version: int
    config: Mapping[str, Any] = field(default_factory=dict)
    note: str = ""
    created_by: str = ""
    created_at: datetime | None = None


class ProfileOperations(Resource):
    """The part of ``Operations`` that reads and stores profiles."""

    @operation
    def profiles(self) -> Steps[list[Profile]]:
        """Every profile, built-in ones included; ``config`` and ``plan`` are told by ``profile``."""
        return self._list(Profile, _PATH)

    @operation
    def profile_versions(self, name: str) -> Steps[list[ProfileVersion]]:
        """Every version of a profile, the newest first."""
        path = f"{_PATH}/{segment(name)}/versions"
        return self._list(ProfileVersion, path)

    @operation
    def activate_profile(self, name: str, version: int, *, share: float = 1.0) -> Steps[Profile]:
        """Choose the version that queries get; a ``share`` below 1 tries it beside the active one."""
        body = {"version": version, "share": share}
        return self._one(Profile, "POST", f"{_PATH}/{segment(name)}/activate", body=body)

    @operation
    def rollback_profile(self, name: str) -> Steps[Profile]:
        """End a trial, or go back to the version from before; ProblemError with status 409 if there is none."""
        return self._one(Profile, "POST", f"{_PATH}/{segment(name)}/rollback", safe=False)

    @operation
    def delete_profile(self, name: str) -> Steps[None]:
        """Remove every stored version; a built-in profile is as it was built in again."""
        yield from self._request("DELETE", f"{_PATH}/{segment(name)}")

    @operation
    def profile(self, name: str) -> Steps[Profile]:
        """A profile as it counts now; ProblemError with status 404 if there is none of that name."""
        return self._one(Profile, "GET", f"{_PATH}/{segment(name)}")

    @operation
    def store_profile(
        self, name: str, config: Mapping[str, Any], *, note: str = "", share: float = 1.0
    ) -> Steps[Profile]:
        """Add a version of a profile, for ``share`` of the queries that name it; with 0 nobody gets it yet. ``config`` is
        everything the version says: nothing is taken over from the one before."""
        content = as_content({"config": config, "note": note, "share": share}, "profile")
        return self._one(Profile, "PUT", f"{_PATH}/{segment(name)}", content=content, safe=False)
