"""Hits without personal data: what is masked, what is kept, and that kinds can be chosen."""

from __future__ import annotations

import pytest

from pipeline.answer.mask_answers import masked, masked_texts
from pipeline.privacy.redaction import MaskedKind, redact
from pipeline.ranking.hits import Hydrated

PHONE, CARD = "13812345678", "4111111111111111"


def hit(**fields: object) -> Hydrated:
    given = {
        "chunk_id": "c1",
        "document_id": "d-13812345678",
        "namespace": "kb",
        "title": f"Call {PHONE}",
        "text": f"{PHONE} or li@example.com",
        "heading_path": (f"§ {PHONE}",),
        "published_at": None,
        "source_uri": f"crm://card/{PHONE}",
        "metadata": {
            "author": "li@example.com",
            "amount": 13812345678,
            "deep": [{"note": f"card {CARD}"}],
            "parent_id": "5f0c3f0e-6d5b-8b0e-9f57-2a4f9c1d7e10",
        },
        "parent_id": "5f0c3f0e-6d5b-8b0e-9f57-2a4f9c1d7e10",
        **fields,
    }
    return Hydrated(**given)  # type: ignore[arg-type]


class DescribeMasked:
    def it_masks_text_title_headings_and_metadata_at_any_depth(self):
        found = masked(hit())
        assert found.text == "[phone] or [email]"
        assert found.title == "Call [phone]"
        assert found.heading_path == ("§ [phone]",)
        assert found.source_uri == "crm://card/[phone]"
        assert found.metadata == {
            "author": "[email]",
            "amount": 13812345678,
            "deep": [{"note": "card [bank-card]"}],
            "parent_id": "5f0c3f0e-6d5b-8b0e-9f57-2a4f9c1d7e10",
        }

    def it_leaves_ids_so_that_the_hit_can_be_fetched(self):
        found = masked(hit())
        assert (found.chunk_id, found.document_id, found.namespace) == ("c1", "d-13812345678", "kb")

    def it_masks_only_the_kinds_that_are_wanted(self):
        found = masked(hit(), kinds=[MaskedKind.EMAIL])
        assert found.text == f"{PHONE} or [email]"

    def it_changes_nothing_of_what_it_was_given(self):
        before = hit()
        masked(before)
        assert before == hit()

    def it_takes_a_hit_without_a_title(self):
        assert masked(hit(title=None)).title is None

    def it_masks_what_is_read_with_hits(self):
        assert masked_texts({"c1": f"before {PHONE} after"}) == {"c1": "before [phone] after"}


class DescribeHardCases:
    @pytest.mark.parametrize(
        ("before", "after"),
        [
            ("１３８１２３４５６７８", "[phone]"),  # full-width
            ("＋８６－１３８－１２３４－５６７８", "[phone]"),
            ("138\u20111234\u20115678", "[phone]"),  # non-breaking hyphens
            ("138\u00a01234\u00a05678", "[phone]"),  # non-breaking spaces
            ("138-1234 5678", "[phone]"),
            ("138 12345678", "[phone]"),
            ("138.1234.5678", "[phone]"),
            ("86 138 1234 5678", "[phone]"),
            ("（010）12345678", "[phone]"),
            ("010 12345678", "[phone]"),
            ("zhang＠example．com", "[email]"),
            ("110105 1949 1231 002X", "[id-card]"),
            ("１１０１０５１９４９１２３１００２Ｘ", "[id-card]"),
            ("110105491231002", "[id-card]"),  # 15 digits, before 1999
            ("６２２２　０２１２　３４５６　７８９４", "[bank-card]"),
            ("姓名:李雷,电话:13812345678,卡:4111111111111111。", "姓名:李雷,电话:[phone],卡:[bank-card]。"),
        ],
    )
    def it_masks(self, before: str, after: str):
        assert redact(before) == after

    @pytest.mark.parametrize(
        "text",
        [
            "A13812345678",  # inside a code
            "13812345678X",
            "id_13812345678",
            "ＳＮ４１１１１１１１１１１１１１１１",  # a code in full width
            "138.12345678",  # a longitude
            "000105491231002",  # 15 digits, no such province
            "110105491331002",  # no thirteenth month
            "6222021234567895",  # a card's length, a wrong check digit
            "2026-03-01 12:30:45.123456",
            "10.138.1234.5678",  # no address either, and no phone number alone
            "第１章　第２節",
        ],
    )
    def it_leaves_alone(self, text: str):
        assert redact(text) == text

    def it_keeps_what_is_around_as_it_was_written(self):
        assert redact("（电话）１３８１２３４５６７８ｅｘｔ　１２") == "（电话）１３８１２３４５６７８ｅｘｔ　１２"
        assert redact("（电话）１３８１２３４５６７８　ｅｘｔ") == "（电话）[phone]　ｅｘｔ"

    @pytest.mark.parametrize("kind", list(MaskedKind))
    def it_masks_one_kind_alone(self, kind: MaskedKind):
        text = "a@b.com 11010519491231002X 4111111111111111 13812345678"
        found = redact(text, kinds=[kind])
        assert [label for label in MaskedKind if f"[{label}]" in found] == [kind]
        assert redact(text, kinds=[]) == text
