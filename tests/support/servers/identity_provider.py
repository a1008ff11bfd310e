"""A provider of OpenID Connect on a loopback port: `oidc-provider-mock`, with PKCE, keys of its own, and faults on demand.

``PUT /control`` sets ``claims`` (put into every ID token; null removes one), ``forged`` (sign with a key that the provider
does not publish), ``kid`` (another key from now on), ``away`` (answer 503) and ``silent_s`` (answer late).
"""

from __future__ import annotations

import base64
import hashlib
import io
import json
import sys
import time
import warnings
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlsplit

import httpx

from tests.support.stacks.processes import free_port, process, wait_for_http


class Provider:
    """A running provider. ``url`` is its issuer."""

    def __init__(self, url: str) -> None:
        self.url = url

    def control(self, **changes: Any) -> None:
        """Change how it answers from now on."""
        httpx.put(f"{self.url}/control", json=changes).raise_for_status()

    def has_person(self, sub: str, **claims: Any) -> None:
        """Give it a person."""
        httpx.put(f"{self.url}/users/{sub}", json=claims).raise_for_status()


@contextmanager
def identity_provider(log: Path) -> Iterator[Provider]:
    """Run a provider while the block runs."""
    port = free_port()
    with process(
        "tests.support.servers.identity_provider",
        str(port),
        log=log,
        AUTHLIB_INSECURE_TRANSPORT="1",
        PYTHONWARNINGS="ignore",
    ):
        wait_for_http(f"http://127.0.0.1:{port}/.well-known/openid-configuration")
        yield Provider(f"http://127.0.0.1:{port}")


class _Front:
    """Passes requests to the provider, and signs its ID tokens anew."""

    def __init__(self, inner: Callable[..., Iterable[bytes]]) -> None:
        import jwt
        from cryptography.hazmat.primitives.asymmetric import rsa

        self._jwt = jwt
        self._inner = inner
        self._new_key = lambda: rsa.generate_private_key(public_exponent=65537, key_size=2048)
        self._keys = {"first": self._new_key()}
        self._state: dict[str, Any] = {"claims": {}, "forged": False, "kid": "first", "away": False, "silent_s": 0}
        self._challenges: dict[str, str] = {}

    def __call__(self, environ: dict[str, Any], start_response: Callable[..., Any]) -> Iterable[bytes]:
        path = environ["PATH_INFO"]
        body = environ["wsgi.input"].read(int(environ.get("CONTENT_LENGTH") or 0))
        environ["wsgi.input"] = io.BytesIO(body)
        if path == "/control":
            self._state |= json.loads(body)
            self._keys.setdefault(self._state["kid"], self._new_key())
            return _answer(start_response, "200 OK", {})
        time.sleep(self._state["silent_s"])
        if self._state["away"]:
            return _answer(start_response, "503 Service Unavailable", {})
        if path == "/jwks":
            return _answer(start_response, "200 OK", {"keys": [self._public(self._state["kid"])]})
        if path == "/oauth2/token" and not self._proves(parse_qs(body.decode())):
            return _answer(start_response, "400 Bad Request", {"error": "invalid_grant"})
        status, headers, content = self._pass_on(environ)
        if path == "/oauth2/authorize" and (location := headers.get("Location")):
            code = parse_qs(urlsplit(location).query).get("code", [""])[0]
            self._challenges[code] = parse_qs(environ["QUERY_STRING"]).get("code_challenge", [""])[0]
        if path == "/oauth2/token" and status.startswith("200"):
            answer = json.loads(content)
            answer["id_token"] = self._signed(answer["id_token"])
            return _answer(start_response, status, answer)
        start_response(status, [(name, value) for name, value in headers.items() if name != "Content-Length"])
        return [content]

    def _proves(self, form: dict[str, list[str]]) -> bool:
        digest = hashlib.sha256(form.get("code_verifier", [""])[0].encode()).digest()
        expected = self._challenges.get(form.get("code", [""])[0])
        return base64.urlsafe_b64encode(digest).decode().rstrip("=") == expected

    def _signed(self, token: str) -> str:
        claims = self._jwt.decode(token, options={"verify_signature": False}) | self._state["claims"]
        claims = {name: value for name, value in claims.items() if value is not None}
        key = self._new_key() if self._state["forged"] else self._keys[self._state["kid"]]
        return str(self._jwt.encode(claims, key, algorithm="RS256", headers={"kid": self._state["kid"]}))

    def _public(self, kid: str) -> dict[str, Any]:
        described = self._jwt.algorithms.RSAAlgorithm.to_jwk(self._keys[kid].public_key(), as_dict=True)
        return {**described, "kid": kid, "use": "sig"}

    def _pass_on(self, environ: dict[str, Any]) -> tuple[str, dict[str, str], bytes]:
        head: list[Any] = []
        content = b"".join(self._inner(environ, lambda status, headers, *_: head.extend((status, dict(headers)))))
        return head[0], head[1], content


def _answer(start_response: Callable[..., Any], status: str, value: dict[str, Any]) -> Iterable[bytes]:
    start_response(status, [("Content-Type", "application/json")])
    return [json.dumps(value).encode()]


def main() -> None:
    """Serve on the port that the command names, until ended."""
    warnings.simplefilter("ignore")
    import oidc_provider_mock
    from werkzeug.serving import run_simple

    run_simple("127.0.0.1", int(sys.argv[1]), _Front(oidc_provider_mock.app(require_nonce=True)), threaded=True)


if __name__ == "__main__":
    main()
