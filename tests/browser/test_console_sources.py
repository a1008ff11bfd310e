"""Sources in the console: following one, what a run did, and the confirmation of removals."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from playwright.sync_api import expect

from tests.support.servers.web_server import WebServer, page, publish


@pytest.fixture
def site() -> Iterator[WebServer]:
    with WebServer() as server:
        yield server


class DescribeSources:
    @pytest.mark.parametrize(
        ("locale", "sources", "follows", "uploads"),
        [("en-GB", "Sources", "Follows", "Uploads"), ("zh-CN", "来源", "同步中", "直接上传")],
    )
    def it_lists_followed_ones_and_folds_uploads(self, console, site, locale, sources, follows, uploads):
        publish(site, "tea.md")
        made = console(locale=locale)
        body = {
            "namespace": "kb",
            "documents": [{"document_id": "sent", "source": {"text": "A kettle.", "source_id": "by hand"}}],
        }
        sent = made.client.post("/v1/documents", json=body).raise_for_status().json()
        assert made.client.get(f"/v1/jobs/{sent['job_id']}?wait=30").json()["status"] == "succeeded"
        address = site.url("/sitemap.xml")
        made.client.post("/v1/sources", json={"namespace": "kb", "url": address}).raise_for_status()
        view = made.open("sources")
        followed = view.get_by_role("table", name=sources)
        expect(followed).to_contain_text(follows)
        expect(followed).not_to_contain_text("by hand")
        view.get_by_text(uploads).click()
        expect(view.get_by_role("table", name=uploads)).to_contain_text("by hand")
        expect(view.get_by_role("table", name=uploads)).not_to_contain_text(address)

    def it_follows_one_and_confirms_what_is_gone(self, console, site):
        publish(site, "tea.md", "pump.md", "film.mp4")
        site.pages["/film.mp4"] = page(b"\0\0\0\x18ftypmp42" + b"\0" * 100, media_type=None)
        made = console()
        view = made.open("sources")
        view.get_by_role("button", name="Follow a source").click()
        view.get_by_label("Namespace").fill("kb")
        view.get_by_label("URL").fill(site.url("/sitemap.xml"))
        view.get_by_label("Rules").fill('[{"tags": ["handbook"]}]')
        view.get_by_role("region", name="Follow a source").get_by_role("button", name="Follow a source").click()
        changes = view.get_by_role("table", name="Files of the run")
        expect(changes).to_contain_text("tea.md")
        expect(changes).to_contain_text("film.mp4")
        [source] = made.client.get("/v1/sources?namespace=kb").json()["data"]
        job = source["followed"]["job_id"]
        assert made.client.get(f"/v1/jobs/{job}?wait=30").json()["status"] == "succeeded"
        publish(site, "tea.md")
        view.get_by_role("button", name="Run now").click()
        expect(view.get_by_role("status").filter(has_text="1 document is gone")).to_be_visible()
        view.get_by_role("button", name="Confirm removals").click()
        view.get_by_role("dialog").get_by_role("button", name="Confirm removals").click()
        expect(changes).to_contain_text("pump.md")
        expect(changes).to_contain_text("Removed")
        view.get_by_role("button", name="Pause").click()
        expect(view.get_by_role("button", name="Resume")).to_be_visible()
        view.get_by_role("link", name="Sources").first.click()
        expect(view.get_by_role("table", name="Sources")).to_contain_text("Paused")
        assert [each["document_id"] for each in made.client.get("/v1/documents?namespace=kb").json()["data"]] == [
            "tea.md"
        ]
