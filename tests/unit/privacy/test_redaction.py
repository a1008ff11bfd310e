from __future__ import annotations

import time

import pytest
from hypothesis import given
from hypothesis.strategies import integers, lists, sampled_from, text

from pipeline.privacy.redaction import is_identity_number, is_luhn, redact

FRAGMENTS = [
    "a@b.com", "13812345678", "+86 138-1234-5678", "4111111111111111", "6222 0212 3456 7894", "11010519491231002X",
    "+1 (415) 555-2671", "010-12345678", "12", "1", "-", " ", "+", "@", ".", "(", ")", "x", "电话", "a", "86",
]  # fmt: skip


class DescribeRedact:
    @pytest.mark.parametrize(
        ("before", "after"),
        [
            ("写信给li.lei+work@mail.example.com。", "写信给[email]。"),
            ("A.B@x.co, c@y.org.", "[email], [email]."),
            ("电话13812345678，或 138 1234 5678", "电话[phone]，或 [phone]"),
            ("+8613812345678 / 0086-138-1234-5678", "[phone] / [phone]"),
            ("call +1 (415) 555-2671 or +44 20 7946 0958", "call [phone] or [phone]"),
            ("座机 010-12345678", "座机 [phone]"),
            ("身份证 11010519491231002X 号", "身份证 [id-card] 号"),
            ("身份证11010519491231002x。110105 19491231 002X", "身份证[id-card]。[id-card]"),
            ("卡号4111111111111111", "卡号[bank-card]"),
            ("6222 0212 3456 7894", "[bank-card]"),
            ("3782-822463-10005", "[bank-card]"),
        ],
    )
    def it_masks(self, before: str, after: str):
        assert redact(before) == after

    @pytest.mark.parametrize(
        "text",
        [
            "4111111111111112",  # fails its check digit
            "110105194912310021",  # so does this
            "110105194913310020",  # no thirteenth month
            "PPR-13812345678A",  # part of a code
            "SN4111111111111111",
            "1767225600000",  # milliseconds
            "12345678901",  # no such mobile prefix
            "2026-03-01 12:30:45",
            "1.234.567,89 + 10 = 3.14159265358979",
            "user@localhost, @mention, a@b",
            "f4111111111111111f",
            "",
        ],
    )
    def it_leaves_alone(self, text: str):
        assert redact(text) == text

    @pytest.mark.parametrize(
        ("text", "redacted"),
        [
            ("6222 0212 3456 7894 010-12345678", "[bank-card] [phone]"),
            ("2000 6222 0212 3456 7894", "2000 [bank-card]"),
            ("卡号6222-0212-3456-7894-12，", "卡号[bank-card]-12，"),
            ("6222 0212 3456 7895 011", "6222 0212 3456 7895 011"),
        ],
    )
    def it_finds_a_number_beside_other_digits(self, text: str, redacted: str):
        assert redact(text) == redacted

    @given(text())
    def it_changes_nothing_in_a_text_without_digits_and_addresses(self, text: str):
        harmless = "".join(character for character in text if not character.isdigit() and character != "@")
        assert redact(harmless) == harmless

    @given(lists(sampled_from(FRAGMENTS), max_size=12))
    def it_is_finished_after_once(self, fragments: list[str]):
        once = redact("".join(fragments))
        assert redact(once) == once

    @given(integers(min_value=10**8, max_value=10**9 - 1), sampled_from(["", "tel:", "电话", "（", " "]))
    def it_masks_every_mobile_number(self, digits: int, before: str):
        assert redact(f"{before}13{digits}。") == f"{before}[phone]。"

    @pytest.mark.timeout(20)
    @pytest.mark.parametrize("piece", ["1", "1 ", "a@", "a.", "+1", "+1 ", "4111 ", "a@b.", "x" * 50 + "@", "138-"])
    def it_takes_time_in_proportion_to_the_text(self, piece: str):
        text = piece * (200_000 // len(piece))
        started = time.perf_counter()
        redact(text)
        assert time.perf_counter() - started < 2.0


class DescribeCheckDigits:
    @given(integers(min_value=10**11, max_value=10**17))
    def it_accepts_exactly_one_last_digit_of_a_card(self, number: int):
        assert sum(is_luhn(f"{number}{last}") for last in range(10)) == 1

    @given(integers(min_value=0, max_value=999))
    def it_accepts_exactly_one_last_character_of_an_identity_number(self, sequence: int):
        assert sum(is_identity_number(f"11010519491231{sequence:03d}{last}") for last in "0123456789X") == 1
