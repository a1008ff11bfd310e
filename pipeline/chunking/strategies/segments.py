"""`segments`: segments of a story with chapter, story time, entities and summary, from `name: value` lines below a
heading or of a json list's objects. A heading's chapter and story time hold below it until replaced."""

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace

from pipeline.chunking.strategies.strategy import (
    MAX_TOKENS,
    OVERLAP,
    Cut,
    PassageBudget,
    Strategy,
    cut_stretch,
    numbered,
)
from pipeline.errors import MalformedDocument
from pipeline.records import Chunking, Parsed, Passage, Section, Segment

_NAMES = {
    "chapter_id": "chapter_id chapter chapter_number 章节 章节号 章",
    "story_time": "story_time 故事时间 时间线",
    "entity_names": "entity_names entities characters 实体 人物 角色",
    "summary": "summary 摘要 概要 梗概",
    "content": "content text body 正文 内容",
}
_FIELDS = {name: kind for kind, names in _NAMES.items() for name in names.split()}
_LINE = re.compile(
    r"^[ \t]*(?:[\w-]{1,40}\.){0,3}(?P<name>[A-Za-z_][\w-]{0,39}|[\u4e00-\u9fff]{1,8})[ \t]?[:：][ \t]*(?P<value>.*)$",
    re.MULTILINE,
)
_OTHER_FIELD = re.compile(r"(?:[\w-]{1,40}\.){0,3}([a-z_][a-z0-9_-]{0,39}): (.*)")
_BETWEEN_NAMES = re.compile(r"[,，、;；]")
_INTEGER = re.compile(r"[-+]?\d{1,19}")
_INT64 = 2**63
_LONGEST_CHAPTER = 255  # characters
_LONGEST_VALUE = 4096  # characters of a summary or of all entity names
_MOST_ENTITIES = 200
_LONGEST_GAP = 64  # characters of white space between paragraphs


@dataclass(slots=True)
class _Block:
    """A segment while it is read: its fields as text, and where its body stands, which may be in several places."""

    fields: dict[str, str] = field(default_factory=dict)
    others: dict[str, str] = field(default_factory=dict)
    bodies: list[tuple[int, int]] = field(default_factory=list)


def _cut(parsed: Parsed, chunking: Chunking, allowance: PassageBudget) -> Cut:
    """Return each segment's body in passages with its fields. Raises MalformedDocument for a wrong story time."""
    passages: list[Passage] = []
    inherited: dict[tuple[str, ...], Segment] = {}
    for section in parsed.sections:
        above = _above(section.heading_path, inherited)
        for index, block in enumerate(_segments(parsed.text, section)):
            segment = _segment(block, above)
            above = replace(above, chapter_id=segment.chapter_id)  # of a list of segments, the first one may name it
            if index == 0 and section.heading_path:
                inherited[section.heading_path] = segment
            for start, end in block.bodies:
                cut = allowance.taken_by(cut_stretch(parsed, start, end, chunking))
                passages += [replace(passage, segment=segment) for passage in cut]
    return Cut(passages=numbered(passages, chunk_type="segment"))


def _indexed(passage: Passage) -> str:
    """Return text, summary and entity names."""
    segment = passage.segment or Segment()
    parts = (passage.text, segment.summary, " ".join(segment.entity_names))
    return "\n".join(part for part in parts if part)


def _above(path: tuple[str, ...], inherited: Mapping[tuple[str, ...], Segment]) -> Segment:
    """Return the fields that the nearest heading above sets; without any, the first heading is the chapter."""
    for depth in range(len(path) - 1, 0, -1):
        if (segment := inherited.get(path[:depth])) is not None:
            return Segment(chapter_id=segment.chapter_id, story_time=segment.story_time)
    return Segment(chapter_id=path[0][:_LONGEST_CHAPTER] if path else None)


def _segments(text: str, section: Section) -> Iterator[_Block]:
    """Yield the segments of a section. A new one begins where a field repeats, or where fields follow a body."""
    labels = [match for match in _LINE.finditer(text, section.start, section.end) if match["name"].lower() in _FIELDS]
    begins = list(_beginnings(text, section, labels))
    block = _Block()
    _add_body(block, text, section.start, begins[0] if begins else section.end, heading=section.heading_path[-1:])
    read = section.start  # up to where other fields were looked for
    for label, begin, end in zip(labels, begins, [*begins[1:], section.end], strict=False):
        kind = _FIELDS[label["name"].lower()]
        if kind in block.fields or (block.bodies and _opens_paragraph(text, begin, section.start)):
            yield block
            block = _Block()
        _add_others(block, text[max(begin, read) : label.start()].split("\n"))
        read = label.end()
        block.fields[kind] = label["value"].strip()
        if kind == "content":
            _add_body(block, text, label.start("value"), end)
        else:
            _add_body(block, text, _after_other_fields(block, text, label.end(), end), end)
    yield block


def _beginnings(text: str, section: Section, labels: Sequence[re.Match[str]]) -> Iterator[int]:
    """Return for each label the beginning of its fields: the start of its paragraph, if fields other than the content fill
    it, in whichever order they come."""
    begin = position = section.start  # of the paragraph, and of the line that is looked at
    filled = True  # whether every line of the paragraph was a field so far
    for match in labels:
        label = match.start()
        while position < label:
            end = text.find("\n", position, label)
            line = text[position : label if end < 0 else end]
            position = label if end < 0 else end + 1
            if line.strip(" \t"):
                filled = filled and _OTHER_FIELD.fullmatch(line) is not None
            else:
                begin, filled = position, True
        yield begin if filled else label
        filled = filled and _FIELDS[match["name"].lower()] != "content"


def _opens_paragraph(text: str, at: int, start: int) -> bool:
    before = text[max(start, at - _LONGEST_GAP) : at]
    return before.count("\n", len(before.rstrip())) > 1 or not before.strip()


def _add_others(block: _Block, lines: list[str]) -> None:
    for line in lines:
        if (other := _OTHER_FIELD.fullmatch(line)) and other[1] not in _FIELDS:
            block.others.setdefault(other[1], other[2].strip())


def _after_other_fields(block: _Block, text: str, start: int, end: int) -> int:
    """Return the end of the fields in the lines directly below a label."""
    position = start
    for line in text[start:end].split("\n")[1:]:
        if not _OTHER_FIELD.fullmatch(line):
            break
        _add_others(block, [line])
        position += 1 + len(line)
    return position


def _add_body(block: _Block, text: str, start: int, end: int, *, heading: tuple[str, ...] = ()) -> None:
    """Add text that is no field. A heading alone is no body: it belongs to the text below it."""
    body = text[start:end].strip()
    if body and not (heading and " ".join(body.split()).startswith(heading[0]) and "\n" not in body):
        block.bodies.append((start, end))


def _segment(block: _Block, above: Segment) -> Segment:
    fields = block.fields
    names = [name.strip() for name in _BETWEEN_NAMES.split(fields.get("entity_names", "")[:_LONGEST_VALUE])]
    return Segment(
        chapter_id=fields.get("chapter_id", "")[:_LONGEST_CHAPTER] or above.chapter_id,
        story_time=_story_time(fields["story_time"]) if fields.get("story_time") else above.story_time,
        entity_names=tuple(dict.fromkeys(name for name in names if name))[:_MOST_ENTITIES],
        summary=fields.get("summary", "")[:_LONGEST_VALUE] or None,
        attributes=block.others,
    )


def _story_time(value: str) -> int:
    if not _INTEGER.fullmatch(value) or not -_INT64 <= int(value) < _INT64:
        raise MalformedDocument(f"the story time {value[:40]!r} is no integer of 64 bits")
    return int(value)


SEGMENTS = Strategy(
    name="segments",
    meaning="Each segment of a story with its chapter, story time, entities and summary, from headings, rows or json.",
    cut=_cut,
    options={"max_tokens": MAX_TOKENS, "overlap": OVERLAP},
    indexed=_indexed,
)
