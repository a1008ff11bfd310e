"""Sources: the origins of documents."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Annotated, Any, Literal

from chordwise.contract.document import Readers, SourceKindName, Tags, TypeName
from chordwise.contract.limits import Length
from chordwise.contract.record import Answered

Pattern = Annotated[str, Length(1024, least=1, example="handbook/**/*.md")]


@dataclass(frozen=True, slots=True, kw_only=True)
class SourceRule:
    """The documents that files become whose path matches `path`: `*` stands for anything within a folder, `**` for any folders.
    All rules that match apply, in order: tags and metadata are added, the last `document_id`, `type` and `readers` hold.
    `document_id` may hold `{path}`, `{folder}`, `{name}` and `{stem}`. `skip`: such a file is no document."""

    path: Pattern | None = None
    skip: bool | None = None
    document_id: Annotated[str, Length(255, least=1, example="hr-{path}")] | None = None
    type: TypeName | None = None
    tags: Tags = ()
    metadata: Mapping[str, Any] = field(default_factory=dict)
    readers: Readers | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class SourceChange(Answered):
    """A file that a run added, changed, removed or skipped, and the reason."""

    path: str
    action: Literal["added", "changed", "removed", "skipped"]
    reason: str


@dataclass(frozen=True, slots=True, kw_only=True)
class SourceRun(Answered):
    """The result of the latest run. `listed`: files of the source; `changes`: the first hundred. `error`: why it ended before
    it was through, null if it did not. It has ended when `ended_at` is set; its job ends with its last document."""

    started_at: datetime
    ended_at: datetime | None
    listed: int
    added: int
    changed: int
    removed: int
    unchanged: int
    skipped: int
    error: str | None
    changes: tuple[SourceChange, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class FollowedSource(Answered):
    """How a source is followed. `every_seconds`: from one run to the next; `next_run_at` is null while it is paused.
    `held_removals`: documents that are gone from the source and stay until this is confirmed, null if none wait.
    `job_id`: of the latest run. Its secret is never shown."""

    url: str
    every_seconds: int
    rules: tuple[Mapping[str, Any], ...]
    has_secret: bool
    next_run_at: datetime | None
    held_removals: int | None
    job_id: str | None
    run: SourceRun | None


@dataclass(frozen=True, slots=True, kw_only=True)
class SourceInfo(Answered):
    """A source with its documents. `statuses`: number of `documents` by status. `chunks`: the searchable ones.
    `encoding` is null unless all its documents share one; `page_start` and `page_end` are the first and the last page
    of any of them. `followed`: null for a source whose documents were sent one by one."""

    source_id: str
    namespace: str
    kind: SourceKindName
    uri: str | None
    media_type: str
    encoding: str | None
    page_start: int | None
    page_end: int | None
    documents: int
    statuses: Mapping[Literal["queued", "running", "succeeded", "failed", "cancelled"], int]
    chunks: int
    created_at: datetime
    updated_at: datetime
    followed: FollowedSource | None


@dataclass(frozen=True, slots=True, kw_only=True)
class SourceDeleted(Answered):
    """How many documents were deleted with a source."""

    source_id: str
    namespace: str
    documents: int
