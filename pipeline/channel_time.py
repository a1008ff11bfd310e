"""The range of a channel's time limit, for settings, profiles, queries and API sources."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field

# Milliseconds, including retries. Only query understanding and reranking may take longer.
ChannelTime = Annotated[int, Field(ge=100, le=2000)]
