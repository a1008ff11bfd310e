"""``chordwise mcp``: the Model Context Protocol over standard input and output."""

from __future__ import annotations

import asyncio

from chordwise.cli import screen


def mcp() -> None:
    """Serve agents over standard input and output with the tools of the gateway (docs/mcp.md).

    Agents start this command themselves; it goes on until they close its input. Address and key as for every command.
    """
    from chordwise.agents.mcp_bridge import serve_stdio  # half a second of imports that no other command needs

    known = screen.connection()
    asyncio.run(serve_stdio(known.url, known.api_key))
