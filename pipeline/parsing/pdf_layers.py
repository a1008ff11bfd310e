"""Layers of a PDF file that are switched off: pdfium does not draw them, has no call that names them, and reads their text.
A page looks the same without an object on such a layer."""

import ctypes
import re
import zlib
from collections import defaultdict

import pypdfium2
from pypdfium2 import raw

_LAYERS, _OBJECTS, _STREAM = b"/OCProperties", b"/ObjStm", re.compile(rb"stream\r?\n")
_FORM_ON_LAYER = re.compile(rb"/OC\s*+\d+\s++\d+\s++R")
_MOST_UNPACKED = 16 * 1024 * 1024  # bytes of objects in which layers are looked for
_MOST_OBJECTS, _MOST_FORMS = 20_000, 20  # of a page
_MOST_DRAWN = 200  # pages in a document
_MOST_PIXELS = 500_000  # of a page that is drawn
_INVISIBLE = raw.FPDF_TEXTRENDERMODE_INVISIBLE  # the recognised text of a scan, which never shows


class Layers:
    """The layers of a document. Which ones are off is known once a page with them was drawn."""

    def __init__(self, body: bytes) -> None:
        self._may_be = b"/Encrypt" in body or _LAYERS in body or _has_layers(body)
        self._has_forms = self._may_be and _FORM_ON_LAYER.search(body) is not None
        self._are_off: dict[str, bool] = {}
        self._left = _MOST_DRAWN

    def leave_out(self, page: pypdfium2.PdfPage) -> int:
        """Take the text on layers that are off from a page. Return how many words these were."""
        count = raw.FPDFPage_CountObjects(page.raw) if self._may_be else 0
        groups: defaultdict[str, list[object]] = defaultdict(list)
        forms = 0
        for index in range(count if count <= _MOST_OBJECTS else 0):
            each = raw.FPDFPage_GetObject(page.raw, index)
            kind = raw.FPDFPageObj_GetType(each)
            if kind == raw.FPDF_PAGEOBJ_TEXT and (name := _layer_of(each)) is not None:
                if raw.FPDFTextObj_GetTextRenderMode(each) != _INVISIBLE:
                    groups[name].append(each)
            elif kind == raw.FPDF_PAGEOBJ_FORM and self._has_forms and forms < _MOST_FORMS and _is_plain(each):
                forms += 1
                groups[f"\nform {forms}"].append(each)
        self._left -= any(name not in self._are_off for name in groups)
        shown = _drawn(page) if groups and self._left >= 0 else b""
        words = len(page.get_textpage().get_text_range().split()) if groups else 0
        for name, objects in groups.items():
            _show(objects, False)
            is_off = self._are_off.get(name, False) if name in self._are_off or not shown else _drawn(page) == shown
            _show(objects, not is_off)
            if name and not name.startswith("\n"):
                self._are_off.setdefault(name, is_off)
        return words - len(page.get_textpage().get_text_range().split()) if groups else 0


def _show(objects: list[object], is_shown: bool) -> None:
    for each in objects:
        raw.FPDFPageObj_SetIsActive(each, is_shown)


def _has_layers(body: bytes) -> bool:
    """Return whether a file names layers in its packed objects."""
    at, left = body.find(_OBJECTS), _MOST_UNPACKED
    while at >= 0 and left > 0:
        if stream := _STREAM.search(body, at):
            try:
                objects = zlib.decompressobj().decompress(body[stream.end() :], left)
            except zlib.error:
                objects = b""
            if _LAYERS in objects:
                return True
            left -= len(objects)
        at = body.find(_OBJECTS, at + 1)
    return left <= 0


def _layer_of(each: object) -> str | None:
    """Return the name of an object's layer, empty for a combination of layers; None for an object on no layer."""
    for index in range(raw.FPDFPageObj_CountMarks(each)):
        mark = raw.FPDFPageObj_GetMark(each, index)
        if _text(raw.FPDFPageObjMark_GetName, mark) == "OC":
            return _text(raw.FPDFPageObjMark_GetParamStringValue, mark, b"Name")
    return None


def _text(read: object, *arguments: object) -> str:
    buffer, length = ctypes.create_string_buffer(256), ctypes.c_ulong()
    target = ctypes.cast(buffer, ctypes.POINTER(raw.FPDF_WCHAR))
    is_found = read(*arguments, target, len(buffer), length)  # type: ignore[operator]
    return buffer.raw[: max(0, min(length.value, len(buffer)) - 2)].decode("utf-16-le", "replace") if is_found else ""


def _is_plain(form: object) -> bool:
    """Return whether a part of a page holds no invisible text."""
    count = raw.FPDFFormObj_CountObjects(form)
    inner = (raw.FPDFFormObj_GetObject(form, index) for index in range(min(count, _MOST_OBJECTS)))
    return not any(
        raw.FPDFPageObj_GetType(each) == raw.FPDF_PAGEOBJ_TEXT and raw.FPDFTextObj_GetTextRenderMode(each) == _INVISIBLE
        for each in inner
    )


def _drawn(page: pypdfium2.PdfPage) -> bytes:
    width, height = page.get_size()
    scale = min(0.5, (_MOST_PIXELS / max(1.0, width * height)) ** 0.5)
    bitmap = page.render(scale=scale, grayscale=True, may_draw_forms=False)
    try:
        return bytes(bitmap.buffer)
    finally:
        bitmap.close()
