"""PDF, Office documents, tables and JSON become text with sections."""

from __future__ import annotations

import re
import subprocess
import sys

import pytest

from pipeline.chunking.cut import chunk
from pipeline.errors import DocumentTooLarge, EmptyDocument, MalformedDocument, UnsupportedMediaType
from pipeline.parsing.formats import CSV, DOCX, JSON, PDF, TSV, XLSX, media_type_of, parse
from pipeline.records import Chunking, Parsed
from tests.support.corpora.formats import docx, paragraph, pdf, styles, table, xlsx

_LONG = "This line is as long as the lines of a printed page are, and it goes"


def _sections(parsed: Parsed) -> list[tuple[int | None, tuple[str, ...], str]]:
    return [(each.page, each.heading_path, parsed.text[each.start : each.end].strip()) for each in parsed.sections]


class DescribePdf:
    def it_keeps_the_page_and_the_headings_of_the_outline(self):
        body = pdf("Foxes\nred", "Owls\ngrey", outline=[("Foxes", 0), ("Owls", 1)], title="Animals")
        parsed = parse(body, media_type=PDF, filename="a.pdf")
        assert parsed.title == "Animals"
        assert _sections(parsed) == [(1, ("Foxes",), "Foxes\n\nred"), (2, ("Owls",), "Owls\n\ngrey")]

    def it_opens_a_section_with_every_page(self):
        assert [page for page, _, _ in _sections(parse(pdf("one", "two", "three"), media_type=PDF))] == [1, 2, 3]

    def it_covers_the_text_with_sections(self):
        parsed = parse(pdf("one\ntwo", "three", outline=[("two", 0)]), media_type=PDF)
        assert "".join(parsed.text[each.start : each.end] for each in parsed.sections) == parsed.text

    def it_joins_the_lines_of_a_paragraph(self):
        body = pdf(f"{_LONG}\non in the next line of the same paragraph, which ends here be-\ncause.\nNext.")
        assert parse(body, media_type=PDF).text == (
            f"{_LONG} on in the next line of the same paragraph, which ends here because.\n\nNext."
        )

    def it_keeps_the_lines_of_a_table(self):
        assert parse(pdf("bolt 3\nnut 4"), media_type=PDF).text == "bolt 3\nnut 4"

    def it_says_that_a_scan_holds_no_text(self):
        with pytest.raises(EmptyDocument):
            parse(pdf(""), media_type=PDF)


class DescribeWordDocuments:
    def it_reads_headings_lists_and_tables(self):
        body = docx(
            paragraph("Tools", "berschrift1")
            + paragraph("What is in the box:")
            + paragraph("a bolt", listed=True)
            + paragraph("a nut", listed=True)
            + paragraph("Prices", "Sub")
            + table(["bolt", "3"], ["nut", "4"]),
            parts={"word/styles.xml": styles(("Sub", "heading 2"))},
        )
        parsed = parse(body, media_type=DOCX)
        assert parsed.title == "Tools"
        assert _sections(parsed) == [
            (None, ("Tools",), "Tools\n\nWhat is in the box:\n\n- a bolt\n- a nut"),
            (None, ("Tools", "Prices"), "Prices\n\nbolt | 3\nnut | 4"),
        ]

    def it_leaves_out_what_was_deleted_and_reads_a_text_box_once(self):
        box = "<w:txbxContent>{}</w:txbxContent>"
        body = docx(
            "<w:p><w:r><w:t>kept</w:t></w:r><w:del><w:r><w:t>gone</w:t></w:r></w:del></w:p>"
            f"<w:p><w:r>{box.format(paragraph('boxed'))}<w:Fallback>{box.format(paragraph('boxed'))}</w:Fallback></w:r></w:p>"
        )
        assert parse(body, media_type=DOCX).text == "kept\n\nboxed"

    def it_puts_footnotes_below_their_paragraph_and_takes_the_title_of_the_properties(self):
        note = f'<w:footnote w:id="2">{paragraph("a note")}</w:footnote>'
        body = docx(
            '<w:p><w:r><w:t>text</w:t></w:r><w:r><w:footnoteReference w:id="2"/></w:r></w:p>' + paragraph("more"),
            parts={
                "word/footnotes.xml": f'<w:footnotes xmlns:w="urn:w">{note}</w:footnotes>',
                "docProps/core.xml": '<c xmlns:dc="urn:dc"><dc:title>Named</dc:title><dc:creator>eve</dc:creator></c>',
            },
        )
        parsed = parse(body, media_type=DOCX)
        assert (parsed.text, parsed.title) == ("text[2]\n\n[2] a note\n\nmore", "Named")

    @pytest.mark.parametrize(
        ("name", "content"),
        [
            (
                "page.mht",
                "From: <Saved>\nContent-Type: text/html; charset=utf-8\nContent-Transfer-Encoding: quoted-printable\n\n"
                "<p>=E4=BF=9D=E4=BF=AE=E6=9C=9F a=3Db</p>",
            ),
            ("part.rtf", r"{\rtf1\ansi \u20445?\u20462?\u26399? a=b\par}"),
            ("page.htm", "<p>保修期 a=b</p>"),
        ],
    )
    def it_reads_a_document_of_another_format_within(self, name: str, content: str):
        kind = "http://schemas.openxmlformats.org/officeDocument/2006/relationships"
        link = f'<Relationship Id="r1" Type="{kind}/aFChunk" Target="{name}"/>'
        parts = {"word/_rels/document.xml.rels": f"<Relationships>{link}</Relationships>", f"word/{name}": content}
        body = f'{paragraph("Before")}<w:altChunk xmlns:r="{kind}" r:id="r1"/>'
        assert parse(docx(body, parts=parts), media_type=DOCX).text == "Before\n\n保修期 a=b"


class DescribeWorkbooks:
    def it_makes_each_sheet_a_heading_and_each_row_a_paragraph(self):
        body = xlsx({"Prices": [["name", "price"], ["bolt", 3.0], [None, None], ["nut", 4.5]], "Bare": [[1, 2]]})
        parsed = parse(body, media_type=XLSX, filename="book.xlsx")
        assert _sections(parsed) == [
            (None, ("Prices", "rows 2-4"), "Prices\n\nname: bolt\nprice: 3\n\nname: nut\nprice: 4.5"),
            (None, ("Bare", "row 1"), "Bare\n\n1 | 2"),
        ]

    def it_says_of_every_chunk_in_which_rows_of_which_sheet_it_stands(self):
        rows = [["number", "note"], *([f"n{number}", "some words about it " * 5] for number in range(2, 300))]
        passages = chunk(parse(xlsx({"First": rows, "Second": rows}), media_type=XLSX), Chunking())
        assert {passage.heading_path[0] for passage in passages} == {"First", "Second"}
        covered = []
        for passage in passages:
            numbers = re.findall(r"\d+", passage.heading_path[1])
            first, last = int(numbers[0]), int(numbers[-1])
            inside = [int(number) for number in re.findall(r"number: n(\d+)", passage.text)]
            assert inside == [number for number in range(first, last + 1) if number in inside]
            assert last - first < 20
            covered += inside
        assert covered == list(range(2, 300)) * 2


class DescribeTables:
    @pytest.mark.parametrize("delimiter", [",", ";", "\t", "|"])
    def it_finds_the_delimiter(self, delimiter):
        rows = [["name", "note"], ["bolt", "long"], ["nut", "short"]]
        body = "\n".join(delimiter.join(row) for row in rows).encode()
        assert parse(body, media_type=CSV).text == "name: bolt\nnote: long\n\nname: nut\nnote: short"

    @pytest.mark.parametrize("delimiter", [";", "\t", "|"])
    def it_takes_no_comma_between_words_for_a_delimiter(self, delimiter):
        rows = [["Report, 2024"], ["名称", "City, state", "n"], ["Ann", "Kiel, DE", "1"], ["Bob", "Bonn, DE", "2"]]
        text = "Report, 2024\n\n名称: Ann\nCity, state: Kiel, DE\nn: 1\n\n名称: Bob\nCity, state: Bonn, DE\nn: 2"
        assert parse("\n".join(map(delimiter.join, rows)).encode(), media_type=CSV).text == text

    def it_reads_quoted_cells_with_line_ends_in_them(self):
        assert parse(b'a,b\n"x, ""y""",\n"1\n2",z', media_type=CSV).text == 'a: x, "y"\n\na: 1 2\nb: z'

    def it_takes_no_row_with_numbers_for_a_header(self):
        assert parse(b"bolt\t3\nnut\t4", media_type=TSV).text == "bolt | 3\n\nnut | 4"

    def it_keeps_values_that_have_no_header(self):
        assert parse(b"a,b\n1,2,3", media_type=CSV).text == "a: 1\nb: 2\n3"

    def it_reads_chinese_encodings(self):
        body = "名称,说明\n螺栓,这是一种不大的东西，我们在这里说的\n".encode("gb18030")
        assert parse(body, media_type=CSV).text.startswith("名称: 螺栓")

    def it_says_in_which_rows_a_section_stands(self):
        parsed = parse(b"name,note\n" + b"bolt,long\n\n" * 100, media_type=CSV)
        paths = [path for _, path, _ in _sections(parsed)]
        assert paths[0][0].startswith("rows 2-")
        assert paths[-1][0].endswith("-200")
        assert len(paths) > 1

    def it_reads_a_row_with_a_broken_quote_as_it_stands_and_names_its_line(self):
        parsed = parse(b'a,b\n1,2\n3,"x\n4,5\n', media_type=CSV)
        assert parsed.text == "a: 1\nb: 2\n\na: 3\nb: x\n\na: 4\nb: 5"
        assert "line 3" in parsed.encoding.pages_warning

    def it_reads_every_row_where_each_has_a_broken_quote(self):
        rows = "".join(f'{number},"never closed\n' for number in range(5000))
        parsed = parse(f"no,note\n{rows}".encode(), media_type=CSV)
        assert parsed.text.count("note: ") == 5000


class DescribeJson:
    def it_writes_names_with_their_values(self):
        body = (
            b'{"title": "Bolts", "sizes": [1, 2.50], "maker": {"name": "A", "since": 1990}, "sold": true, "note": null}'
        )
        parsed = parse(body, media_type=JSON)
        assert parsed.title == "Bolts"
        assert parsed.text == "title: Bolts\nsold: true\n\nsizes: 1, 2.50\n\nmaker\n\nname: A\nsince: 1990"
        assert _sections(parsed)[-1][1] == ("maker",)

    def it_makes_a_paragraph_of_each_object_of_a_list(self):
        assert parse(b'[{"a": 1, "b": {"c": 2}}, {"a": 3}]', media_type=JSON).text == "a: 1\nb.c: 2\n\na: 3"

    @pytest.mark.parametrize("body", [b"{", b'{"a": 1} x', b"[" * 5000])
    def it_refuses_what_is_not_json(self, body):
        with pytest.raises(MalformedDocument):
            parse(body, media_type=JSON)

    def it_refuses_too_many_values(self):
        with pytest.raises(DocumentTooLarge):
            parse(b"[" + b"1," * 500_000 + b"1]", media_type=JSON)


class DescribeTheRegistry:
    @pytest.mark.parametrize(
        ("name", "media_type"),
        [("a.pdf", PDF), ("b.DOCX", DOCX), ("c.xlsx", XLSX), ("d.csv", CSV), ("e.tsv", TSV), ("f.json", JSON)],
    )
    def it_knows_the_suffixes(self, name, media_type):
        assert media_type_of(name, "application/octet-stream") == media_type

    def it_names_what_is_accepted(self):
        with pytest.raises(UnsupportedMediaType, match=r"\.docx, .*\.pdf.*\.xlsx"):
            media_type_of("a.exe", None)

    def it_loads_no_large_library_for_a_media_type(self):
        code = "import pipeline.parsing, sys; sys.exit(bool({'openpyxl', 'pypdfium2'} & set(sys.modules)))"
        assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


class DescribeLinksOfOfficeDocuments:
    def it_reads_a_part_once_however_often_it_is_linked(self):
        kind = "http://schemas.openxmlformats.org/officeDocument/2006/relationships/header"
        links = "".join(f'<Relationship Id="r{at}" Type="{kind}" Target="header1.xml"/>' for at in range(200))
        header = (
            '<w:hdr xmlns:w="http://schemas.openxmlformats.org/wordprocessingml/2006/main">'
            + paragraph("Above")
            + "</w:hdr>"
        )
        parts = {"word/_rels/document.xml.rels": f"<Relationships>{links}</Relationships>", "word/header1.xml": header}
        assert parse(docx(paragraph("One"), parts=parts), media_type=DOCX).text == "One\n\nAbove"
