"""HTML and Markdown to text with sections."""

import contextlib
import time

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pipeline.errors import EmptyDocument
from pipeline.parsing.formats import HTML, MARKDOWN, parse
from pipeline.records import Parsed


def html(page: str) -> Parsed:
    return parse(page.encode(), media_type=HTML)


def markdown(text: str) -> Parsed:
    return parse(text.encode(), media_type=MARKDOWN)


def outline(document: Parsed) -> list[tuple[str, ...]]:
    return [section.heading_path for section in document.sections]


class DescribeHtml:
    @pytest.mark.parametrize(
        ("page", "text"),
        [
            ("<p>One<p>Two", "One\n\nTwo"),
            ("<div>a <b>bo</b>ld\n  word</div><div>b</div>", "a bold word\n\nb"),
            ("one<br>two<hr>three", "one\ntwo\n\nthree"),
            ("Tom &amp; Jerry &lt;3 &#x4e2d;&nbsp;x", "Tom & Jerry <3 中 x"),
            ("<ul><li>a<li><p>b</p></li></ul><p>c", "- a\n- b\n\nc"),
            ("<ol><li>a<ul><li>b</ul><li>c</ol>", "1. a\n  - b\n2. c"),
            ("<ol start=3 type=a><li>x<li value=7>y</ol>", "c. x\ng. y"),
            ('<ol start="5\x1f"><li>x</ol>', "5. x"),
            ("<p>H<sub>2</sub>O, 5 m<sup>2</sup>, 1<sup>st</sup>, log<sub>2</sub>", "H2O, 5 m^2, 1st, log_2"),
            ("<p>10<span style='font-size:60%;vertical-align: super'>6</span> Pa", "10^6 Pa"),
            ("<p>a<span style='vertical-align: top'>b</span> H<font style='vertical-align:sub'>2</font>O", "ab H2O"),
            ("<p hidden>a</p><p style='Display : none'>b</p><p>c", "c"),
            ("<header>Shop</header><main><p>Text</p></main><div>Rest</div><footer>©</footer>", "Text\n\nRest"),
            ("<table><tr><th>A<th>B<tr><td>1<td><p>2</p></table>x", "A | B\n1 | 2\n\nx"),
            ("<dl><dt>t<dd>d</dl>", "t\nd"),
            ("<p>code:<pre>if a:\n    b  c\n</pre>after", "code:\n\nif a:\n    b  c\n\nafter"),
            ("a<script>if (a<b) {'</p>'}</script>b<style>p{}</style>", "ab"),
            ("<nav><ul><li><h2>Menu</h2></ul></nav><p>Text", "Text"),
            ("<div><nav><div>Menu</div>unclosed</div>Text", "Text"),
            ("x<template><p>t</p></template><svg><title>s</title><path/></svg>y", "xy"),
            ("a<!-- <p>no</p> -->b<!doctype html><?php x ?>c", "abc"),
            ('<!DOCTYPE html [\n<!ENTITY nbsp "&#160;">\n]>\n<p>Text', "Text"),
            ('<!DOCTYPE html PUBLIC "-//x" "u" [<!-- ] > --><?p ]> ?><!ENTITY e "]>"> ] ><p>文本', "文本"),
            ("<!doctype html><p>a [b]> c", "a [b]> c"),
            ("a < b and c <3 but x<y", "a < b and c <3 but x"),
            ("<a href='x>y' title=\"a>b\">link</a>", "link"),
            ("<textarea>a\n&lt;b&gt;</textarea>", "a\n<b>"),
            ("<img alt='A chart' src=x>", "A chart"),
            ("<ruby>漢<rp>(</rp><rt>kan</rt><rp>)</rp>字</ruby>", "漢字"),
            ("<ruby>北<rt>běi</rt>京<rt>jīng</rt></ruby>市", "北京市"),
            ("Plan: <svg><title>icon</title><g><text>Hall</text><text>大门</text></g></svg>", "Plan: Hall; 大门"),
            ("<a>Print</a><a>Share</a>", "Print Share"),
            ("<head><title>t</title><body><p>正文 Text", "正文 Text"),
            ("<p>one<link rel=x> <meta name=y>two</p>", "one two"),
            ("<span hidden>a <span>b</span> c</span> d <b>e</b>", "d e"),
            ("</div></p><p>stray", "stray"),
        ],
    )
    def it_keeps_what_is_read(self, page, text):
        assert html(page).text == text

    def it_makes_sections_of_headings(self):
        page = "intro<h1>A <i>b</i></h1>x<h3>C</h3>y<h2><div>D</div></h2>z<h1>E"
        document = html(page)
        assert outline(document) == [(), ("A b",), ("A b", "C"), ("A b", "D"), ("E",)]
        assert document.title == "A b"
        assert [document.text[section.start : section.end] for section in document.sections] == [
            "intro\n\n",
            "A b\n\nx\n\n",
            "C\n\ny\n\n",
            "D\n\nz\n\n",
            "E",
        ]

    def it_takes_the_title_element_first(self):
        assert html("<title>The &amp;\n Page</title><h1>Other</h1>").title == "The & Page"

    def it_believes_the_page_about_its_character_set(self):
        page = '<meta http-equiv=Content-Type content="text/html; charset=windows-1250"><p>żółć'
        assert parse(page.encode("cp1250"), media_type=HTML).text == "żółć"

    @pytest.mark.parametrize(
        "page",
        [
            "<div>" * 10_000 + "x" + "</div>" * 10_000,
            "<div>" * 70_000 + "x",
            "".join(f"<font color={n}><p>x" for n in range(7_000)),
            '<a ="' * 35_000 + "x",
            "<!--" * 35_000 + "x",
            "x" + "<script>" * 35_000,
            "<table><tr><td>" * 17_000 + "x",
            "<" * 170_000,
        ],
        ids=["deep", "deeper", "fonts", "quotes", "comments", "scripts", "tables", "brackets"],
    )
    def it_takes_hostile_pages_in_its_stride(self, page):
        started = time.process_time()
        with contextlib.suppress(EmptyDocument):
            html(page)
        assert time.process_time() - started < 1

    tags = st.sampled_from(
        [*"pba", "div", "h1", "h2", "ul", "li", "table", "tr", "td", "pre", "nav", "title", "script", "br"]
    )
    pieces = st.one_of(
        tags.map("<{}>".format), tags.map("</{}>".format), st.text(alphabet="ab <>&;\"'=/-!\n维", max_size=8)
    )

    @settings(max_examples=30)
    @given(st.lists(pieces, max_size=30).map("".join))
    def it_makes_sections_that_cover_the_text(self, page):
        try:
            document = html(page)
        except EmptyDocument:
            return
        assert [section.start for section in document.sections] == [0, *(s.end for s in document.sections[:-1])]
        assert document.sections[-1].end == len(document.text)


class DescribeMenus:
    MENU = "<div><ul>" + "".join(f"<li><a href=/{n}>Topic {n}</a>" for n in range(9)) + "</ul></div>"
    TEXT = "<p>Turn the valve slowly, until the pressure has fallen to three bar.</p>"

    @pytest.mark.parametrize(
        "page",
        [
            MENU + "<h1>Valves</h1>" + TEXT + "<div>" + MENU + "</div>",
            "<table><tr><td>" + MENU + "<td><h1>Valves</h1>" + TEXT + "</table>",
            "<main>" + MENU + "<h1>Valves</h1>" + TEXT + "</main>",
            MENU + "<main><h1>Valves</h1>" + TEXT + "</main>",
        ],
    )
    def it_leaves_out_blocks_of_links_around_the_text(self, page):
        assert html(page).text == "Valves\n\nTurn the valve slowly, until the pressure has fallen to three bar."

    def it_leaves_out_chinese_menus(self):
        menu = "".join(f"<a href=/{n}>栏目{n}</a>" for n in range(9))
        text = "<h1>通知</h1><p>各单位请于十二月一日前报送年度总结和明年的工作计划。</p>"
        assert html(f"<div>{menu}</div>{text}").text == "通知\n\n各单位请于十二月一日前报送年度总结和明年的工作计划。"

    @pytest.mark.parametrize(
        "page",
        [MENU, "<div><h1>Valves</h1>" + MENU + "</div>" + TEXT, TEXT + MENU + TEXT],
        ids=["a page of links", "a heading", "links between sentences"],
    )
    def it_keeps_links_that_are_content(self, page):
        found = html(page).text
        assert ("Topic 8" in found) is not ("Valves" in found)


class DescribeMarkdown:
    @pytest.mark.parametrize(
        ("source", "text"),
        [
            ("One\ntwo\n\nthree", "One\ntwo\n\nthree"),
            ("a **bold** *it* __b__ _i_ ~~s~~ `c *d*`", "a bold it b i s c *d*"),
            ("2*3 a * b foo_bar_baz __init__.py", "2*3 a * b foo_bar_baz init.py"),
            ("这是**重点**内容", "这是重点内容"),
            ('[text](http://a.b/c_(d) "t") ![alt](x.png) [r][1] <http://u.v>', "text alt [r][1] http://u.v"),
            ("[![img](a.png)](b.html)", "img"),
            ("array[0] and [brackets] (x)", "array[0] and [brackets] (x)"),
            ("a &amp; b &lt; c <b>tag</b><br>x", "a & b < c tag\nx"),
            ("\\*not\\* \\_it\\_", "*not* _it_"),
            ("- a\n  - b\n1. c", "- a\n  - b\n1. c"),
            ("> quoted\n> more\n>> deep", "quoted\nmore\ndeep"),
            ("| a | b |\n|:--|--:|\n| 1 | 2 |", "a | b\n1 | 2"),
            ("a\n\n---\n\nb\n***\nc", "a\n\nb\n\nc"),
            ("```py\n# no *heading*\n\nx\n```\nafter", "# no *heading*\n\nx\n\nafter"),
            ("~~~\nunclosed", "unclosed"),
            ("a\n<!-- gone\n\nstill -->\nb", "a\n\nb"),
            ("[x]: http://y\n\na", "a"),
            ("a < b and <c", "a < b and <c"),
            ("*.example.com and *.foo.org", "*.example.com and *.foo.org"),
            ("证书包括 *.example.com 和 *.foo.org", "证书包括 *.example.com 和 *.foo.org"),
            ("Text[^1].\n\n[^1]: The note.\n\n[^二]: 说明", "Text[^1].\n\n[^1]: The note.\n\n[^二]: 说明"),
            ("List<String> and `Map<K, V>` in <placeholder>", "List<String> and Map<K, V> in <placeholder>"),
            ("<placeholder>\n\n<div>see <name></div>", "<placeholder>\n\nsee <name>"),
            ("3) three\n4) four\n\n   更多", "3) three\n4) four\n\n更多"),
            (">" * 60 + " 深 deep", ">" * 20 + " 深 deep"),
            (
                "One[^1] two[^n].\n\nThree.\n\n[^1]: First.\n[^n]: 说明",
                "One[^1] two[^n].\n\n[^1]: First.\n\n[^n]: 说明\n\nThree.",
            ),
            ("`[^1]`\n\n- a[^1]\n- b\n\nc\n\n[^1]: x", "[^1]\n\n[^1]: x\n\n- a[^1]\n- b\n\nc"),
            ('a <span style="display:none">no <span>no</span> no</span> b', "a b"),
            ("a\n\n<div hidden>\n\n不 **no**\n\n- no\n\n</div>\n\nb", "a\n\nb"),
            ("# Title {#id .class}\n\nx {#y}", "Title\n\nx {#y}"),
            ("# PDF.js ![ci](a.svg) [![cov](b.svg)](c)", "PDF.js"),
            ("# ![Logo](a.svg)", "Logo"),
            ("::: warning 注意\nHot.\n:::", "注意\nHot."),
        ],
    )
    def it_keeps_the_words_and_drops_the_marks(self, source, text):
        assert markdown(source).text == text

    def it_makes_sections_of_headings(self):
        document = markdown("intro\n# A `x` #\ntext\n### C\n\nD **d**\n---\n\nE\n=\n#no\n")
        assert outline(document) == [(), ("A x",), ("A x", "C"), ("A x", "D d"), ("E",)]
        assert document.text.endswith("E\n\n#no")
        assert document.title == "A x"

    @pytest.mark.parametrize(
        ("source", "title", "text"),
        [
            ('---\ntitle: "Front: x"\ntags:\n  - a\n---\n# Other\n', "Front: x", "tags:\n  - a\n\nOther"),
            ("---\nauthor: me\n---\n# Other\n", "Other", "author: me\n\nOther"),
            ("---\nNot front matter at all.\n\n---\ntext", None, "Not front matter at all.\n\ntext"),
        ],
    )
    def it_takes_the_title_of_the_front_matter_first(self, source, title, text):
        document = markdown(source)
        assert (document.title, document.text) == (title, text)

    @pytest.mark.parametrize(
        "piece", ["[", "![](", "[](a  ", "*a ", "`", "``a ", "<a ", "<!--", "> ", "- ", "a\t\t", "|", "&"]
    )
    def it_takes_hostile_text_in_its_stride(self, piece):
        started = time.process_time()
        markdown("z" + piece * (100_000 // len(piece)) + "z")
        assert time.process_time() - started < 1

    @pytest.mark.parametrize("nested", ["> ", "- ", "1. ", "[", "![", "**", "*a _b "])
    def it_loses_no_word_however_deep(self, nested):
        assert "deep 深" in markdown(nested * 500 + "deep 深").text

    def it_reads_the_headings_of_a_text_too_long_for_the_parser(self):
        document = markdown("# 手册 Manual #\n\n" + "Hold the *button*.\n\n" * 60_000 + "## End\n\n*.example.com")
        assert document.title == "手册 Manual"
        assert document.sections[-1].heading_path == ("手册 Manual", "End")
        assert document.text.endswith("*.example.com")

    @settings(max_examples=30)
    @given(
        st.lists(st.sampled_from(["word", "字", "*", "_", "x`", "[", "]", " ", "\n", "> ", "- ", "x~~"]), max_size=40)
    )
    def it_loses_no_word(self, pieces):
        source = "".join(pieces) + "end"
        text = markdown(source).text
        for word in ("word", "字"):
            assert text.count(word) == source.count(word)

    @settings(max_examples=30)
    @given(st.text(alphabet="ab#*_`~[](){}<>!&;|-=\\ \n\t.1维", max_size=80))
    def it_makes_sections_that_cover_the_text(self, source):
        try:
            document = markdown(source)
        except EmptyDocument:
            return
        assert [section.start for section in document.sections] == [0, *(s.end for s in document.sections[:-1])]
        assert document.sections[-1].end == len(document.text)
