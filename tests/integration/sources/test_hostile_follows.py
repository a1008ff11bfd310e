"""Requests to follow a source that would give a secret away, or end in an error of the server."""

from __future__ import annotations

import pytest
from pydantic import SecretStr

from pipeline.outbound.post_client import NotAllowed
from tests.support.stacks.connections import sharing

pytestmark = pytest.mark.own_databases
KEYS = {"key": "testing", "secret": "testing-secret"}


class DescribeASecret:
    def it_is_not_sent_to_another_server(self, follower):
        permitted = follower.corner.use
        networks = permitted.settings.fetch_allow_networks
        key = SecretStr("a key of this installation")
        follower.corner.use = sharing(permitted, secret_key=key, fetch_allow_networks=networks)
        follower.follow("s3://company/handbook", secret=KEYS)
        with pytest.raises(NotAllowed, match="must be given again"):
            follower.follow("webdav://127.0.0.1/docs")
        assert follower.source().url == "s3://company/handbook"

    @pytest.mark.parametrize("endpoint", ["http://[x", "https://example.com:99999", "file:///etc"])
    def it_has_an_endpoint_that_is_an_address(self, follower, endpoint):
        with pytest.raises(NotAllowed, match="endpoint_url"):
            follower.follow("s3://company/handbook", secret={**KEYS, "endpoint_url": endpoint})
