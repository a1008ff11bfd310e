"""The lock files: taking them apart, and what those of the project must be."""

from __future__ import annotations

import re
import tomllib

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from compose.localstack.locks import DEV_LOCK, RUNTIME_LOCKS, pins, shares, wanted, without
from compose.localstack.places import PROJECTS, ROOT

TEXT = """# Written by a tool
alpha==1.0 \\
    --hash=sha256:aa \\
    --hash=sha256:ab
    # via beta

# The following packages are special
Beta.x==2.0 ; python_version < "4" \\
    --hash=sha256:bb
"""
NAMES = st.lists(st.from_regex(r"[a-z][a-z0-9]{0,8}", fullmatch=True), unique=True, max_size=12)


def lock_of(names: list[str]) -> str:
    return "".join(f"{name}==1 \\\n    --hash=sha256:{name}\n" for name in names)


class DescribeALockFile:
    def it_is_read_as_names_and_versions(self) -> None:
        assert pins(TEXT) == {"alpha": "1.0", "beta.x": "2.0"}

    def it_loses_an_entry_with_its_hashes_and_remarks(self) -> None:
        assert without(TEXT, {"alpha"}) == 'Beta.x==2.0 ; python_version < "4" \\\n    --hash=sha256:bb\n'

    @settings(max_examples=30)
    @given(names=NAMES, count=st.integers(1, 5))
    def it_is_dealt_out_whole(self, names: list[str], count: int) -> None:
        parts = shares([lock_of(names)], count)
        assert len(parts) <= count
        assert all(parts)
        assert sorted(name for part in parts for name in pins(part)) == sorted(names)
        assert sorted("".join(parts)) == sorted(lock_of(names))


class DescribeTheProjectsLocks:
    @pytest.fixture
    def texts(self) -> dict[str, str]:
        return {name: (ROOT / name).read_text(encoding="utf-8") for name in (*RUNTIME_LOCKS, DEV_LOCK)}

    def it_pins_what_the_project_asks_for(self, texts: dict[str, str]) -> None:
        pinned: dict[str, str] = {}
        projects = (tomllib.loads((ROOT / name).read_text(encoding="utf-8")) for name in PROJECTS)
        for name, requirements in wanted(*projects).items():
            pinned |= {canonicalize_name(package): version for package, version in pins(texts[name]).items()}
            for requirement in map(Requirement, requirements):
                version = pinned.get(canonicalize_name(requirement.name))
                assert version is not None, f"{requirement} is in no lock: run make lock"
                assert version in requirement.specifier, f"{requirement} is locked at {version}: run make lock"

    def it_names_no_package_in_two_layers(self, texts: dict[str, str]) -> None:
        names = [name for text in texts.values() for name in pins(text)]
        assert len(names) == len(set(names))

    def it_has_a_hash_for_every_pin(self, texts: dict[str, str]) -> None:
        for text in texts.values():
            entries = re.split(r"^(?=\S+==)", text, flags=re.MULTILINE)[1:]
            assert entries
            assert all("--hash=sha256:" in entry for entry in entries)

    def it_says_nothing_of_where_it_was_made(self, texts: dict[str, str]) -> None:
        for text in texts.values():
            assert not re.search(r"https?:|file:|index-url|find-links|(?<!sha256:)\B/\w", text)
