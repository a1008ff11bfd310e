"""``chordwise mcp``: the Model Context Protocol over standard input and output."""

import asyncio

from chordwise.config import discover


def mcp() -> None:
    """Serve agents over standard input and output with the tools of the gateway (docs/mcp.md).

    Agents start this command themselves; it runs until they close its input. Address and key as for every command.
    """
    from chordwise.agents.mcp_bridge import serve_stdio  # imports take half a second, for this command only

    server = discover()
    asyncio.run(serve_stdio(server.url, server.api_key))
