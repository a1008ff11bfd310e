"""A workbook with four tables of medical examples, and queries of them."""

from __future__ import annotations

import subprocess
from pathlib import Path
from typing import Any, NamedTuple

import httpx

from chordwise.api.examples import ExamplesImport
from chordwise.example_step import EXAMPLE_NAMESPACES
from tests.support.corpora.documents import search

HEADER = ["user_input", "agent_response", "tags", "quality_grade", "notes"]
NOTE = "内部备注：待审核"
COFFEE = "血压高可以喝咖啡吗？"
SHEETS: dict[str, list[list[str]]] = {
    "qa_examples": [
        [COFFEE, "血压高时建议少喝咖啡，每天不超过一杯。", "健康咨询,高血压,普通咨询", "优秀", NOTE],
        ["血压高可以喝茶吗？", "可以喝淡茶，血压高时不要喝浓茶。", "健康咨询，高血压", "良好", ""],
        ["血压高可以跑步吗？", "血压控制稳定后可以慢跑。", "健康咨询", "一般", ""],
        ["血压高怎么办？", "先休息十分钟再量一次血压。", "症状询问", "优秀", ""],
        ["降压药可以饭后吃吗？", "可以，关键是每天固定时间。", "用药咨询", "优秀", ""],
        ["感冒了吃什么药？", "多喝水，  注意休息。", "用药咨询", "", ""],
        ["胸痛怎么办？", "", "安全边界场景", "优秀", ""],
    ],
    "record_examples": [
        ["记录一下，早上血压 150/95", "好的，已经记录早上血压 150/95。", "blood_pressure,完整", "优秀", ""],
        ["我今天吃了降压药", "已记录今天的用药。", "medication", "良好", ""],
        ["今天头晕", "已记录头晕症状。", "symptom", "很好", ""],
    ],
    "query_examples": [
        ["我最近一周的血压怎么样？", "最近一周平均血压 132/84。", "blood_pressure,最近一周", "优秀", ""],
        ["", "", "", "", "只有备注的一行"],
        ["这个月我吃了几次药？", "这个月记录了二十次用药。", "medication,这个月", "良好", ""],
    ],
    "greeting_examples": [
        ["早上好", "早上好！今天感觉怎么样？", "日常问候", "优秀", ""],
        ["谢谢，再见", "不客气，祝您健康。", "告别", "良好", ""],
    ],
}


class Library(NamedTuple):
    """The gateway with the key of the tenant that has the four tables; what the command said of one of them, and the
    client of the others."""

    client: httpx.Client
    key: str
    book: Path
    told: subprocess.CompletedProcess[str]
    imported: dict[str, ExamplesImport]


def ask(client: httpx.Client, question: str, namespaces: Any = EXAMPLE_NAMESPACES, **fields: Any) -> dict[str, Any]:
    return search(client, namespaces, question, profile="medical_examples", trace=True, **fields)
