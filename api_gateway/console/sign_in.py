"""Sign in on this machine with a one-time code: exchange the code for the key that the local stack left behind it."""

import hashlib
import re
import time
from ipaddress import ip_address
from pathlib import Path
from typing import ClassVar, Final

import structlog
from fastapi import APIRouter, Request, Response
from pydantic import Field

from api_gateway.gateway import gateway_of
from api_gateway.http.fields import Wire
from api_gateway.http.problems import Problem, instance_of
from api_gateway.http.responses import json_response
from api_gateway.resources.route_parts import read_shape
from pipeline.local_stack import sign_in_folder

router = APIRouter(include_in_schema=False)

log = structlog.get_logger(__name__)

GOOD_FOR_S: Final = 600.0
_LOOPBACK_HOST: Final = re.compile(r"(127\.0\.0\.1|localhost|\[::1\])(:\d{1,5})?")
# Headers that a proxy adds. A request with one of them comes from elsewhere, whatever its peer is.
_OF_PROXIES: Final = ("forwarded", "via", "x-forwarded-for", "x-forwarded-host", "x-forwarded-proto", "x-real-ip")


class SignInCode(Wire):
    """The code of the link that `make up` prints."""

    most_bytes: ClassVar = 1024

    code: str = Field(min_length=20, max_length=100)


@router.post("/console/sign-in")
async def sign_in(request: Request) -> Response:
    """Return the key of a code, once.

    Raises Problem 403 for a request from anywhere but a page of this gateway on this machine; 404 outside the local stack,
    and for a code that is unknown, used or older than ten minutes."""
    gateway = gateway_of(request)
    folder = sign_in_folder()
    if folder is None:
        raise Problem(404, "route_not_found", f"Nothing exists at {instance_of(request.scope)}.")
    if not is_from_here(request):
        log.warning("sign_in_refused", client=request.client.host if request.client else None)
        raise Problem(403, "sign_in_refused", "A sign-in link works only in a browser on the gateway's own machine.")
    sent = await read_shape(request, SignInCode)
    key = await gateway.run(claim, folder, sent.code)
    if key is None:
        raise Problem(404, "sign_in_code_unknown", "The sign-in link was used before, or it is older than ten minutes.")
    return json_response({"api_key": key}, headers={"Cache-Control": "no-store"})


def is_from_here(request: Request) -> bool:
    """Return whether a page that this gateway served under a loopback name sent the request, from this machine and
    without a proxy. The check of `Host` refuses DNS rebinding, that of `Origin` other sites."""
    headers = request.headers
    host = headers.get("host", "")
    peer = request.client.host if request.client else ""
    return (
        _is_loopback(peer)
        and _LOOPBACK_HOST.fullmatch(host) is not None
        and headers.get("origin") == f"http://{host}"
        and not any(name in headers for name in _OF_PROXIES)
    )


def claim(folder: Path, code: str, *, now: float | None = None) -> str | None:
    """Return the key behind a code and delete it; None for a code that is unknown, used or too old. Blocking. Of
    several concurrent claims one succeeds, because one alone deletes the file."""
    file = folder / hashlib.sha256(code.encode("utf-8", "surrogatepass")).hexdigest()
    try:
        age_s = (time.time() if now is None else now) - file.stat().st_mtime
        key = file.read_text(encoding="ascii")
        file.unlink()
    except FileNotFoundError:
        return None
    return key if -GOOD_FOR_S < age_s < GOOD_FOR_S else None


def _is_loopback(address: str) -> bool:
    try:
        return ip_address(address).is_loopback
    except ValueError:
        return False
