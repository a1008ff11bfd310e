"""Rules of sources: patterns of paths, ids, tags, metadata and readers."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pipeline.records import DocumentFields
from pipeline.sources.path_rules import document_of, matches, version_of


class DescribePatterns:
    @pytest.mark.parametrize(
        ("path", "pattern", "fits"),
        [
            ("hr/pay.md", "hr/", True),
            ("hr/2026/pay.md", "hr/", True),
            ("other/hr/pay.md", "hr/", False),
            ("a.md", "*.md", True),
            ("hr/a.md", "*.md", False),
            ("hr/a.md", "**/*.md", True),
            ("a.md", "**/*.md", True),
            ("x/drafts/y/z.md", "**/drafts/**", True),
            ("drafts.md", "**/drafts/**", False),
            ("人事/薪酬.md", "人事/*.md", True),
            ("a+b(1).md", "a+b(?).md", True),
            ("a\nb.md", "*.md", True),
        ],
    )
    def it_matches_paths(self, path, pattern, fits):
        assert matches(path, pattern) is fits

    @given(path=st.text(max_size=40), pattern=st.text(alphabet="*?/ab.[]()+^$\\", max_size=20))
    def it_reads_any_pattern(self, path, pattern):
        assert matches(path, pattern) in (True, False)


class DescribeRules:
    def it_adds_tags_and_lets_the_last_rule_decide(self):
        rules = [
            {"tags": ["a", "b"], "type": "page", "metadata": {"x": 1, "y": 1}},
            {
                "path": "hr/",
                "tags": ["b", "c"],
                "type": "manual",
                "metadata": {"y": 2},
                "readers": ["group:hr", "public"],
            },
        ]
        assert document_of("hr/pay.md", rules) == (
            "hr/pay.md",
            DocumentFields(type="manual", tags=("a", "b", "c"), metadata={"x": 1, "y": 2}, readers=("public",)),
        )
        assert document_of("a.md", rules) == (
            "a.md",
            DocumentFields(type="page", tags=("a", "b"), metadata={"x": 1, "y": 1}),
        )

    @pytest.mark.parametrize(
        ("pattern", "document_id"),
        [("{path}", "hr/pay.v2.md"), ("{folder}-{stem}", "hr-pay.v2"), ("{name}", "pay.v2.md"), ("{other}", "{other}")],
    )
    def it_names_documents_by_a_pattern(self, pattern, document_id):
        document = document_of("hr/pay.v2.md", [{"document_id": pattern}])
        assert document is not None
        assert document[0] == document_id

    def it_skips_what_a_later_rule_does_not_take_back(self):
        rules = [{"path": "**/drafts/**", "skip": True}, {"path": "drafts/ready.md", "skip": False}]
        assert document_of("drafts/a.md", rules) is None
        assert document_of("drafts/ready.md", rules) is not None

    @given(path=st.text(min_size=1, max_size=120))
    def it_gives_one_path_one_short_id(self, path):
        first, again = document_of(path, []), document_of(path, [])
        assert first is not None
        assert len(first[0]) <= 64
        if path.strip(" /.\\").isalnum():
            assert again == first


class DescribeVersions:
    def it_differs_by_the_file_and_by_every_field(self):
        fields = [
            DocumentFields(),
            DocumentFields(tags=("a",)),
            DocumentFields(readers=("group:hr",)),
            DocumentFields(metadata={"a": 1}),
        ]
        versions = {version_of(version, each) for version in ("1", "2") for each in fields}
        assert len(versions) == 8
        assert version_of("1", fields[1]) == version_of("1", DocumentFields(tags=("a",)))
