"""Small files as people have them: their chunks hold what a reader of the original knows."""

import pytest

from tests.support.corpora.file_cases import CASES, FILES, read, wrong_in


class DescribeFilesAsPeopleHaveThem:
    @pytest.mark.parametrize("case", CASES, ids=[case["file"] for case in CASES])
    def it_reads_what_a_reader_of_the_original_knows(self, case):
        found = read(FILES / case["file"])
        assert wrong_in(found, case) == [], (case["about"], found.error, found.warning, found.text[:500])
