"""Bound what this process may connect to, whatever library connects: an audit hook sees every connection of Python."""

import socket
import sys
from collections.abc import Sequence
from typing import Any

from pipeline.outbound.addresses import Network, may_connect

refused: list[str] = []  # the addresses that were refused


class ConnectionRefusedHere(PermissionError):
    """This installation does not connect to the address."""


def allow_only(permitted: Sequence[Network]) -> None:
    """Let this process connect to public addresses and to ``permitted`` networks alone, until it ends. Names have to be
    looked up before, so that the address that was checked is the one that is used."""

    def watch(event: str, arguments: tuple[Any, ...]) -> None:
        if event not in ("socket.connect", "socket.sendto", "socket.sendmsg"):
            return
        address = arguments[1]
        if address is None:  # over a connection that was checked
            return
        host = address[0] if isinstance(address, tuple) and address else ""
        if not may_connect(str(host).partition("%")[0], permitted=permitted):
            refused.append(str(host))
            raise ConnectionRefusedHere("this installation does not connect to this address")

    sys.addaudithook(watch)


def addresses_of(host: str, port: int, permitted: Sequence[Network]) -> list[str]:
    """Return the addresses of a host, for a program that makes its connections itself. Raises ConnectionRefusedHere if
    any of them may not be used, or if there is none."""
    try:
        entries = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)
    except (OSError, UnicodeError):
        entries = []
    addresses = list(dict.fromkeys(str(entry[4][0]) for entry in entries))
    if not addresses or not all(may_connect(address, permitted=permitted) for address in addresses):
        refused.append(host)
        raise ConnectionRefusedHere("this installation does not connect to this address")
    return addresses
