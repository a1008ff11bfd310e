"""A field of a resource is described once: few hand-written files name it."""

from __future__ import annotations

import pytest

from tests.support.repository.named_fields import TRACED, files_naming


class DescribeFields:
    @pytest.mark.parametrize("traced", TRACED, ids=lambda traced: traced.field)
    def it_names_each_in_few_files(self, traced):
        files = set(files_naming(traced.field))
        assert traced.other_meaning <= files, "no longer named there: remove it from the list"
        found = files - traced.other_meaning
        assert len(found) <= traced.most, "\n".join(sorted(found))

    def it_counts_code_and_texts_but_no_comments(self, tmp_path):
        samples = {
            "pipeline/code.py": "row.author = 1\n",
            "pipeline/sql.py": 'SQL = "SELECT g.author FROM x"\n',
            "pipeline/said.py": '"""The author."""\n# author\nauthors = 1\n',
            "api_gateway/page.js": "// author\nconst url = 'http://x'; set({ author });\n",
            "api_gateway/other.js": "/* author */ // author\n",
            "clients/javascript/operations.d.ts": "author: string;\n",
        }
        for name, text in samples.items():
            (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
            (tmp_path / name).write_text(text)
        assert files_naming("author", root=tmp_path) == [
            "api_gateway/page.js",
            "pipeline/code.py",
            "pipeline/sql.py",
        ]
