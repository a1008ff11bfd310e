"""A sentence encoder of a few hundred bytes, written without the onnx package: a table of token vectors and a lookup."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np

WORDS = (
    "[UNK]",
    "query",
    "passage",
    ":",
    "fox",
    "foxes",
    "red",
    "the",
    "runs",
    "fast",
    "invoice",
    "unpaid",
    "狐",
    "狸",
    "账",
    "单",
)
DIMENSION = 8


def _field(number: int, body: bytes) -> bytes:
    return bytes([number << 3 | 2]) + _varint(len(body)) + body


def _number(number: int, value: int) -> bytes:
    return bytes([number << 3]) + _varint(value)


def _varint(value: int) -> bytes:
    out = bytearray()
    while value > 127:
        out.append(value & 127 | 128)
        value >>= 7
    return bytes([*out, value])


def _value(name: str, kind: int, *dims: str | int) -> bytes:
    """A ValueInfoProto: a tensor of ``kind`` (1 float, 7 int64) with named or fixed dimensions."""
    shape = b"".join(_field(1, _field(2, d.encode()) if isinstance(d, str) else _number(1, d)) for d in dims)
    return _field(1, name.encode()) + _field(2, _field(1, _number(1, kind) + _field(2, shape)))


def network(*, output: str = "last_hidden_state", token_input: str = "input_ids") -> bytes:
    """A ModelProto that gives each token its row of a table: similar words have similar rows."""
    table = np.random.default_rng(5).normal(size=(len(WORDS), DIMENSION)).astype(np.float32)
    table[WORDS.index("foxes")] = table[WORDS.index("fox")]
    tensor = (
        _number(1, len(WORDS))
        + _number(1, DIMENSION)
        + _number(2, 1)
        + _field(8, b"table")
        + _field(9, table.tobytes())
    )
    node = _field(1, b"table") + _field(1, token_input.encode()) + _field(2, output.encode()) + _field(4, b"Gather")
    graph = (
        _field(1, node)
        + _field(2, b"tiny")
        + _field(5, tensor)
        + _field(11, _value(token_input, 7, "batch", "length"))
        + _field(12, _value(output, 1, "batch", "length", DIMENSION))
    )
    return _number(1, 8) + _field(7, graph) + _field(8, _number(2, 13))


def write_encoder(
    folder: Path, *, onnx: bytes | None = None, network_name: str = "model.onnx", **files: object
) -> Path:
    """Write an encoder into ``folder``, and ``files``, JSON by the name of the file without its ending."""
    path = folder / network_name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(onnx or network())
    tokenizer = {
        "version": "1.0",
        "truncation": None,
        "padding": None,
        "added_tokens": [],
        "normalizer": {
            "type": "BertNormalizer",
            "clean_text": True,
            "handle_chinese_chars": True,
            "strip_accents": None,
            "lowercase": True,
        },
        "pre_tokenizer": {"type": "BertPreTokenizer"},
        "post_processor": None,
        "decoder": None,
        "model": {
            "type": "WordLevel",
            "vocab": {word: place for place, word in enumerate(WORDS)},
            "unk_token": "[UNK]",
        },
    }
    for name, content in {"tokenizer": tokenizer, **files}.items():
        place = folder / f"{name}.json"
        place.parent.mkdir(parents=True, exist_ok=True)
        place.write_text(json.dumps(content), encoding="utf-8")
    return folder
