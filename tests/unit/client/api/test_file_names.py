"""Names of local files as they are sent: one for each file, the same ones in every order."""

from __future__ import annotations

import os
import unicodedata
from itertools import permutations
from pathlib import Path

import pytest

from api_gateway.http.file_names import file_name_of
from chordwise.api.file_names import id_of, sendable
from chordwise.api.files import LeftOut, find_files
from pipeline.document_sources import document_id_of


def names(*paths: Path) -> dict[Path, str]:
    return {file.path: file.name for file in find_files(paths).files}


@pytest.fixture
def write(tmp_path):
    def writing(*names: str | bytes) -> Path:
        for name in names:
            path = os.path.join(os.fsencode(tmp_path), os.fsencode(name))
            os.makedirs(os.path.dirname(path), exist_ok=True)
            Path(os.fsdecode(path)).write_bytes(b"text of " + os.fsencode(name))
        return tmp_path

    return writing


class DescribeFilesOfSeveralFolders:
    def it_names_files_of_equal_names_after_their_folders_and_no_others(self, write):
        top = write("a/docs/x.md", "a/own.md", "b/docs/x.md", "b/docs/y.md")
        search = find_files([top / "a", top / "b"])
        assert [file.name for file in search.files] == ["own.md", "a/docs/x.md", "b/docs/x.md", "docs/y.md"]
        assert search.renamed == {"docs/x.md": ("a/docs/x.md", "b/docs/x.md")}

    def it_gives_the_same_names_in_every_order(self, write):
        top = write("a/r.txt", "b/r.txt", "c/a/r.txt", "c/b.txt", "a/b.txt", "one/r.txt")
        paths = [top / "a", top / "b", top / "c/a", top / "one/r.txt", top / "a/b.txt"]
        first = names(*paths)
        assert len(set(first.values())) == 5
        assert all(names(*order) == first for order in permutations(paths))

    def it_takes_as_many_folders_as_tell_them_apart(self, write):
        top = write("x/a/r.txt", "y/a/r.txt")
        assert sorted(names(top / "x/a", top / "y/a").values()) == ["x/a/r.txt", "y/a/r.txt"]

    def it_keeps_clear_of_a_name_that_is_there(self, write):
        top = write("x/a/r.txt", "x/b/r.txt", "c/a/r.txt")
        found = names(top / "x/a", top / "x/b", top / "c")
        assert sorted(found.values()) == ["a/r.txt", "x/a/r.txt", "x/b/r.txt"]

    def it_sends_a_file_once_that_is_named_beside_its_folder(self, write):
        top = write("kb/r.md")
        assert [file.name for file in find_files([top / "kb", top / "kb" / "r.md"]).files] == ["r.md"]

    def it_sends_a_file_once_that_is_named_twice(self, write):
        top = write("a/docs/x.md")
        (top / "same").symlink_to(top / "a")
        for paths in ((top / "a", top / "a"), (top / "a", top / "a/docs/x.md"), (top / "a", top / "same")):
            assert [list(names(*order).values()) for order in (paths, paths[::-1])] == [["docs/x.md"]] * 2

    def it_tells_names_apart_that_the_server_would_make_one(self, write):
        decomposed = unicodedata.normalize("NFD", "Übung.txt")
        found = names(write("kb/Übung.txt", f"kb/{decomposed}") / "kb")
        assert len(found) == len({document_id_of(name) for name in found.values()}) == 2
        assert "Übung.txt" in found.values()
        assert all(name.endswith(".txt") for name in found.values())

    def it_tells_a_quotation_mark_from_its_code(self, write):
        found = names(write('kb/a"b.txt', "kb/a%22b.txt") / "kb").values()
        assert len({file_name_of(b"", name.replace('"', "%22")) for name in found}) == 2

    @pytest.mark.parametrize(
        "name", ["a/b.txt", " a / b.txt", "a\\b.txt", "../a/./b\u200b.txt", "Ü.txt", "说明 1.md", "e\u0301"]
    )
    def it_knows_the_ids_of_the_server(self, name):
        assert id_of(name) == document_id_of(name)


class DescribeNamesThatAreNotUtf8:
    def it_sends_them_escaped(self, write):
        found = find_files([write(b"kb/\xba\xcd\xce\xac.txt", "kb/ok.txt") / "kb"])
        assert sorted(file.name for file in found.files) == ["%BA%CD%CE%AC.txt", "ok.txt"]
        assert found.renamed == {"%BA%CD%CE%AC.txt": ("%BA%CD%CE%AC.txt",)}
        assert {file.read()[1][:4] for file in found.files} == {b"text"}

    def it_tells_them_from_files_that_have_such_a_name(self, write):
        found = names(write(b"kb/\xba.txt", "kb/%BA.txt") / "kb").values()
        assert len(set(found)) == 2
        assert "%BA.txt" in found

    @pytest.mark.parametrize("name", ["a.txt", "说明.txt", "%BA.txt", "a/b\n.txt"])
    def it_leaves_other_names_as_they_are(self, name):
        assert sendable(name) == name

    def it_shows_paths_that_can_be_printed(self, write):
        top = write(b"kb/\xba.unheard", "kb/a.txt")
        assert find_files([top / "kb"]).skipped_files == (f"{top}/kb/%BA.unheard",)


class DescribeWhatIsLeftOut:
    def it_names_every_link_that_is_not_followed(self, write):
        top = write("secret.txt", "kb/a.txt", "other/b.txt", "kb/~$richt.docx")
        for name, target in (
            ("out.txt", "../secret.txt"),
            ("gone.txt", "nothing"),
            ("far", "../other"),
            ("in.txt", "a.txt"),
        ):
            (top / "kb" / name).symlink_to(target)
        os.mkfifo(top / "kb" / "pipe.txt")
        search = find_files([top / "kb"])
        assert [file.name for file in search.files] == ["a.txt", "in.txt"]
        assert {Path(each.path).name: each.reason for each in search.left_out} == {
            "far": "is a link to a folder",
            "gone.txt": "is a link to nothing",
            "out.txt": "is a link to a file outside the folder",
            "pipe.txt": "is no regular file",
            "~$richt.docx": "belongs to a document that is open in an Office program",
        }
        assert search.skipped == 0

    def it_takes_texts_without_a_suffix_and_no_programs(self, write):
        top = write("kb/LICENSE", "kb/.hidden")
        (top / "kb" / "program").write_bytes(b"\x7fELF\0\0")
        search = find_files([top / "kb"])
        assert [file.name for file in search.files] == ["LICENSE"]
        assert search.left_out == (LeftOut(path=str(top / "kb" / "program"), reason="is of another kind"),)
        assert len(find_files([top / "kb"], of_every_kind=True).files) == 2
