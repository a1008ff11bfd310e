"""The template of a book: four sheets to fill in, and a guide. In Chinese, like its users."""

from __future__ import annotations

import functools
import io
from typing import TYPE_CHECKING, Any

from pipeline.examples.example import GRADES, Category, Column

if TYPE_CHECKING:
    from openpyxl.worksheet.worksheet import Worksheet

GUIDE_SHEET = "说明"
_ROWS_WITH_CHOICES = 5000
_COLUMNS = (
    (Column.USER_INPUT, 40, "必填。用户说的话，原样填写。"),
    (Column.AGENT_RESPONSE, 70, "必填。助手应当给出的回复，可以分行。"),
    (Column.TAGS, 30, "选填。多个标签用逗号、顿号或分号隔开。"),
    (Column.QUALITY_GRADE, 14, "选填。只能是：优秀、良好、一般。"),
    (Column.NOTES, 30, "选填。仅供整理者参考，不会导入。"),
)
_NOTE = "示例行，可以删除"
_ROWS: dict[Category, tuple[str, str, str, str]] = {
    Category.QA: (
        "降压药可以饭后吃吗？",
        "多数降压药饭前饭后都可以服用，关键是每天固定时间。\n请以药品说明书和医生的嘱咐为准，不要自行停药或加量。",
        "用药咨询，高血压，普通咨询",
        "优秀",
    ),
    Category.RECORD: (
        "今天早上量的血压是135/85，心率72。",
        "好的，已记录：今天早上，血压135/85 mmHg，心率72次/分。",
        "blood_pressure，完整",
        "优秀",
    ),
    Category.QUERY: (
        "我最近一周的血压怎么样？",
        "最近一周您共记录了7次血压，平均132/84 mmHg，整体平稳。",
        "blood_pressure，最近一周",
        "良好",
    ),
    Category.GREETING: (
        "早上好！",
        "早上好！今天感觉怎么样？要记录一下血压吗？",
        "日常问候",
        "良好",
    ),
}
_SHEETS = {
    Category.QA: "健康咨询类问题：健康知识、用药、症状、安全边界",
    Category.RECORD: "数据记录类问题：血压、用药、症状、健康事件",
    Category.QUERY: "数据查询类问题：各类记录的查询与统计",
    Category.GREETING: "问候类：开场白、寒暄、告别",
}
_RULES = (
    "每一行是一个示例，导入后成为一篇可检索的文档。",
    "请不要改动工作表名称和第一行的列名；可以用中文列名：用户输入、助手回复、标签、质量等级、备注。",
    "空行会被忽略；多余的空格和换行会被整理。",
    "同一类别中用户输入相同的行，再次导入时会替换原有示例；若要修改用户输入本身，请增加一列“编号”。",
    "两项内容完全相同的行只导入一次。",
    "公式只取保存时的结果；隐藏的工作表不会导入，隐藏的行会导入。",
    "质量等级：优秀=完整、准确、可直接采用；良好=基本正确；一般=仅供参考。",
    "请勿填写患者姓名、电话等个人信息。",
    "导入前可以先检查：chordwise import-examples 文件.xlsx --namespace 知识库 --dry-run",
)


@functools.cache
def template() -> bytes:
    """Return the workbook. It can be imported as it is: each sheet has one valid row."""
    # Imported here: most gateways never need it.
    from openpyxl import Workbook
    from openpyxl.worksheet.datavalidation import DataValidation

    workbook = Workbook()
    guide = workbook.active
    guide.title = GUIDE_SHEET
    _write_guide(guide)
    for category, row in _ROWS.items():
        sheet = workbook.create_sheet(category.value)
        sheet.append([column.value for column, _, _ in _COLUMNS])
        sheet.append((*row, _NOTE))
        _lay_out(sheet, [width for _, width, _ in _COLUMNS])
        choices = DataValidation(type="list", formula1=f'"{",".join(GRADES)}"', allow_blank=True, showErrorMessage=True)
        choices.error, choices.errorTitle = f"只能是：{'、'.join(GRADES)}", "质量等级"
        letter = "ABCDE"[[column for column, _, _ in _COLUMNS].index(Column.QUALITY_GRADE)]
        choices.add(f"{letter}2:{letter}{_ROWS_WITH_CHOICES}")
        sheet.add_data_validation(choices)
    workbook.active = 1
    out = io.BytesIO()
    workbook.save(out)
    return out.getvalue()


def _write_guide(sheet: Worksheet) -> None:
    lines: list[tuple[Any, ...]] = [("示例库填写说明",), ()]
    lines += [("工作表", "内容"), *((category.value, about) for category, about in _SHEETS.items()), ()]
    lines += [("列", "要求"), *((column.value, about) for column, _, about in _COLUMNS), ()]
    lines += [("规则",), *((number, rule) for number, rule in enumerate(_RULES, start=1))]
    for line in lines:
        sheet.append(line)
    _lay_out(sheet, [20, 100])


def _lay_out(sheet: Worksheet, widths: list[int]) -> None:
    from openpyxl.styles import Alignment, Font

    for cell in sheet[1]:
        cell.font = Font(bold=True)
    for letter, width in zip("ABCDE", widths, strict=False):
        sheet.column_dimensions[letter].width = width
        for cell in sheet[letter]:
            cell.alignment = Alignment(wrap_text=True, vertical="top")
    sheet.freeze_panes = "A2"
