"""Signatures of webhooks, and the delays of repeated calls."""

from __future__ import annotations

import base64
import re

import pytest

from pipeline.database.encryption import SecretCipher
from pipeline.errors import Misconfigured
from pipeline.outbound.post_client import NotAllowed, checked_url, resolve
from pipeline.settings import SecretStr, load
from pipeline.webhooks.endpoint import Event
from pipeline.webhooks.standard_webhooks import DELAYS_S, attempts_allowed, judge, secret_text, signatures


class DescribeSignatures:
    def it_signs_as_the_specification_does_in_its_example(self):
        # The example of the Standard Webhooks reference implementations.
        secret = base64.b64decode("MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw")
        body = b'{"test": 2432232314}'
        made = signatures([secret], message_id="msg_p5jXN8AQM9LWM0D4loKWxJek", timestamp=1614265330, body=body)
        assert made == "v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE="

    def it_signs_with_every_secret_that_is_valid(self):
        old, new = (signatures([secret], message_id="m", timestamp=1, body=b"{}") for secret in (b"old", b"new"))
        assert signatures([b"new", b"old"], message_id="m", timestamp=1, body=b"{}") == f"{new} {old}"

    def it_tells_a_secret_in_the_usual_form(self):
        assert secret_text(b"\x00\x01\x02") == "whsec_AAEC"


class DescribeVerdicts:
    @pytest.mark.parametrize("status", [200, 201, 204, 299])
    def it_takes_any_2xx_for_delivered(self, status):
        assert judge(Event.FAILED, attempts=1, status=status).delivered

    @pytest.mark.parametrize("status", [None, 199, 302, 400, 404, 429, 500])
    def it_repeats_everything_else(self, status):
        verdict = judge(Event.FAILED, attempts=1, status=status)
        assert (verdict.delivered, verdict.delay_s) == (False, 5)

    def it_repeats_ever_more_seldom_and_then_no_more(self):
        delays = [judge(Event.FAILED, attempts=n, status=500).delay_s for n in range(1, attempts_allowed(Event.FAILED))]
        assert delays == list(DELAYS_S) == sorted(DELAYS_S)
        assert 2 < sum(DELAYS_S) / 86_400 < 4
        assert judge(Event.FAILED, attempts=10, status=500).delay_s is None

    def it_spreads_the_repetitions(self):
        assert judge(Event.FAILED, attempts=2, status=500, chance=1.0).delay_s == pytest.approx(330)

    def it_waits_as_long_as_it_is_asked_to_within_an_hour(self):
        assert judge(Event.FAILED, attempts=1, status=503, retry_after_s=120).delay_s == 120
        assert judge(Event.FAILED, attempts=2, status=503, retry_after_s=120).delay_s == 300
        assert judge(Event.FAILED, attempts=1, status=429, retry_after_s=1e9).delay_s == 3600

    def it_never_calls_again_where_all_is_gone(self):
        verdict = judge(Event.FAILED, attempts=1, status=410)
        assert (verdict.gone, verdict.delay_s) == (True, None)

    def it_tries_a_test_once(self):
        assert judge(Event.TEST, attempts=1, status=500).delay_s is None


class DescribeTargets:
    @pytest.mark.parametrize(
        "url",
        [
            "",
            "x",
            "ftp://example.com/",
            "file:///etc/passwd",
            "http://",
            "https://user:pw@example.com/",
            "http://example.com/#f",
            "http://exa mple.com/",
            "http://example.com/a b",
            "//example.com",
            "http://[::1",
        ],
    )
    def it_takes_no_url_that_is_odd(self, url):
        with pytest.raises(NotAllowed) as refused:
            checked_url(url)
        assert refused.value.code == "invalid_url"
        assert re.match(r"The URL (is|must) .+\.$", refused.value.sentence)

    @pytest.mark.parametrize(
        "url",
        [
            "http://127.0.0.1/",
            "http://2130706433/",
            "http://0x7f.1/",
            "http://[::1]/",
            "http://[::ffff:10.0.0.1]:80/",
            "http://169.254.169.254/latest/",
            "https://0.0.0.0/",
            "http://10.0.0.1:8080/",
        ],
    )
    def it_finds_what_leads_inside_however_it_is_written(self, url):
        with pytest.raises(NotAllowed) as refused:
            resolve(checked_url(url), permitted=())
        assert refused.value.code == "address_not_allowed"

    def it_goes_where_the_operator_permits(self):
        permitted = load({"webhook_allow_private": "127.0.0.0/8"}).webhook_allow_private
        assert resolve(checked_url("http://127.0.0.1:9/"), permitted=permitted) == ["127.0.0.1"]

    def it_names_the_setting_that_is_wrong(self):
        with pytest.raises(Misconfigured, match="CHORDWISE_WEBHOOK_ALLOW_PRIVATE: home is not a network"):
            load({"webhook_allow_private": "home"})


class DescribeEncryption:
    def it_decrypts_what_it_encrypted_for_the_same_row_only(self):
        cipher = SecretCipher(SecretStr("key"))
        encrypted = cipher.encrypt(b"secret", belongs_to="a")
        assert b"secret" not in encrypted
        assert cipher.decrypt(encrypted, belongs_to="a") == b"secret"
        for other, row in ((cipher, "b"), (SecretCipher(SecretStr("another")), "a"), (SecretCipher(None), "a")):
            with pytest.raises(Misconfigured, match="CHORDWISE_SECRET_KEY"):
                other.decrypt(encrypted, belongs_to=row)

    def it_still_reads_what_was_stored_before_there_was_a_key(self):
        assert (
            SecretCipher(SecretStr("key")).decrypt(
                SecretCipher(None).encrypt(b"secret", belongs_to="a"), belongs_to="b"
            )
            == b"secret"
        )
