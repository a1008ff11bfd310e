"""Documents, namespaces and uploads in the console on the real stack."""

from __future__ import annotations

import re
from typing import Any
from urllib.parse import parse_qs, urlsplit

import httpx
import pytest
from playwright.sync_api import Page, Route, expect

from tests.support.corpora.console import MANUAL, OTHERS, hand_in
from tests.support.corpora.documents import document, finished, upload
from tests.support.corpora.formats import pdf, pdf_with_picture

PARAGRAPHS = [f"Paragraph {number} 😀 says that valve {number} opens. " * 12 for number in range(6)]


def documents(client: httpx.Client, namespace: str = "kb") -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = client.get("/v1/documents", params={"namespace": namespace}).json()["data"]
    return found


def hand_in_pages(client: httpx.Client, *pages: str) -> None:
    files = [("file", ("valve.pdf", pdf(*pages), "application/pdf"))]
    finished(client, client.post("/v1/files", data={"namespace": "kb"}, files=files).json()["job_id"])


def settled_job(page: Page) -> None:
    expect(page.locator(".badge").first).to_have_text("Succeeded")


class DescribeTheList:
    def it_searches_filters_and_orders(self, console):
        made = console()
        hand_in(made.client, {**MANUAL, "tags": ["router"]}, *OTHERS)
        upload(made.client, "kb", [document("copy", MANUAL["text"], title="Another copy")])
        page = made.open("documents/kb")
        rows = page.locator("tbody tr")
        expect(rows).to_have_count(2 + len(OTHERS))
        page.get_by_label("Search title or id").fill("RESETTING")
        expect(rows).to_have_count(1)
        page.reload()
        expect(page.get_by_label("Search title or id")).to_have_value("RESETTING")  # it stands in the address
        expect(rows).to_have_count(1)
        page.get_by_label("Search title or id").fill("zzyzx")
        expect(page.get_by_text("No document fits these filters")).to_be_visible()
        page.get_by_label("Search title or id").fill("")
        page.get_by_label("With the tag").fill("router")
        expect(rows).to_have_count(1)
        page.get_by_label("With the tag").fill("")
        page.get_by_label("Only copies of older documents").check()
        expect(rows).to_have_count(1)
        expect(rows.first).to_contain_text("Copy of reset")
        page.get_by_label("Only copies of older documents").uncheck()
        page.get_by_label("Order").select_option("title")
        expect(rows.first).to_contain_text("Another copy")

    def it_changes_and_deletes_many(self, console):
        made = console()
        hand_in(made.client, MANUAL, *OTHERS)
        page = made.open("documents/kb")
        page.get_by_label("Select all that are shown").check()
        page.get_by_role("button", name="Edit fields").click()
        dialog = page.get_by_role("dialog")
        dialog.get_by_label("Metadata as a JSON object").fill("{oops")
        expect(dialog.get_by_text("This is not a JSON object")).to_be_visible()
        expect(dialog.get_by_role("button", name="Save")).to_be_disabled()
        dialog.get_by_label("Metadata as a JSON object").fill('{"shelf": "三"}')
        dialog.get_by_label("Add tags").fill("checked")
        dialog.get_by_role("button", name="Save").click()
        link = page.get_by_role("status").filter(has_text="Jobs:").get_by_role("link")
        link.click()
        settled_job(page)
        assert {(each["metadata"]["shelf"], "checked" in each["tags"]) for each in documents(made.client)} == {
            ("三", True)
        }

        page.goto(f"{made.url}#/documents/kb")
        page.get_by_label("Select: reset", exact=True).check()
        page.get_by_role("group", name="1 selected").get_by_role("button", name="Delete").click()
        page.get_by_role("dialog").get_by_role("button", name="Delete").click()
        expect(page.get_by_text("reset deleted.")).to_be_visible()
        assert "reset" not in [each["document_id"] for each in documents(made.client)]

    @pytest.mark.thorough
    @pytest.mark.parametrize(
        ("locale", "every", "action", "label", "save", "group"),
        [
            ("en-US", "Select all that are shown", "Change readers", "Readers", "Save", "group:hr"),
            ("zh-CN", "选择已显示的全部文档", "修改可读者", "可读者", "保存", "group:人事"),
        ],
    )
    def it_changes_readers_at_once(self, console, locale, every, action, label, save, group):
        made = console(locale=locale)
        hand_in(made.client, MANUAL, *OTHERS)
        page = made.open("documents/kb")
        page.get_by_label(every).check()
        page.get_by_role("button", name=action).click()
        dialog = page.get_by_role("dialog")
        expect(dialog.get_by_role("button", name=save)).to_be_disabled()
        dialog.get_by_label(label).fill(f"{group}, user:42")
        dialog.get_by_role("button", name=save).click()
        expect(dialog).to_have_count(0)
        assert {tuple(each["readers"]) for each in documents(made.client)} == {(group, "user:42")}
        page.goto(f"{made.url}#/documents/kb/{MANUAL['document_id']}")
        expect(page.get_by_text(f"{group}, user:42")).to_be_visible()

    def it_hides_what_a_reading_key_may_not_do(self, console):
        made = console()
        hand_in(made.client, MANUAL)
        key = made.client.post("/v1/keys", json={"name": "reader", "scopes": ["read"]}).json()["api_key"]
        page = console(key=key).open("documents/kb")
        expect(page.get_by_role("link", name="Resetting the router")).to_be_visible()
        expect(page.get_by_role("checkbox")).to_have_count(1)  # the filter
        page.get_by_role("link", name="Resetting the router").click()
        expect(page.get_by_role("tab", name="Original")).to_be_visible()
        expect(page.get_by_role("tab", name="Fields")).to_have_count(0)
        expect(page.get_by_role("button", name="Delete")).to_have_count(0)


class DescribeOneDocument:
    def it_colours_the_chunks_in_the_text(self, console):
        made = console()
        chunking = {"strategy": "sentences", "max_tokens": 64, "overlap": 0.0}
        upload(made.client, "kb", [document("valves", "\n\n".join(PARAGRAPHS), chunking=chunking)])
        page = made.open("documents/kb/valves")
        page.get_by_role("tab", name="Original").click()
        text = page.get_by_role("region", name="Text")
        expect(text.locator(".span").first).to_be_visible()
        chunks = made.client.get("/v1/documents/valves/chunks", params={"namespace": "kb", "limit": 200}).json()["data"]
        expect(text.locator(".span-mark")).to_have_count(len(chunks))
        alone = [chunk for chunk in chunks if chunk["text"] in text.locator(".span").all_text_contents()]
        assert alone  # a chunk that overlaps no other is one stretch, also after an emoji
        page.get_by_role("button", name="Show chunk 3").click()
        expect(page.locator(".piece.chosen .piece-head b")).to_have_text("3")
        with page.expect_download() as loading:
            page.get_by_role("button", name="Download the text").click()
        assert loading.value.suggested_filename == "valves.txt"

    def it_shows_the_pages_of_a_pdf_file_and_gives_the_file(self, console):
        made = console()
        hand_in_pages(made.client, "The first page is short.", "The second page too.")
        page = made.open("documents/kb/valve.pdf")
        page.get_by_role("tab", name="Original").click()
        page.get_by_role("radio", name="Page images").check()
        picture = page.get_by_role("img", name="page 1")
        expect(picture).to_be_visible()
        ink = """canvas => canvas.getContext("2d").getImageData(0, 0, canvas.width, canvas.height).data
            .some((value) => value < 100)"""
        page.wait_for_function("() => document.querySelector('canvas').width > 1000")
        assert picture.evaluate(ink)
        page.get_by_role("button", name="Next").click()
        expect(page.get_by_role("img", name="page 2")).to_be_visible()
        expect(page.locator(".beside")).to_contain_text("The second page too.")
        expect(page.locator(".beside")).not_to_contain_text("The first page")
        with page.expect_download() as loading:
            page.get_by_role("button", name="Download", exact=True).click()
        assert loading.value.suggested_filename == "valve.pdf"
        assert loading.value.path().read_bytes().startswith(b"%PDF")

    @pytest.mark.thorough
    def it_edits_fields_and_says_what_is_wrong(self, console):
        made = console()
        hand_in(made.client, MANUAL)
        page = made.open("documents/kb/reset")
        page.get_by_role("tab", name="Fields").click()
        page.get_by_label("Published").fill("yesterday")
        page.get_by_role("button", name="Save").click()
        expect(page.get_by_text("must be an RFC 3339 time").first).to_be_visible()
        made.errors.clear()  # the browser logs the 422 itself
        page.get_by_label("Published").fill("")
        page.get_by_label("Author").fill("作者")
        page.get_by_label("Tags").fill("one\ntwo")
        page.get_by_role("button", name="Save").click()
        settled_job(page)
        [found] = documents(made.client)
        assert (found["author"], found["tags"], found["title"]) == ("作者", ["one", "two"], MANUAL["title"])

    @pytest.mark.thorough
    @pytest.mark.refused
    def it_asks_before_edits_of_chunks_are_lost(self, console):
        made = console()
        hand_in(made.client, MANUAL)
        [chunk] = made.client.get("/v1/chunks", params={"namespace": "kb"}).json()["data"]
        made.client.put("/v1/chunks", json={"chunks": [{"chunk_id": chunk["chunk_id"], "text": "By hand."}]})
        page = made.open("documents/kb/reset")
        page.get_by_role("button", name="Ingest again").click()
        dialog = page.get_by_role("dialog")
        dialog.get_by_role("button", name="Ingest again").click()
        expect(dialog.get_by_role("alert")).to_contain_text("chunks_edited")
        dialog.get_by_label("Discard edits of single chunks").check()
        dialog.get_by_role("button", name="Ingest again").click()
        settled_job(page)
        [chunk] = made.client.get("/v1/chunks", params={"namespace": "kb"}).json()["data"]
        assert chunk["text"] == MANUAL["text"]

    def it_previews_another_cut_beside_the_present_one(self, console):
        made = console()
        upload(made.client, "kb", [document("valves", "\n\n".join(PARAGRAPHS))])
        before = documents(made.client)[0]["chunks"]
        page = made.open("documents/kb/valves")
        page.get_by_role("tab", name="Cut again").click()
        page.get_by_label("Chunking").select_option("sentences")
        page.get_by_label("Maximum tokens").fill("32")
        page.get_by_role("button", name="Preview").click()
        expect(page.locator(".side-result").first.locator(".piece")).to_have_count(before)
        expect(page.locator(".side-result").last.locator(".summary b")).not_to_have_text(str(before))
        page.get_by_role("button", name="Ingest like this").click()
        settled_job(page)
        assert documents(made.client)[0]["chunks"] > before

    @pytest.mark.thorough
    def it_names_copies(self, console):
        made = console()
        text = " ".join(PARAGRAPHS)
        upload(made.client, "kb", [document("a", text), document("b", text)])
        page = made.open("documents/kb/b")
        expect(page.locator(".facts")).to_contain_text("Copy of")
        page.get_by_role("tab", name="Similar").click()
        expect(page.locator("tbody tr")).to_contain_text("100.0 %")

        upload(made.client, "kb", [document("c", f"{text} One sentence is new.")])
        page.goto(f"{made.url}#/namespaces")
        page.get_by_role("link", name="Duplicates: kb").click()
        same = page.get_by_role("table", name="Same bytes").locator("tbody tr")
        expect(same).to_have_count(1)
        expect(same.get_by_role("rowheader")).to_contain_text("b")
        page.get_by_role("button", name="Compare documents").click()
        expect(page.get_by_role("status").filter(has_text="All 3 documents compared, 2 pairs")).to_be_visible()
        expect(page.get_by_role("table", name="Nearly the same text").locator("tbody tr")).to_have_count(2)
        page.get_by_role("link", name="Select and delete").click()
        expect(page.get_by_label("Only copies of older documents")).to_be_checked()
        expect(page.locator("tbody tr")).to_have_count(1)


class DescribeNamespaces:
    def it_counts_searches_and_deletes_under_the_typed_name(self, console):
        made = console()
        upload(made.client, "kb", [document("a", "four")])
        upload(made.client, "知识库", [document("b", "文本")])
        page = made.open("namespaces")
        row = page.locator("tbody tr").filter(has_text="kb")
        expect(row).to_contain_text("4 B")
        page.get_by_label("Search by name").fill("知")
        expect(page.locator("tbody tr")).to_have_count(1)
        page.get_by_role("button", name="Delete: 知识库").click()
        confirm = page.get_by_role("dialog").get_by_role("button", name="Delete")
        expect(confirm).to_be_disabled()
        page.get_by_label("Type 知识库 to confirm").fill("知识库")
        confirm.click()
        expect(page.get_by_text("No namespace has this in its name")).to_be_visible()
        assert [each["namespace"] for each in made.client.get("/v1/namespaces").json()["data"]] == ["kb"]

    @pytest.mark.thorough
    def it_searches_one_of_many_on_every_list(self, console):
        made = console()
        upload(made.client, "kb", [document("a", "four")])
        names = ["kb", *(f"team-{number:03}" for number in range(240))]

        def answer(route: Route) -> None:
            sought = parse_qs(urlsplit(route.request.url).query)
            some = [name for name in names if sought.get("contains", [""])[0] in name][: int(sought["limit"][0])]
            data = [{"namespace": name, "documents": 1, "chunks": 1} for name in some]
            route.fulfill(json={"data": data, "next_cursor": "further" if len(some) < len(names) else None})

        made.page.route(re.compile(r"/v1/namespaces\?"), answer)
        page = made.open("documents")
        choice = page.get_by_label("Namespace", exact=True)
        choice.fill("team-23")
        expect(page.locator("datalist option")).to_have_count(10)
        expect(page).to_have_url(re.compile("#/documents$"))  # no namespace has this name
        choice.fill("kb")
        expect(page).to_have_url(re.compile("#/documents/kb"))
        expect(page.get_by_role("columnheader", name="Namespace")).to_have_count(0)
        choice.fill("nowhere")
        expect(page.get_by_text("No namespace has this in its name")).to_be_visible()
        choice.blur()
        expect(choice).to_have_value("kb")
        choice.fill("")
        expect(page.get_by_role("columnheader", name="Namespace")).to_be_visible()
        page.goto(f"{made.url}#/upload")  # where a new one may be typed, the known ones are found too
        page.get_by_label("Namespace", exact=True).fill("team-22")
        expect(page.locator("datalist option")).to_have_count(10)

    @pytest.mark.thorough
    def it_leads_to_the_upload_when_there_is_none(self, console):
        page = console().open("namespaces")
        expect(page.get_by_text("No namespaces yet")).to_be_visible()
        page.get_by_role("link", name="Upload documents").click()
        expect(page.get_by_role("heading", level=1)).to_have_text("Upload")


class DescribeUpload:
    def it_takes_a_folder_and_names_what_stays_behind(self, console, tmp_path):
        made = console()
        folder = tmp_path / "notes"
        (folder / "deep").mkdir(parents=True)
        (folder / "a.md").write_text("# One\n\nThe first note.", encoding="utf-8")
        (folder / "deep" / "b.txt").write_text("The second note.", encoding="utf-8")
        (folder / "empty.txt").write_text("", encoding="utf-8")
        (folder / "tool.exe").write_bytes(b"MZ")
        (folder / "seal.png").write_bytes(b"\x89PNG")
        (folder / ".hidden.md").write_text("hidden", encoding="utf-8")
        (folder / "scan.pdf").write_bytes(pdf_with_picture("The seal of the cooling pump."))
        page = made.open("upload")
        expect(page.get_by_text(".pdf").first).to_contain_text("33.6 MB per file")
        page.get_by_label("Folder", exact=True).set_input_files(folder)
        expect(page.get_by_text("3 files")).to_be_visible()
        skipped = page.locator(".skipped")
        expect(skipped).to_contain_text("4 left out")
        expect(skipped).to_contain_text("seal.png is a picture; to read pictures, install tesseract-ocr")
        expect(skipped).to_contain_text("tool.exe has a format")
        expect(skipped).to_contain_text("empty.txt is empty")
        page.get_by_label("Namespace").fill("notes")
        page.get_by_role("button", name="Upload", exact=True).click()
        expect(page.locator("section .badge").first).to_have_text("Succeeded")
        expect(skipped).to_contain_text("4 left out")  # still said beside the result
        expect(page.get_by_role("list", name="Files")).to_have_count(0)
        names = ["notes/a.md", "notes/deep/b.txt", "notes/scan.pdf"]
        assert [each["document_id"] for each in documents(made.client, "notes")] == names
        warned = page.locator(".note.warn")
        expect(warned).to_contain_text("1 of 3 pages holds only pictures (2): install tesseract-ocr")
        warned.get_by_role("link", name="notes/scan.pdf").click()
        expect(page.locator(".panel .note.warn")).to_contain_text("1 of 3 pages holds only pictures (2)")

    @pytest.mark.thorough
    def it_names_a_second_file_of_one_path_and_reads_files_as_the_kind_that_is_chosen(self, console, tmp_path):
        made = console()
        for place in ("one", "two"):
            (tmp_path / place / "docs").mkdir(parents=True)
            (tmp_path / place / "docs" / "a.txt").write_text(f"The note of {place}.", encoding="utf-8")
        (tmp_path / "two" / "docs" / "b.unheard").write_text("# A title", encoding="utf-8")
        page = made.open("upload")
        for place in ("one", "two"):
            page.get_by_label("Folder", exact=True).set_input_files(tmp_path / place / "docs")
        skipped = page.locator(".skipped")
        expect(skipped).to_contain_text("docs/a.txt has the path of another file of the list")
        expect(skipped).to_contain_text("docs/b.unheard has a format")
        page.get_by_label("Read files as").select_option(".md")
        expect(page.get_by_text("2 files")).to_be_visible()
        page.get_by_label("Namespace").fill("notes")
        page.get_by_role("button", name="Upload", exact=True).click()
        expect(page.locator("section .badge").first).to_have_text("Succeeded")
        assert [each["document_id"] for each in documents(made.client, "notes")] == ["docs/a.txt", "docs/b.unheard"]

    @pytest.mark.thorough
    def it_names_a_dropped_file_that_the_browser_cannot_read_and_takes_the_others(self, console):
        page = console().open("upload")
        page.locator(".drop").evaluate(
            """(zone) => {
              const gone = new DOMException("gone", "NotFoundError");
              const entries = [
                { isFile: true, fullPath: "/docs/gone.txt", file: (_take, fail) => fail(gone) },
                { isFile: true, fullPath: "/docs/a.txt", file: (take) => take(new File(["A note."], "a.txt")) },
              ];
              const event = new Event("drop", { bubbles: true, cancelable: true });
              event.dataTransfer = { files: [], items: entries.map((each) => ({ webkitGetAsEntry: () => each })) };
              zone.dispatchEvent(event);
            }"""
        )
        expect(page.locator(".skipped")).to_contain_text(
            "docs/gone.txt cannot be read by the browser: a link to nothing"
        )
        expect(page.get_by_role("list", name="Files")).to_contain_text("docs/a.txt")

    @pytest.mark.thorough
    def it_sends_many_files_in_several_requests(self, console):
        made = console()
        page = made.open("upload")
        notes = [(f"n{number:03}.txt", f"Note {number}.".encode()) for number in range(230)]
        files = [{"name": name, "mimeType": "text/plain", "buffer": text} for name, text in notes]
        page.locator("input[type=file][multiple]").set_input_files(files)
        page.get_by_label("Namespace").fill("many")
        page.get_by_role("button", name="Upload", exact=True).click()
        expect(page.get_by_text("2 of 2 jobs ended")).to_be_visible(timeout=60_000)
        [space] = made.client.get("/v1/namespaces").json()["data"]
        assert space["documents"] == 230

    @pytest.mark.thorough
    def it_hands_in_addresses_and_names_a_wrong_line(self, console):
        made = console()
        page = made.open("upload")
        page.get_by_role("radio", name="Addresses").check()
        field = page.get_by_role("textbox", name="Addresses")
        field.fill("http://127.0.0.1:9/page.html\nnot an address")
        expect(page.get_by_text("Line 2 is not an http address: not an address")).to_be_visible()
        page.get_by_label("Namespace").fill("web")
        expect(page.get_by_role("button", name="Upload", exact=True)).to_be_disabled()
        field.fill("http://127.0.0.1:9/page.html")
        page.get_by_role("button", name="Upload", exact=True).click()
        expect(page.get_by_role("region", name="Job")).to_be_visible()
        [job] = made.client.get("/v1/jobs").json()["data"]
        assert (job["namespace"], job["total"]) == ("web", 1)


class DescribeTheLook:
    @pytest.mark.parametrize(
        ("width", "locale"), [(360, "zh-CN"), pytest.param(1360, "en-GB", marks=pytest.mark.thorough)]
    )
    def it_fits_the_window(self, console, pictures, width, locale):
        made = console(width=width, height=900, locale=locale, color_scheme="dark" if width == 360 else "light")
        hand_in_pages(made.client, "The first page is short. " * 20, "The second page too.")
        views = ("documents", "namespaces", "upload", "documents/kb/valve.pdf")
        page = made.open("documents")
        for view in views:
            page.goto(f"{made.url}#/{view}")
            page.locator("tbody tr, .drop, .piece").first.wait_for()
            assert not made.scrolls_sideways(), view
        for number in range(1, 6):
            page.get_by_role("tab").nth(number).click()
            expect(page.locator("[aria-busy=true]")).to_have_count(0)
            assert not made.scrolls_sideways(), number
            if pictures:
                page.screenshot(path=pictures / f"document-{number}-{width}.png", full_page=True)
