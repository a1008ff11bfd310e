"""A provider of OpenID Connect: the address at which a person signs in, and the verified claims behind its code.

Its description and its keys are read at every sign-on, so that new keys are known at once.
"""

import asyncio
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from typing import Any, Final

import httpx2
import jwt
from authlib.integrations.base_client import OAuthError
from authlib.integrations.httpx_client import AsyncOAuth2Client

from pipeline.setting_values import SignOn, is_protected

_TOTAL_S: Final = 10.0  # of all calls for one request
_AT_ONCE: Final = 8  # requests that wait for the provider
_CLOCKS_APART_S: Final = 60
_ALGORITHMS: Final = ("RS256", "RS384", "RS512", "PS256", "PS384", "PS512", "ES256", "ES384", "ES512", "EdDSA")


class SignOnFailed(Exception):
    """A person cannot be signed on. ``reason``: a message of the console; ``detail``: for the log, without secrets."""

    def __init__(self, reason: str, detail: str = "") -> None:
        super().__init__(reason)
        self.reason = reason
        self.detail = detail


class ProviderClient:
    """Calls the provider of an installation, on one event loop. Every method raises SignOnFailed."""

    def __init__(self, sign_on: SignOn) -> None:
        self._sign_on = sign_on
        self._turns = asyncio.Semaphore(_AT_ONCE)
        self.redirect_uri = f"{sign_on.url}/console/sign-on/callback"

    async def address(self, *, state: str, nonce: str, verifier: str) -> str:
        """Return the address at which a person signs in. ``verifier``: the secret of PKCE, whose digest is sent."""
        async with self._calls() as client:
            endpoint = _endpoint(await self._description(client), "authorization_endpoint")
            address, _ = client.create_authorization_url(endpoint, state=state, nonce=nonce, code_verifier=verifier)
        return str(address)

    async def claims(self, code: str, *, nonce: str, verifier: str) -> Mapping[str, Any]:
        """Exchange a code for the claims of its ID token: signed by the provider, for us, for this sign-on, and valid now."""
        async with self._calls() as client:
            description = await self._description(client)
            offered = description.get("token_endpoint_auth_methods_supported", ["client_secret_basic"])
            if "client_secret_basic" not in offered:
                client.token_endpoint_auth_method = "client_secret_post"
            token = await client.fetch_token(
                _endpoint(description, "token_endpoint"),
                grant_type="authorization_code",
                code=code,
                code_verifier=verifier,
            )
            keys = await self._read(client, _endpoint(description, "jwks_uri"))
            return self._verified(str(token.get("id_token", "")), keys, nonce)

    async def end_address(self) -> str | None:
        """Return the address at which a person signs out, None if the provider has none or is away."""
        try:
            async with self._calls() as client:
                description = await self._description(client)
                if "end_session_endpoint" not in description:
                    return None
                endpoint = _endpoint(description, "end_session_endpoint")
        except SignOnFailed:
            return None
        back = {"client_id": self._sign_on.client_id, "post_logout_redirect_uri": f"{self._sign_on.url}/console/"}
        return str(httpx2.URL(endpoint).copy_merge_params(back))

    @asynccontextmanager
    async def _calls(self) -> AsyncIterator[Any]:
        """Yield a client for the calls of one request, within their time. Translates errors."""
        use = self._sign_on
        try:
            async with (
                asyncio.timeout(_TOTAL_S),
                self._turns,
                AsyncOAuth2Client(
                    use.client_id,
                    use.client_secret.get_secret_value(),
                    scope=use.scope,
                    redirect_uri=self.redirect_uri,
                    code_challenge_method="S256",
                    timeout=_TOTAL_S,
                ) as client,
            ):
                yield client
        except OAuthError as error:
            raise SignOnFailed("refused", str(error.error)[:64]) from None
        except (TimeoutError, httpx2.HTTPError, httpx2.InvalidURL, ValueError) as error:
            raise SignOnFailed("provider_away", type(error).__name__) from None

    async def _description(self, client: Any) -> dict[str, Any]:
        issuer = self._sign_on.issuer
        description = await self._read(client, f"{issuer.rstrip('/')}/.well-known/openid-configuration")
        if description.get("issuer") != issuer:
            raise SignOnFailed("provider_away", "the provider names another issuer than CHORDWISE_OIDC")
        return description

    async def _read(self, client: Any, url: str) -> dict[str, Any]:
        """Return the JSON object at an address. Raises HTTPError and ValueError."""
        answer = await client.request("GET", url, withhold_token=True)
        answer.raise_for_status()
        value = answer.json()
        if not isinstance(value, dict):
            raise ValueError("no JSON object")
        return value

    def _verified(self, token: str, keys: dict[str, Any], nonce: str) -> Mapping[str, Any]:
        try:
            claims: dict[str, Any] = jwt.decode(
                token,
                _key_of(token, keys),
                algorithms=_ALGORITHMS,
                audience=self._sign_on.client_id,
                issuer=self._sign_on.issuer,
                leeway=_CLOCKS_APART_S,
                options={"require": ["iss", "sub", "aud", "exp", "iat", "nonce"]},
            )
        except (jwt.PyJWTError, KeyError, TypeError) as error:
            raise SignOnFailed("not_valid", type(error).__name__) from None
        if claims["nonce"] != nonce or claims.get("azp", self._sign_on.client_id) != self._sign_on.client_id:
            raise SignOnFailed("not_valid", "the token is of another sign-on, or for another client")
        return claims


def _key_of(token: str, keys: dict[str, Any]) -> jwt.PyJWK:
    """Return the provider's key that a token names; the only one if it names none. Raises PyJWTError and KeyError."""
    named = jwt.get_unverified_header(token).get("kid")
    usable = [key for key in jwt.PyJWKSet.from_dict(keys).keys if key.public_key_use in (None, "sig")]
    found = [key for key in usable if named in (None, key.key_id)]
    if len(found) != 1:
        raise KeyError("kid")
    return found[0]


def _endpoint(description: Mapping[str, Any], name: str) -> str:
    """Return an address of the provider's description."""
    address = description.get(name)
    if not isinstance(address, str) or not is_protected(address):
        raise SignOnFailed("provider_away", f"its description has no usable {name}")
    return address
