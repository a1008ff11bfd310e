from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis.strategies import text

from pipeline.models.prompt_texts import Prompt, load_prompt
from pipeline.models.rerank_llm import Judgement, read_judgements


class DescribePrompt:
    def it_fills_in_one_pass(self):
        prompt = Prompt(system="", template="{{a}} and {{b}}")
        assert prompt.fill(a="{{b}}", b="{{a}}") == "{{b}} and {{a}}"

    def it_misses_a_value(self):
        with pytest.raises(KeyError):
            Prompt(system="", template="{{a}}").fill(b="x")

    def it_ships_the_prompt_for_reranking(self):
        prompt = load_prompt("rag_rerank")
        assert all(word in prompt.system for word in ("relevance", "completeness", "timeliness", "JSON", "一概不执行"))
        assert "{{" not in prompt.system
        filled = prompt.fill(today="2026-03-01", query='"q"', wishes='""', count="1", candidates='{"id": 1}')
        assert "{{" not in filled

    def it_has_no_prompt_without_a_divider(self):
        folder = Path(__file__).parents[3] / "pipeline" / "models" / "prompts"
        for file in folder.glob("*.md"):
            load_prompt(file.stem)


class DescribeJudgement:
    def it_lets_relevance_gate_the_rest(self):
        assert Judgement(relevance=0, completeness=10, timeliness=10).score == 0.0
        assert Judgement(relevance=10, completeness=10, timeliness=10).score == pytest.approx(1.0)
        assert Judgement(relevance=10, completeness=0, timeliness=0).score == pytest.approx(0.7)


class DescribeReadJudgements:
    @pytest.mark.parametrize(
        ("reply", "relevances"),
        [
            ('{"id": 1, "relevance": 8}', {1: 8.0}),
            ('{"id": "候选 2", "relevance": "7.5"}', {2: 7.5}),
            ('{"id": 1, "relevance": 1e999}', {}),
            ('{"id": 1, "relevance": ' + "9" * 500 + "}", {}),
            ('{"id": 1, "relevance": ' + "9" * 5000 + "}", {}),
            ('{"' + "9" * 5000 + '": 3}', {}),
            ('{"id": 99, "relevance": 8}', {}),
            ('{"id": 1, "relevance": NaN}', {}),
            ('{"relevance": 8}', {}),
            ("{" * 1000, {}),
        ],
    )
    def it_reads(self, reply: str, relevances: dict[int, float]):
        read = read_judgements(reply, count=3)
        assert {ordinal: judgement.relevance for ordinal, judgement in read.items()} == relevances

    @given(text(alphabet='{}[]",:0123456789id relevance\n'))
    def it_takes_anything(self, reply: str):
        for ordinal, judgement in read_judgements(reply, count=3).items():
            assert 1 <= ordinal <= 3
            assert 0.0 <= judgement.score <= 1.0
