"""Layers of a PDF file that are switched off: pdfium does not draw them, has no call that names them, and reads their text.
A page looks the same without an object on such a layer."""

import ctypes
import re
import zlib
from collections import defaultdict
from contextlib import suppress
from typing import Any

import pypdfium2
from pypdfium2 import raw

_LAYERS, _OBJECTS, _STREAM = b"/OCProperties", b"/ObjStm", re.compile(rb"stream\r?\n")
_FORM_ON_LAYER = re.compile(rb"/OC\s*+\d+\s++\d+\s++R")
_MOST_PACKED, _MOST_UNPACKED = 2**20, 2**24  # bytes of objects in which layers are looked for, of a stream and in all
_NEAR = 1000  # bytes between the beginning of an object and its content
_MOST_OBJECTS, _MOST_FORMS = 20_000, 20  # of a page
_MOST_DRAWN, _MOST_PIXELS = 200, 500_000  # pages of a document that are drawn, and pixels of one
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
        groups = self._groups(page) if self._may_be else {}
        if not groups:
            return 0
        self._left -= any(name not in self._are_off for name in groups)
        shown, words = _drawn(page) if self._left >= 0 else b"", _words(page)
        for name, objects in groups.items():
            _show(objects, False)
            is_off = self._are_off[name] if name in self._are_off else bool(shown) and _drawn(page) == shown
            _show(objects, not is_off)
            if name and not name.startswith("\n"):
                self._are_off.setdefault(name, is_off)
        return words - _words(page)

    def _groups(self, page: pypdfium2.PdfPage) -> dict[str, list[Any]]:
        """Return the texts of a page by the names of their layers, and its parts that may be on one."""
        count = raw.FPDFPage_CountObjects(page.raw)
        groups: defaultdict[str, list[Any]] = defaultdict(list)
        for each in (raw.FPDFPage_GetObject(page.raw, at) for at in range(count if count <= _MOST_OBJECTS else 0)):
            kind = raw.FPDFPageObj_GetType(each)
            if kind == raw.FPDF_PAGEOBJ_TEXT and (name := _layer_of(each)) is not None:
                if raw.FPDFTextObj_GetTextRenderMode(each) != _INVISIBLE:
                    groups[name].append(each)
            elif kind == raw.FPDF_PAGEOBJ_FORM and self._has_forms and len(groups) < _MOST_FORMS:
                inner = (raw.FPDFFormObj_GetObject(each, at) for at in range(raw.FPDFFormObj_CountObjects(each)))
                texts = (text for text in inner if raw.FPDFPageObj_GetType(text) == raw.FPDF_PAGEOBJ_TEXT)
                if not any(raw.FPDFTextObj_GetTextRenderMode(text) == _INVISIBLE for text in texts):
                    groups[f"\n{len(groups)}"].append(each)
        return groups


def _show(objects: list[Any], is_shown: bool) -> None:
    for each in objects:
        raw.FPDFPageObj_SetIsActive(each, is_shown)


def _words(page: pypdfium2.PdfPage) -> int:
    return len(page.get_textpage().get_text_range().split())


def _has_layers(body: bytes) -> bool:
    """Return whether a file names layers in its packed objects."""
    at, left, packed = body.find(_OBJECTS), _MOST_UNPACKED, memoryview(body)
    while at >= 0 and left > 0:
        objects = b""
        if stream := _STREAM.search(body, at, at + _NEAR):
            with suppress(zlib.error):  # packed in another way
                begin = stream.end()
                objects = zlib.decompressobj().decompress(packed[begin : begin + _MOST_PACKED], left)
        if _LAYERS in objects:
            return True
        left -= len(objects) + _NEAR
        at = body.find(_OBJECTS, at + 1)
    return left <= 0


def _layer_of(each: object) -> str | None:
    """Return the name of an object's layer, empty for a combination of layers; None for an object on no layer."""
    for index in range(raw.FPDFPageObj_CountMarks(each)):
        mark = raw.FPDFPageObj_GetMark(each, index)
        if _text(raw.FPDFPageObjMark_GetName, mark) == "OC":
            return _text(raw.FPDFPageObjMark_GetParamStringValue, mark, b"Name")
    return None


def _text(read: Any, *arguments: object) -> str:
    buffer, length = ctypes.create_string_buffer(256), ctypes.c_ulong()
    is_found = read(*arguments, ctypes.cast(buffer, ctypes.POINTER(raw.FPDF_WCHAR)), len(buffer), length)
    return buffer.raw[: max(0, min(length.value, len(buffer)) - 2)].decode("utf-16-le", "replace") if is_found else ""


def _drawn(page: pypdfium2.PdfPage) -> bytes:
    width, height = page.get_size()
    scale = min(0.5, (_MOST_PIXELS / max(1.0, width * height)) ** 0.5)
    bitmap = page.render(scale=scale, grayscale=True, may_draw_forms=False)
    try:
        return bytes(bitmap.buffer)
    finally:
        bitmap.close()
