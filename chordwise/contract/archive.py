"""Archives of namespaces."""

from dataclasses import dataclass
from datetime import datetime

from chordwise.contract.record import Answered


@dataclass(frozen=True, slots=True, kw_only=True)
class ImportedPart(Answered):
    """A received part and the job of its documents. `vectors_kept`: its vectors are stored as they are, because this
    installation's model made them; otherwise its chunks are embedded again."""

    part: int
    sha256: str
    job_id: str
    documents: int
    chunks: int
    vectors: int
    vectors_kept: bool
    received_at: datetime
    finished: bool
