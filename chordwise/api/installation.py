"""The state of the server and of the whole installation."""

from __future__ import annotations

from chordwise.contract import process
from chordwise.errors import ProblemError, UnexpectedAnswer
from chordwise.records import decode
from chordwise.resource import Resource, entries, operation, path
from chordwise.transport import Steps

_HOLD_S = 15.0  # the server allows every worker two seconds, and each store its own limit


Dependency = process.DependencyHealth
Health = process.Readiness
Finding = process.Finding
Diagnosis = process.Diagnosis
Worker = process.WorkerState
SilentProcess = process.SilentProcess


class InstallationOperations(Resource):
    """Operations that examine the installation."""

    @operation
    def health(self) -> Steps[Health]:
        """Return the readiness of the server, by dependency."""
        answer = yield from self._request("GET", "/readyz", expects=frozenset({503}))
        if "json" not in answer.headers.get("content-type", ""):
            raise UnexpectedAnswer(f"/readyz answers {answer.status} without JSON; is this a Chordwise gateway?")
        return decode(Health, answer.json())

    @operation
    def server_version(self) -> Steps[str | None]:
        """Return the server's version; None if it does not publish one."""
        try:
            answer = yield from self._request("GET", "/openapi.json")
        except ProblemError:
            return None
        body = answer.json()
        info = body.get("info") if isinstance(body, dict) else None
        return str(info["version"]) if isinstance(info, dict) and "version" in info else None

    @operation
    def doctor(self) -> Steps[Diagnosis]:
        """Check the whole installation. Needs the operator's key and takes some seconds."""
        return self._one(Diagnosis, "GET", "/v1/doctor", hold_s=_HOLD_S)

    @operation
    def workers(self) -> Steps[list[Worker]]:
        """Return the running workers, by name. Needs a key with the scope ``operator``."""
        return self._list(Worker, path("workers"))

    @operation
    def silent_processes(self) -> Steps[list[SilentProcess]]:
        """Return the processes that vanished without ending in order. Needs a key with the scope ``operator``."""
        answer = yield from self._request("GET", path("workers"))
        return entries(SilentProcess, answer.json(), path("workers"), "silent")

    @operation
    def dismiss_process(self, host: str, name: str) -> Steps[None]:
        """Forget a silent process that is not to come back. Needs a key with the scope ``operator``."""
        return self._delete(path("workers", host, name))
