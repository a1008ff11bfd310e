"""Archives on a disk: gone on with after any interruption, and never believed without their checksums."""

from __future__ import annotations

import json
import tarfile

import pytest

from chordwise.api.archive_files import ArchiveReader, ArchiveWriter, counts_of, missing
from chordwise.errors import InvalidInput

PARTS = [b"first part", b"second part", b"third part"]


def written(path, parts=PARTS):
    archive = ArchiveWriter(path, "kb")
    for number, content in enumerate(parts, start=1):
        archive.add(content, {"documents": 1, "chunks": 2}, None if number == len(PARTS) else f"cursor-{number}")
    return archive


@pytest.fixture(params=["folder", "file.chordwise"])
def path(request, tmp_path):
    return tmp_path / request.param


class DescribeAnArchive:
    def it_gives_back_what_was_written(self, path):
        written(path).finish()
        reader = ArchiveReader(path)
        reader.verify()
        assert [reader.part(part) for part in reader.manifest.parts] == PARTS
        assert (reader.manifest.documents, reader.manifest.chunks) == (3, 6)
        reader.close()

    @pytest.mark.parametrize("done", [0, 1, 2, 3])
    def it_goes_on_after_the_last_whole_part(self, path, done):
        first = written(path, PARTS[:done])
        again = ArchiveWriter(path, "kb")
        assert again.manifest == first.manifest or done == 0
        assert again.manifest.next_cursor == (f"cursor-{done}" if 0 < done < 3 else None)
        for number in range(done, 3):
            again.add(PARTS[number], {}, None if number == 2 else f"cursor-{number + 1}")
        again.finish()
        reader = ArchiveReader(path)
        reader.verify()
        reader.close()

    def it_fetches_again_from_the_first_damaged_part_on(self, tmp_path):
        written(tmp_path)
        (tmp_path / "part-00002.zip").write_bytes(b"second pert")
        again = ArchiveWriter(tmp_path, "kb").manifest
        assert ([part.number for part in again.parts], again.next_cursor, again.complete) == ([1], "cursor-1", False)

    def it_is_not_written_over_a_file(self, tmp_path):
        (tmp_path / "notes.txt").write_text("mine")
        with pytest.raises(InvalidInput, match=r"notes\.txt is a file"):
            ArchiveWriter(tmp_path / "notes.txt", "kb")
        assert (tmp_path / "notes.txt").read_text() == "mine"

    def it_leaves_one_file_and_nothing_else(self, tmp_path):
        written(tmp_path / "a.chordwise").finish()
        assert [entry.name for entry in tmp_path.iterdir()] == ["a.chordwise"]
        with tarfile.open(tmp_path / "a.chordwise") as single:
            assert single.getnames() == ["manifest.json", "part-00001.zip", "part-00002.zip", "part-00003.zip"]
        with pytest.raises(InvalidInput, match="there already"):
            ArchiveWriter(tmp_path / "a.chordwise", "kb")

    @pytest.mark.parametrize("spoiled", [b"second pert", b"second", None])
    def it_names_the_part_that_is_damaged(self, tmp_path, spoiled):
        written(tmp_path)
        part = tmp_path / "part-00002.zip"
        part.unlink() if spoiled is None else part.write_bytes(spoiled)
        with pytest.raises(InvalidInput, match=r"part-00002\.zip is damaged"):
            ArchiveReader(tmp_path).verify()

    def it_believes_no_manifest_that_was_changed(self, tmp_path):
        written(tmp_path)
        manifest = tmp_path / "manifest.json"
        told = json.loads(manifest.read_text())
        told["parts"][1]["documents"] = 7
        manifest.write_text(json.dumps(told))
        with pytest.raises(InvalidInput, match="damaged"):
            ArchiveReader(tmp_path)

    @pytest.mark.parametrize("content", ["", "[]", "{}", '{"format":"chordwise-archive","version":2}'])
    def it_knows_what_is_no_manifest(self, tmp_path, content):
        (tmp_path / "manifest.json").write_text(content)
        with pytest.raises(InvalidInput, match=r"manifest|version"):
            ArchiveReader(tmp_path)

    def it_reads_nothing_incomplete_and_mixes_nothing(self, tmp_path):
        written(tmp_path / "a", PARTS[:2])
        with pytest.raises(InvalidInput, match="not complete"):
            ArchiveReader(tmp_path / "a")
        with pytest.raises(InvalidInput, match="holds namespace kb"):
            ArchiveWriter(tmp_path / "a", "other")
        with pytest.raises(InvalidInput, match="other things"):
            ArchiveWriter(tmp_path, "kb")


class DescribeWhatIsMissing:
    def it_is_what_has_not_arrived(self, tmp_path):
        parts = written(tmp_path).manifest.parts
        assert [part.number for part in missing(parts, {2: parts[1].sha256})] == [1, 3]
        with pytest.raises(InvalidInput, match=r"another part-00002\.zip"):
            missing(parts, {2: "0" * 64})

    def it_counts_what_a_header_says(self):
        assert counts_of("documents=1, chunks=20, odd=x, nothing") == {"documents": 1, "chunks": 20}
