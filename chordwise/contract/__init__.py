"""One description of each resource: server, client, command line, tools of agents and the JavaScript types follow it.

Frozen dataclasses without further imports. pydantic reads the limits and descriptions in a field's ``metadata``.
"""
