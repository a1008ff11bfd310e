"""Profiles: named, versioned settings of retrieval."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from chordwise.contract import profile
from chordwise.resource import Resource, as_content, operation, path
from chordwise.transport import Steps

Profile = profile.ProfileDetail
ProfileVersion = profile.ProfileVersionShape


class ProfileOperations(Resource):
    """Operations on profiles."""

    @operation
    def profiles(self) -> Steps[list[Profile]]:
        """List all profiles, built-in ones included, without ``config`` and ``plan``."""
        return self._list(Profile, path("profiles"))

    @operation
    def profile_versions(self, name: str) -> Steps[list[ProfileVersion]]:
        """List all versions of a profile, newest first."""
        return self._list(ProfileVersion, path("profiles", name, "versions"))

    @operation
    def activate_profile(self, name: str, version: int, *, share: float = 1.0) -> Steps[Profile]:
        """Activate a version; a ``share`` below 1 starts a trial beside the active one."""
        body = {"version": version, "share": share}
        return self._one(Profile, "POST", path("profiles", name, "activate"), body=body)

    @operation
    def rollback_profile(self, name: str) -> Steps[Profile]:
        """End a trial, or go back to the previous version. ProblemError with status 409 if there is none."""
        return self._one(Profile, "POST", path("profiles", name, "rollback"), safe=False)

    @operation
    def delete_profile(self, name: str) -> Steps[None]:
        """Delete all stored versions; a built-in profile gets its built-in settings back."""
        return self._delete(path("profiles", name))

    @operation
    def profile(self, name: str) -> Steps[Profile]:
        """Return a profile as it applies now. ProblemError with status 404 if there is none of that name."""
        return self._one(Profile, "GET", path("profiles", name))

    @operation
    def store_profile(
        self, name: str, config: Mapping[str, Any], *, note: str = "", share: float = 1.0
    ) -> Steps[Profile]:
        """Add a version of a profile for ``share`` of the queries that name it; 0 leaves it inactive. ``config`` replaces
        all settings of the version before."""
        content = as_content({"config": config, "note": note, "share": share}, "profile")
        return self._one(Profile, "PUT", path("profiles", name), content=content, safe=False)
