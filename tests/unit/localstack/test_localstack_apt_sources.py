"""Which apt sources are taken for the distribution's own."""

from __future__ import annotations

import pytest

from compose.localstack.apt import distribution_only, of_suite

STANZA = """# a remark
Types: deb deb-src
URIs: http://mirror.invalid/debian
Suites: bookworm bookworm-updates bookworm-backports
Components: main contrib
Signed-By: /usr/share/keyrings/debian-archive-keyring.gpg

Types: deb
URIs: http://vendor.invalid/debian
Suites: stable
Components: main
"""


class DescribeAnotherRelease:
    def it_is_taken_from_the_same_mirrors(self) -> None:
        lines = ["deb [signed-by=/k] http://m/debian bookworm main", "deb http://m/security bookworm-security main"]
        ours = distribution_only(lines, [STANZA], codename="bookworm")
        other = of_suite(ours, "unstable")
        assert other.one_line == "deb [signed-by=/k] http://m/debian unstable main\n"
        assert "uris: http://mirror.invalid/debian\nsuites: unstable\n" in other.stanzas
        assert "bookworm" not in other.stanzas


class DescribeDistributionOnly:
    @pytest.mark.parametrize(
        ("line", "kept"),
        [
            ("deb http://m/debian bookworm main", "deb http://m/debian bookworm main\n"),
            ("deb http://m/debian bookworm main contrib non-free", "deb http://m/debian bookworm main\n"),
            (
                "deb [signed-by=/k arch=amd64] http://m bookworm main",
                "deb [signed-by=/k arch=amd64] http://m bookworm main\n",
            ),
            ("deb http://m/security bookworm-security main # fixes", "deb http://m/security bookworm-security main\n"),
            ("deb http://m/ubuntu bookworm universe", "deb http://m/ubuntu bookworm universe\n"),
            ("deb-src http://m/debian bookworm main", ""),
            ("# deb http://m/debian bookworm main", ""),
            ("deb http://docker.invalid bookworm stable", ""),
            ("deb http://pgdg.invalid bookworm-pgdg main", ""),
            ("deb http://flat.invalid ./", ""),
            ("", ""),
        ],
    )
    def it_keeps_the_release_and_drops_third_parties(self, line: str, kept: str) -> None:
        assert distribution_only([line], [], codename="bookworm").one_line == kept

    def it_narrows_a_stanza_and_keeps_who_signs_it(self) -> None:
        stanzas = distribution_only([], [STANZA], codename="bookworm").stanzas
        assert stanzas.splitlines() == [
            "types: deb",
            "uris: http://mirror.invalid/debian",
            "suites: bookworm bookworm-updates",
            "components: main",
            "signed-by: /usr/share/keyrings/debian-archive-keyring.gpg",
        ]

    def it_keeps_a_key_written_into_the_stanza(self) -> None:
        text = "Types: deb\nURIs: u\nSuites: noble\nComponents: universe\nSigned-By:\n -----BEGIN-----\n .\n abc\n"
        assert "signed-by: \n -----BEGIN-----\n .\n abc\n" in distribution_only([], [text], codename="noble").stanzas

    def it_drops_a_disabled_stanza(self) -> None:
        text = "Enabled: no\nTypes: deb\nURIs: u\nSuites: noble\nComponents: main\n"
        assert not distribution_only([], [text], codename="noble")

    def it_is_false_when_nothing_is_left(self) -> None:
        assert not distribution_only(["deb http://other.invalid trixie main"], [STANZA], codename="noble")
