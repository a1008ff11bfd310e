"""``chordwise keys``: create, show, rotate and revoke API keys."""

from datetime import UTC, datetime, timedelta
from operator import itemgetter
from typing import Annotated

import typer
from typer import Argument, Option

from chordwise.api.keys import ApiKey
from chordwise.cli import screen, short_ids
from chordwise.client import Chordwise

keys = typer.Typer(
    help="API keys: list, create, show, rotate, revoke. Needs a key with the scope admin.", no_args_is_help=True
)

SCOPES = ("read", "write", "admin", "impersonate")

Id = Annotated[str, Argument(metavar="ID", help="The key's id: 16 digits, of which 8 suffice; not the key itself.")]
OfTenant = Annotated[
    str | None, Option("--tenant", help="Another tenant's keys; needs an operator's key. Default: your own.")
]


@keys.command("list")
def list_keys(
    tenant: OfTenant = None, all_: Annotated[bool, Option("--all", help="Also list ended keys.")] = False
) -> None:
    """Show the keys, without their secrets."""
    with _connect(tenant) as client:
        listed = [key for key in client.keys(tenant_id=tenant) if all_ or key.state == "active"]
    columns = ("id", "name", "scopes", "state", "last used", "ends")
    screen.print_list(listed, columns, lambda key: itemgetter(*columns)(_facts(key)), empty="No keys.")


@keys.command()
def create(
    name: Annotated[str, Argument(metavar="NAME", help="Its purpose, shown in the audit.")],
    scope: Annotated[
        list[str] | None, Option("--scope", "-s", help="read, write, admin or impersonate; repeatable. Default: read.")
    ] = None,
    expires: Annotated[str | None, Option("--expires", help="Lifetime, such as 90d, 12h.")] = None,
    principal: Annotated[
        list[str] | None,
        Option("--principal", help="A principal of its callers, such as group:hr; repeatable. * sees all documents."),
    ] = None,
    signs_tokens: Annotated[
        bool, Option("--signs-tokens", help="Also make a secret that signs tokens of principals.")
    ] = False,
    jwks_url: Annotated[
        str | None, Option("--jwks-url", help="The address of the public keys that verify tokens of principals.")
    ] = None,
    tenant: OfTenant = None,
) -> None:
    """Create a key and print it; it cannot be shown again."""
    scopes = tuple(dict.fromkeys(scope or ("read",)))
    if unknown := next((name for name in scopes if name not in SCOPES), None):
        raise typer.BadParameter(f"{unknown} is not one of {', '.join(SCOPES)}", param_hint="--scope")
    ends = None if expires is None else datetime.now(UTC) + timedelta(seconds=screen.span_s(expires, "--expires"))
    with _connect(tenant) as client:
        _print_secret(
            client.create_key(
                name,
                scopes=scopes,
                expires_at=ends,
                principals=principal or (),
                signs_tokens=signs_tokens,
                jwks_url=jwks_url,
                tenant_id=tenant,
            )
        )


@keys.command()
def show(
    key_id: Annotated[str | None, Argument(metavar="ID", help="Default: the key in use.")] = None,
    tenant: OfTenant = None,
) -> None:
    """Show one key, or the key in use."""
    with _connect(tenant) as client:
        if key_id is None:
            own = client.current_key()
            raw, facts = own.raw, {"tenant": own.tenant_id, "id": own.key_id, "name": own.name}
            facts["scopes"] = " ".join(own.scopes)
            facts["principals"] = " ".join(own.principals)
        else:
            key = client.key(short_ids.key(client, key_id, tenant), tenant_id=tenant)
            raw, facts = key.raw, _facts(key)
    if screen.as_json():
        screen.print_json(raw)
    else:
        for name, value in facts.items():
            screen.say(f"{name:<10} {screen.clean(value)}")


@keys.command()
def rotate(
    key_id: Id,
    overlap: Annotated[
        str | None, Option("--overlap", help="How long the old key still works, such as 1h. Default: a day.")
    ] = None,
    tenant: OfTenant = None,
) -> None:
    """Replace a key and print the new one; the old one works until the overlap ends."""
    seconds = None if overlap is None else screen.span_s(overlap, "--overlap")
    with _connect(tenant) as client:
        _print_secret(
            client.rotate_key(short_ids.key(client, key_id, tenant), overlap_seconds=seconds, tenant_id=tenant)
        )


@keys.command()
def revoke(key_id: Id, tenant: OfTenant = None) -> None:
    """Revoke a key: every gateway refuses it within three seconds."""
    with _connect(tenant) as client:
        client.revoke_key(short_ids.key(client, key_id, tenant), tenant_id=tenant)
    screen.report({"key_id": key_id, "revoked": True}, "revoked")


def _connect(tenant: str | None) -> Chordwise:
    """Return a client with the operator's key for another tenant's keys, else with the caller's own."""
    return screen.connect() if tenant is None else screen.connect_as_operator()


def _facts(key: ApiKey) -> dict[str, str]:
    return {
        "id": key.key_id,
        "name": key.name,
        "scopes": " ".join(key.scopes),
        "state": key.state,
        "made": screen.moment(key.created_at),
        "last used": screen.moment(key.last_used_at, "never"),
        "ends": screen.moment(key.expires_at, "never"),
        "principals": " ".join(key.principals),
        "rotated to": key.replaced_by or "",
    }


def _print_secret(key: ApiKey) -> None:
    signing = {"token secret": key.token_secret} if key.token_secret else {}
    screen.print_fields(key, {"id": key.key_id, "key": key.api_key, **signing})
