"""Files of the local stack: variables, passwords, ports, stamps, state."""

from __future__ import annotations

import string
import subprocess
import sys
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from compose.localstack import install, ports, probes, state, variables
from compose.localstack.places import StackFolder
from compose.localstack.processes import Identity
from compose.localstack.progress import Failure, tail

NAMES = st.from_regex(r"[A-Z][A-Z_]{0,12}", fullmatch=True)
VALUES = st.text(string.ascii_letters + string.digits + ":/@?=&-_.#", max_size=30)


class DescribeVariables:
    @settings(max_examples=30)
    @given(values=st.dictionaries(NAMES, VALUES))
    def it_reads_back_what_it_wrote(self, values: dict[str, str]) -> None:
        assert variables.parse(variables.dump(values)) == values

    def it_passes_over_comments_and_empty_lines(self) -> None:
        assert variables.parse("# a remark\n\nA=1\n") == {"A": "1"}

    def it_has_none_where_there_is_no_file(self, tmp_path: Path) -> None:
        assert variables.read(tmp_path / "env") == {}

    def it_writes_for_the_owner_alone(self, tmp_path: Path) -> None:
        path = tmp_path / "env"
        path.write_text("open to all")
        variables.write_private(path, "A=1\n")
        assert path.stat().st_mode & 0o777 == 0o600
        assert [entry.name for entry in tmp_path.iterdir()] == ["env"]


class DescribePasswords:
    def it_makes_them_once(self, tmp_path: Path) -> None:
        first = variables.passwords(tmp_path / "secrets.json", ["a", "b"])
        later = variables.passwords(tmp_path / "secrets.json", ["a", "b", "c"])
        assert first["a"] == later["a"] != later["c"]

    def it_uses_nothing_that_a_url_or_a_statement_would_have_to_escape(self, tmp_path: Path) -> None:
        made = variables.passwords(tmp_path / "secrets.json", [str(number) for number in range(50)])
        assert set("".join(made.values())) <= set(string.ascii_letters + string.digits + "-_")


class DescribePorts:
    @pytest.mark.parametrize(
        ("preferred", "taken", "busy", "chosen"),
        [
            ([8080, 9000], set(), set(), 8080),
            ([8080, 9000], set(), {8080}, 9000),  # somebody else's server
            ([8080, 9000], {8080}, set(), 9000),  # promised to another of ours
            ([None, 9000], set(), set(), 9000),
        ],
    )
    def it_takes_the_first_that_is_free(
        self, preferred: list[int | None], taken: set[int], busy: set[int], chosen: int
    ) -> None:
        assert ports.choose(preferred, taken, free=lambda port: port not in busy) == chosen
        assert chosen in taken

    def it_takes_any_free_one_when_none_of_them_is(self) -> None:
        taken: set[int] = set()
        found = {ports.choose([80], taken, free=lambda port: port != 80, seed=1) for _ in range(20)}
        assert len(found) == 20

    @pytest.mark.parametrize(("said", "meant"), [("", None), ("1", 1), ("65535", 65535)])
    def it_takes_a_wish(self, said: str, meant: int | None) -> None:
        assert ports.wished(said, variable="PORT") == meant

    @pytest.mark.parametrize("said", ["0", "65536", "70000", "-1", "80a", "²", "8 0"])
    def it_says_in_a_sentence_that_a_wish_is_no_port(self, said: str) -> None:
        with pytest.raises(Failure, match=r"PORT is '.*', but a port is a number from 1 to 65535"):
            ports.wished(said, variable="PORT")

    def it_says_so_when_there_is_none(self) -> None:
        with pytest.raises(OSError, match="no free loopback port"):
            ports.choose([80], set(), free=lambda port: False)


class DescribeTheStamp:
    @pytest.mark.parametrize(
        ("stamp", "dev", "current"),
        [
            ("abc runtime\n", False, True),
            ("abc runtime\n", True, False),
            ("abc dev\n", True, True),
            ("abc dev\n", False, True),  # more than is needed is enough
            ("other dev\n", False, False),
            ("", False, False),
        ],
    )
    def it_lets_an_environment_be_kept(self, stamp: str, dev: bool, current: bool) -> None:
        assert install.up_to_date(stamp, "abc", dev=dev) is current

    def it_changes_with_the_locks_the_place_and_the_python(self, tmp_path: Path) -> None:
        (tmp_path / install.CLIENT).mkdir()
        for name in (*install.RUNTIME_LOCKS, install.DEV_LOCK, *install.PROJECTS):
            (tmp_path / name).write_text("x")
        before = install.fingerprint(tmp_path, "3.11")
        assert install.fingerprint(tmp_path, "3.11") == before
        assert install.fingerprint(tmp_path, "3.12") != before
        (tmp_path / install.DEV_LOCK).write_text("y")
        assert install.fingerprint(tmp_path, "3.11") != before


class DescribeThePackages:
    def it_is_found_in_the_folder_that_holds_the_checkout(self, tmp_path: Path) -> None:
        (tmp_path / "chordwise").mkdir()  # as ~/chordwise of the README
        program = "from chordwise import Chordwise; from pipeline.records import TenantId; print(Chordwise.__name__)"
        done = subprocess.run(
            [sys.executable, "-c", program], cwd=tmp_path, capture_output=True, text=True, check=False
        )
        assert (done.stdout, done.stderr) == ("Chordwise\n", "")


class DescribeWhereThePackagesComeFrom:
    @pytest.mark.parametrize(
        ("settings", "is_own"),
        [
            ("", False),
            ("global.cert='/etc/ssl/certs/ca-certificates.crt'\nglobal.timeout='60'\n", False),
            ("global.index-url='https://pypi.tuna.tsinghua.edu.cn/simple'\n", True),
            (":env:.find-links='/opt/wheels'\n", True),
            ("install.no-index='yes'\n", True),
            ("global.proxy='http://proxy:3128'\n", True),
        ],
    )
    def it_is_left_to_pip_where_pip_was_told(self, settings: str, is_own: bool) -> None:
        assert install.has_own_index(settings) is is_own


class DescribeTheState:
    def it_reads_back_what_it_wrote(self, tmp_path: Path) -> None:
        folder = StackFolder("try", local=tmp_path)
        written = state.State(supervisor=Identity(1, "a"), ready=True, processes={"redis": Identity(2, "b")})
        state.write(folder, written)
        assert state.read(folder) == written

    def it_is_none_before_anything_was_started(self, tmp_path: Path) -> None:
        assert state.read(StackFolder("try", local=tmp_path)) is None

    def it_lets_one_command_alone_hold_a_stack(self, tmp_path: Path) -> None:
        folder = StackFolder("try", local=tmp_path)
        with state.held(folder):
            assert state.is_held(folder)
            with pytest.raises(Failure, match="'try' is in use"), state.held(folder, patience_s=0):
                pass
        assert not state.is_held(folder)


class DescribeLogs:
    def it_finds_a_line_of_this_start_only(self, tmp_path: Path) -> None:
        log = tmp_path / "log"
        log.write_text("ready\n")
        earlier = log.stat().st_size
        probe = probes.log_says("^ready|\nready")
        assert probe(log, 0)
        assert not probe(log, earlier)

    def it_shows_the_last_lines_of_this_start(self, tmp_path: Path) -> None:
        log = tmp_path / "log"
        log.write_text("before\n" + "".join(f"line {number}\n" for number in range(20)))
        assert tail(log, since=7, lines=2).split() == ["line", "18", "line", "19"]
        assert "before" not in tail(log, since=7, lines=100)
        assert tail(tmp_path / "none") == ""

    def it_rotates_one_that_is_too_long_while_it_is_written(self, tmp_path: Path) -> None:
        log = tmp_path / "log"
        with variables.open_log(log) as writer:
            for line in (b"first\n", b"second\n"):
                writer.write(line)
                writer.flush()
                variables.rotate(log, most=3)
            variables.rotate(log, most=3)
            writer.write(b"ready\n")
        assert (tmp_path / "log.1").read_text() == "second\n"
        assert (tmp_path / "log.1").stat().st_mode & 0o777 == 0o600
        assert log.read_text() == "ready\n"
        assert probes.log_says("ready")(log, 700)
        assert tail(log, since=700).strip() == "ready"
