"""Profiles: how queries are answered, by name and version."""

from __future__ import annotations

from collections.abc import Callable, Coroutine, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any
from urllib.parse import quote

from chordwise.decoding import Result, decode
from chordwise.errors import InvalidInput
from chordwise.requesting import Requesting, entries, segment
from chordwise.retries import exchange
from chordwise.transport import Answer, Call, Steps, encode

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


class ProfileOperations(Requesting):
    """The part of ``Operations`` that reads and stores profiles."""

    def profiles(self) -> Steps[list[Profile]]:
        """Every profile."""
        return entries(Profile, (yield from self._request("GET", _PATH)).json(), _PATH)

    def profile_versions(self, name: str) -> Steps[list[ProfileVersion]]:
        """Every version of a profile."""
        path = f"{_PATH}/{segment(name)}/versions"
        return entries(ProfileVersion, (yield from self._request("GET", path)).json(), path)

    def activate_profile(self, name: str, version: int, *, share: float) -> Steps[Profile]:
        """Choose a version."""
        body = {"version": version, "share": share}
        return decode(
            Profile, (yield from self._request("POST", f"{_PATH}/{segment(name)}/activate", body=body)).json()
        )

    def rollback_profile(self, name: str) -> Steps[Profile]:
        """Go back. Sent twice it would go back twice, so it is not repeated."""
        answer = yield from self._request("POST", f"{_PATH}/{segment(name)}/rollback", safe=False)
        return decode(Profile, answer.json())

    def delete_profile(self, name: str) -> Steps[None]:
        """Remove what was stored of a profile."""
        yield from self._request("DELETE", f"{_PATH}/{segment(name)}")

    def profile(self, name: str) -> Steps[Profile]:
        """One profile."""
        return decode(Profile, (yield from self._profile_call("GET", name)).json())

    def store_profile(self, name: str, config: Mapping[str, Any], *, note: str, share: float) -> Steps[Profile]:
        """Add a version. Not repeated if the connection breaks: each call makes one."""
        try:
            content = encode({"config": config, "note": note, "share": share})
        except (TypeError, ValueError) as error:
            raise InvalidInput(f"the profile is not JSON: {error}") from error
        return decode(Profile, (yield from self._profile_call("PUT", name, content=content)).json())

    def _profile_call(self, method: str, name: str, *, content: bytes | None = None) -> Steps[Answer]:
        path = f"/v1/profiles/{quote(name, safe='')}"
        call = Call(method=method, path=path, content=content, safe=content is None)
        return exchange(call, self._policy, clock=self._clock)


class ProfileMethods:
    """The methods of ``Chordwise`` for profiles."""

    _operations: ProfileOperations
    _run: Callable[[Steps[Any]], Any]

    def profile(self, name: str) -> Profile:
        """A profile as it counts now; ProblemError with status 404 if there is none of that name."""
        found: Profile = self._run(self._operations.profile(name))
        return found

    def store_profile(self, name: str, config: Mapping[str, Any], *, note: str = "", share: float = 1.0) -> Profile:
        """Add a version of a profile, for ``share`` of the queries that name it; with 0 nobody gets it yet. ``config`` is
        everything the version says: nothing is taken over from the one before."""
        found: Profile = self._run(self._operations.store_profile(name, config, note=note, share=share))
        return found

    def profiles(self) -> list[Profile]:
        """Every profile, built-in ones included; ``config`` and ``plan`` are told by ``profile``."""
        return list(self._run(self._operations.profiles()))

    def profile_versions(self, name: str) -> list[ProfileVersion]:
        """Every version of a profile, the newest first."""
        return list(self._run(self._operations.profile_versions(name)))

    def activate_profile(self, name: str, version: int, *, share: float = 1.0) -> Profile:
        """Choose the version that queries get; a ``share`` below 1 tries it beside the active one."""
        found: Profile = self._run(self._operations.activate_profile(name, version, share=share))
        return found

    def rollback_profile(self, name: str) -> Profile:
        """End a trial, or go back to the version from before; ProblemError with status 409 if there is none."""
        found: Profile = self._run(self._operations.rollback_profile(name))
        return found

    def delete_profile(self, name: str) -> None:
        """Remove every stored version; a built-in profile is as it was built in again."""
        self._run(self._operations.delete_profile(name))


class AsyncProfileMethods:
    """The methods of ``AsyncChordwise`` for profiles."""

    _operations: ProfileOperations
    _run: Callable[[Steps[Any]], Coroutine[Any, Any, Any]]

    async def profile(self, name: str) -> Profile:
        """See ``Chordwise.profile``."""
        found: Profile = await self._run(self._operations.profile(name))
        return found

    async def store_profile(
        self, name: str, config: Mapping[str, Any], *, note: str = "", share: float = 1.0
    ) -> Profile:
        """See ``Chordwise.store_profile``."""
        found: Profile = await self._run(self._operations.store_profile(name, config, note=note, share=share))
        return found

    async def profiles(self) -> list[Profile]:
        """See ``Chordwise.profiles``."""
        return list(await self._run(self._operations.profiles()))

    async def profile_versions(self, name: str) -> list[ProfileVersion]:
        """See ``Chordwise.profile_versions``."""
        return list(await self._run(self._operations.profile_versions(name)))

    async def activate_profile(self, name: str, version: int, *, share: float = 1.0) -> Profile:
        """See ``Chordwise.activate_profile``."""
        found: Profile = await self._run(self._operations.activate_profile(name, version, share=share))
        return found

    async def rollback_profile(self, name: str) -> Profile:
        """See ``Chordwise.rollback_profile``."""
        found: Profile = await self._run(self._operations.rollback_profile(name))
        return found

    async def delete_profile(self, name: str) -> None:
        """See ``Chordwise.delete_profile``."""
        await self._run(self._operations.delete_profile(name))
