"""Understand a query with a language model: one chat completion for each step."""

import json
from collections.abc import Callable
from typing import Final, TypeVar

from pipeline.deadline import Deadline
from pipeline.errors import RewriterUnavailable
from pipeline.models.prompt_texts import as_json, load_prompt
from pipeline.models.service_client import Counted, LanguageModel, ignore_tokens
from pipeline.privacy.redaction import redact
from pipeline.query.keywords import Background
from pipeline.query.model_replies import Rewritten, Routed, read_passage, read_rewrite, read_route, read_sub_queries

_LONGEST_QUERY: Final = 2_000  # characters; a longer one is understood by its beginning

Reply = TypeVar("Reply")


class Rewriter(LanguageModel):
    """Suggests other wordings of a query. Sends masked text only, the query as a JSON string inside a fence. Every step
    raises RewriterUnavailable without a usable reply within ``timeout_s``; ``counted`` gets the tokens of prompt and
    reply."""

    unavailable = busy = RewriterUnavailable

    def expand(
        self, query_text: str, *, most: int, timeout_s: float, counted: Counted = ignore_tokens
    ) -> tuple[str, ...]:
        """Return up to ``most`` sub-queries that ask the same in other terms; may be empty."""

        def read(reply: str) -> tuple[str, ...] | None:
            return read_sub_queries(reply, query_text=query_text, most=most)

        return self._ask("rag_expand", query_text, read, timeout_s=timeout_s, counted=counted, count=str(most))

    def rewrite(
        self,
        query_text: str,
        *,
        background: Background | None = None,
        timeout_s: float,
        counted: Counted = ignore_tokens,
    ) -> Rewritten:
        """Return the query rewritten so that it needs no ``background``, with its keywords and names."""
        context = background or Background()
        profile = json.dumps(context.profile, ensure_ascii=False) if context.profile else ""
        blanks = {
            "conversation": as_json([redact(message) for message in context.conversation]),
            "profile": as_json(redact(profile)[:_LONGEST_QUERY]),
        }
        return self._ask("rag_rewrite", query_text, read_rewrite, timeout_s=timeout_s, counted=counted, **blanks)

    def route(self, query_text: str, *, timeout_s: float, counted: Counted = ignore_tokens) -> Routed:
        """Return the search method for the query."""
        return self._ask("rag_route", query_text, read_route, timeout_s=timeout_s, counted=counted)

    def imagine(self, query_text: str, *, timeout_s: float, counted: Counted = ignore_tokens) -> str:
        """Return a passage that resembles an answer (HyDE)."""
        return self._ask("rag_hyde", query_text, read_passage, timeout_s=timeout_s, counted=counted)

    def _ask(
        self,
        prompt: str,
        query_text: str,
        read: Callable[[str], Reply | None],
        *,
        timeout_s: float,
        counted: Counted,
        **blanks: str,
    ) -> Reply:
        """Send a prompt and return what ``read`` parses from the reply. Raises RewriterUnavailable."""
        deadline = Deadline.after(min(timeout_s, self._timeout_s))
        messages = load_prompt(prompt).messages(query=as_json(redact(query_text)[:_LONGEST_QUERY]), **blanks)
        result = read(self._chat(messages, deadline, counted))
        if result is None:
            raise RewriterUnavailable("the language model answered with nothing that could be read")
        return result
