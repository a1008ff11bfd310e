"""Profiles: how queries are answered, by name and version."""

from __future__ import annotations

from collections.abc import Callable, Coroutine, Mapping
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import quote

from chordwise.decoding import Result, decode
from chordwise.errors import InvalidInput
from chordwise.retries import RetryPolicy, exchange
from chordwise.transport import Answer, Call, Steps, encode


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


class ProfileOperations:
    """The part of ``Operations`` that reads and stores profiles."""

    _policy: RetryPolicy
    _clock: Callable[[], float]

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
