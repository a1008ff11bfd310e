"""The list of MCP tools: the same for everybody who may do the same, and schemas that are schemas."""

from __future__ import annotations

import jsonschema
import pytest

from api_gateway.dialects.mcp.server import TOOLS, listed
from pipeline.errors import Misconfigured
from pipeline.settings import load


class DescribeTheTools:
    def it_lists_them_by_what_a_key_may_do(self):
        assert [tool.name for tool in listed({"read"})] == ["search", "fetch", "list_namespaces", "explain"]
        assert [tool.name for tool in listed({"write", "read"})] == [entry.name for entry in TOOLS.values()]
        assert listed(set()) == []

    @pytest.mark.parametrize("tool", listed({"read", "write"}), ids=lambda tool: tool.name)
    def it_describes_what_they_take_and_give(self, tool):
        for schema in (tool.input_schema, tool.output_schema):
            jsonschema.Draft202012Validator.check_schema(schema)
            assert schema["type"] == "object"
        assert tool.input_schema["additionalProperties"] is False
        assert tool.annotations.read_only_hint is (tool.name != "ingest")


class DescribeAllowedOrigins:
    @pytest.mark.parametrize("given", ["https://a.example.com, http://localhost:6274", '["https://a.example.com"]'])
    def it_takes_origins(self, given):
        assert load({"mcp_allowed_origins": given}).mcp_allowed_origins[0] == "https://a.example.com"

    @pytest.mark.parametrize("given", ["*", "a.example.com", "https://a.example.com/", "https://a b"])
    def it_refuses_what_no_browser_sends(self, given):
        with pytest.raises(Misconfigured, match="CHORDWISE_MCP_ALLOWED_ORIGINS"):
            load({"mcp_allowed_origins": given})
