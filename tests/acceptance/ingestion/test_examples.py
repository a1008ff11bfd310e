"""The example library as editors use it: import a book, find its rows, read the errors."""

from __future__ import annotations

import io
import json
import time
import zipfile

import httpx
import openpyxl
import pytest

from tests.support.clients.commands import called
from tests.support.clients.gateway_client import problem
from tests.support.corpora.documents import finished, search
from tests.support.corpora.formats import with_part, xlsx
from tests.support.corpora.hostile import HOSTILE

HEADER = ["user_input", "agent_response", "tags", "quality_grade", "notes"]
GOOD = ["降压药可以饭后吃吗？", "可以，关键是每天固定时间。", "用药咨询，高血压", "优秀", "内部备注"]
BAD = ["头晕怎么办？", "请先坐下休息。", "", "很好", ""]
XLSX = "application/vnd.openxmlformats-officedocument.spreadsheetml.sheet"


def send(client: httpx.Client, namespace: str, body: bytes, name: str = "book.xlsx", **fields: str) -> httpx.Response:
    params = {"dry_run": fields.pop("dry_run")} if "dry_run" in fields else {}
    data = {"namespace": namespace, **fields}
    return client.post("/v1/examples", params=params, data=data, files={"file": (name, body)})


class DescribeABook:
    def it_is_found_by_what_its_users_said(self, client, namespace):
        answer = send(
            client, namespace, xlsx({"qa": [HEADER, GOOD], "问候": [["用户输入", "助手回复"], ["早上好", "您好"]]})
        )
        assert answer.status_code == 202, answer.text
        body = answer.json()
        assert answer.headers["location"] == f"/v1/jobs/{body['job_id']}"
        assert (body["status"], body["total"], body["errors"], body["warnings"]) == ("queued", 2, [], [])
        assert body["statistics"]["qa"] == {
            "read": 1,
            "accepted": 1,
            "refused": 0,
            "duplicates": 0,
            "blank": 0,
            "grades": {"优秀": 1},
            "tags": {"用药咨询": 1, "高血压": 1},
        }
        job = finished(client, body["job_id"])
        assert (job["status"], job["succeeded"], job["chunks"]) == ("succeeded", 2, 2)
        filters = {"type": "qa", "tags": ["高血压"], "metadata": {"quality_grade": "优秀"}}
        [hit] = search(client, namespace, "降压药可以饭后吃吗", filters=filters)["chunks"]
        assert hit["text"] == f"{GOOD[0]} {GOOD[1]}"
        assert (hit["metadata"]["user_input"], hit["metadata"]["agent_response"]) == (GOOD[0], GOOD[1])
        assert "内部备注" not in str(hit)

    @pytest.mark.parametrize(("rows", "strict"), [([GOOD, BAD], "true"), ([BAD], "false")])
    def it_imports_nothing_of_a_strict_import_with_a_bad_row(self, client, namespace, rows, strict):
        answer = send(client, namespace, xlsx({"qa": [HEADER, *rows]}), strict=strict)
        body = problem(answer, 422, "examples_refused")
        assert body["errors"][0]["column"] == "quality_grade"
        assert body["statistics"]["qa"]["read"] == len(rows)
        assert client.get("/v1/documents", params={"namespace": namespace}).json()["data"] == []

    def it_is_only_looked_at_when_asked(self, client, namespace):
        answer = send(client, namespace, xlsx({"qa": [HEADER, GOOD, BAD]}), dry_run="true")
        body = answer.json()
        assert answer.status_code == 200
        assert (body["job_id"], body["status"], body["errors_total"]) == (None, "validated", 1)
        assert client.get("/v1/documents", params={"namespace": namespace}).json()["data"] == []

    def it_replaces_what_it_brought_before(self, client, namespace):
        for response in ("可以，饭后服用。", "可以，关键是每天固定时间。"):
            body = send(client, namespace, xlsx({"qa": [HEADER, [GOOD[0], response]]})).json()
            finished(client, body["job_id"])
        [stored] = client.get("/v1/documents", params={"namespace": namespace}).json()["data"]
        assert stored["metadata"]["agent_response"] == "可以，关键是每天固定时间。"
        assert stored["chunks"] == 1

    def it_may_be_json_as_a_file_or_as_the_body(self, client, namespace):
        row = {"user_input": "我的血压", "agent_response": "平均132/84", "tags": ["统计"], "quality_grade": "良好"}
        book = {"query_examples": [row, {"user_input": "缺回复"}]}
        answers = [
            client.post("/v1/examples", json={"namespace": namespace, "examples": book}),
            send(client, namespace, httpx.Request("POST", "/", json=book).read(), "book.json"),
        ]
        for answer in answers:
            body = answer.json()
            assert (answer.status_code, body["errors_total"]) == (202, 1), body
            assert (body["errors"][0]["sheet"], body["errors"][0]["row"]) == ("query_examples", 2)
            assert body["errors"][0]["column"] == "agent_response"
            finished(client, body["job_id"])
        [stored] = client.get("/v1/documents", params={"namespace": namespace}).json()["data"]
        assert (stored["type"], stored["tags"]) == ("query", ["统计"])


class DescribeWhatIsStored:
    def it_is_counted_by_category_grade_tag_and_length(self, client, namespace):
        twin = {"user_input": GOOD[0], "agent_response": GOOD[1], "id": "twin"}
        book = {
            "qa": [dict(zip(HEADER, GOOD, strict=True))],
            "greeting": [{"user_input": "您好", "agent_response": "您好！"}],
        }
        for examples in (book, {"qa": [twin]}):
            accepted = client.post("/v1/examples", json={"namespace": namespace, "examples": examples}).json()
            finished(client, accepted["job_id"])
        found = client.get("/v1/examples/statistics", params={"namespace": namespace}).json()
        qa = found["categories"]["qa"]
        assert (qa["examples"], qa["grades"], qa["tags"]) == (2, {"": 1, "优秀": 1}, {"用药咨询": 1, "高血压": 1})
        length = len(f"{GOOD[0]} {GOOD[1]}")
        assert (qa["lengths"]["shortest"], qa["lengths"]["longest"], qa["lengths"]["mean"]) == (length, length, length)
        assert qa["lengths"]["up_to"]["50"] == 2
        assert (found["total"]["examples"], found["total"]["lengths"]["shortest"]) == (3, 6)
        assert found["categories"]["record"] == {"examples": 0, "grades": {}, "tags": {}, "lengths": None}
        [group] = found["duplicates"]["groups"]
        assert found["duplicates"]["surplus"] == 1
        assert "qa-twin" in group

    def it_is_shown_to_its_tenant_alone(self, client, namespace):
        answer = client.get("/v1/examples/statistics", params={"namespace": namespace})
        problem(answer, 404, "namespace_not_found")
        problem(client.get("/v1/examples/verification", params={"job_id": "nobody's"}), 404, "job_not_found")

    def it_is_verified_row_by_row(self, client, namespace):
        rows = [[f"问题{number}", f"回答{number}"] for number in range(30)]
        accepted = send(client, namespace, xlsx({"qa": [HEADER, *rows, BAD]})).json()
        finished(client, accepted["job_id"])
        asked = {"job_id": accepted["job_id"], "sample": 5}
        found = client.get("/v1/examples/verification", params=asked).json()
        assert (found["rows"], found["searchable"], found["missing"], len(found["sample"])) == (30, 30, [], 5)
        gone = found["sample"][0]["document_id"]
        client.delete(f"/v1/documents/{gone}", params={"namespace": namespace})
        found = client.get("/v1/examples/verification", params=asked).json()
        assert (found["searchable"], [row["document_id"] for row in found["missing"]]) == (29, [gone])


class DescribeTheTemplate:
    def it_can_be_imported_as_it_is(self, client, namespace):
        answer = client.get("/v1/examples/template.xlsx")
        assert answer.headers["content-type"] == XLSX
        body = send(client, namespace, answer.content, dry_run="true").json()
        assert (body["statistics"]["total"]["accepted"], body["errors"], body["warnings"]) == (4, [], [])


class DescribeHostileWorkbooks:
    @pytest.mark.parametrize(
        "hostile",
        [
            pytest.param(each, id=each.name, marks=[] if each.name == "encrypted.xlsx" else pytest.mark.thorough)
            for each in HOSTILE
            if each.media_type == XLSX
        ],
    )
    def it_refuses_each_and_takes_the_next(self, client, namespace, hostile):
        answer = send(client, namespace, as_qa(hostile.make()))
        assert 400 <= answer.status_code < 500, answer.text
        assert answer.headers["content-type"] == "application/problem+json"
        # A harmless one has no header that a book has.
        assert answer.json()["code"] == (hostile.code or "examples_refused")
        assert send(client, namespace, xlsx({"qa": [HEADER, GOOD]}), dry_run="true").status_code == 200

    @pytest.mark.thorough
    @pytest.mark.parametrize("ranges", [["A1:XFD1048576"] * 3000, ["A0:ZZZ9", "", "C3"]])
    def it_does_not_copy_merged_values_for_ever(self, client, namespace, ranges):
        rows = "".join(
            f'<row r="{n}">{"".join(_cell(c, n, t) for c, t in zip("ABC", texts, strict=True))}</row>'
            for n, texts in enumerate([HEADER[:3], *([f"q{n}", "a", "t"] for n in range(9000))], start=1)
        )
        merged = "".join(f'<mergeCell ref="{text}"/>' for text in ranges)
        sheet = f'<worksheet xmlns="{_MAIN}"><sheetData>{rows}</sheetData><mergeCells>{merged}</mergeCells></worksheet>'
        body = with_part(xlsx({"qa": [["x"]]}), "xl/worksheets/sheet1.xml", sheet)
        began = time.monotonic()
        answer = send(client, namespace, body, dry_run="true")
        assert answer.status_code == (413 if len(ranges) > 3 else 200), answer.text
        assert time.monotonic() - began < 20

    def it_refuses_a_file_that_is_no_workbook(self, client, namespace):
        problem(send(client, namespace, b"text", "book.txt"), 415, "unsupported_media_type")
        problem(send(client, namespace, b"{", "book.json"), 422, "malformed_document")
        problem(send(client, namespace, b"[]", "book.json"), 422, "malformed_document")
        problem(send(client, namespace, b"{}", "book.json"), 422, "examples_refused")
        problem(client.post("/v1/examples", data={"namespace": namespace}, files={"x": b""}), 422, "invalid_request")
        problem(client.post("/v1/examples", json={"namespace": namespace}), 422, "invalid_request")
        problem(client.post("/v1/examples", json={"namespace": "a b", "examples": {}}), 422, "invalid_request")
        other = {"namespace": namespace, "tenant_id": "other", "examples": {}}
        problem(client.post("/v1/examples", json=other), 403, "tenant_mismatch")


class DescribeTheCommand:
    def it_imports_verifies_and_tells_each_error_in_a_line(self, namespace, tmp_path):
        path = tmp_path / "book.xlsx"
        path.write_bytes(xlsx({"qa": [HEADER, GOOD, ["胸痛怎么办？", "请立即拨打120。"]], "x": [["a"]]}))
        done = called("import-examples", path, "-n", namespace, "--wait")
        assert (done.returncode, done.stderr) == (0, "warning: sheet x: is no category, and was left out\n")
        assert "2 of 2 rows searchable, 2 of 2 found by their own words" in done.stdout
        path.write_bytes(xlsx({"qa": [HEADER, GOOD, BAD]}))
        done = called("import-examples", path, "-n", namespace, "--wait", "--json")
        assert done.returncode == 1
        said = json.loads(done.stdout)
        assert (said["errors_total"], said["job"]["status"]) == (1, "partly_failed")
        assert (said["verification"]["searchable"], said["verification"]["not_found"]) == (1, [])
        for option, stored in (("--strict", "nothing was stored"), ("--dry-run", "would be refused")):
            done = called("import-examples", path, "-n", namespace, option)
            first, last = done.stderr.splitlines()
            assert done.returncode == 1
            assert first == "sheet qa, row 3, column quality_grade: must be 优秀, 良好, 一般 or empty, not “很好”"
            assert stored in last
        done = called("examples", "statistics", "-n", namespace)
        assert (done.returncode, "用药咨询 1" in done.stdout) == (0, True)

    def it_writes_the_template_once(self, tmp_path):
        path = tmp_path / "t.xlsx"
        assert called("examples", "template", path).returncode == 0
        assert openpyxl.load_workbook(path).sheetnames[1:] == ["qa", "record", "query", "greeting"]
        assert called("examples", "template", path).returncode == 1
        assert called("examples", "template", path, "--force").returncode == 0

    @pytest.mark.parametrize(
        "arguments", [["nowhere.xlsx", "-n", "kb"], ["pyproject.toml", "-n", "kb"], ["pyproject.toml"]]
    )
    def it_exits_with_2_when_called_wrongly(self, arguments):
        assert called("import-examples", *arguments).returncode == 2


_MAIN = "http://schemas.openxmlformats.org/spreadsheetml/2006/main"


def _cell(column: str, row: int, text: str) -> str:
    return f'<c r="{column}{row}" t="inlineStr"><is><t>{text}</t></is></c>'


def as_qa(workbook: bytes) -> bytes:
    """The workbook with its sheet named for a category, so that it is read; one that cannot be opened as it is."""
    try:
        with zipfile.ZipFile(io.BytesIO(workbook)) as archive:
            index = archive.read("xl/workbook.xml").replace(b'name="Sheet"', b'name="qa"')
    except (zipfile.BadZipFile, KeyError):
        return workbook
    return with_part(workbook, "xl/workbook.xml", index)
