"""Text of pictures: optical character recognition by tesseract, page by page, each in a process with limits of its own.

Tesseract reads grey pixels that this process has decoded, never a file of a user: input that it takes for no picture is
a list of file names to it.
"""

import re
import resource
import subprocess
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from itertools import groupby
from statistics import fmean

from pipeline.errors import DocumentTooLarge, EmptyDocument, Rejected

DPI = 300  # dots per inch that tesseract's models were trained for
MOST_PIXELS = 25_000_000  # of a page as it is recognised: A3 at 300 dots per inch has 17 million
SWITCHED_OFF = "install tesseract-ocr and set CHORDWISE_OCR_LANGUAGES to read them"
# Percent, the mean of a line: below it are the marks that tesseract sees in drawings and photographs. Single words of a good
# line stay, because right ones of Chinese are often as doubtful.
_LEAST_CONFIDENCE = 35.0
_PAGES_NAMED = 5  # runs of page numbers in a sentence
_WORD = 5  # tesseract's level of a line of its table
_SPACE_OF_CJK = re.compile("(?<=[\u2e80-\u9fff\uff00-\uffef])[ ]+(?=[\u2e80-\u9fff\uff00-\uffef])")


class UnreadPages(Exception):
    """Pages were not recognised; ``remedy``: a clause for their reader that gives the reason or the way to change it.
    ``is_limit``: they would be too much work."""

    def __init__(self, remedy: str, *, is_limit: bool = False) -> None:
        super().__init__(remedy)
        self.remedy = remedy
        self.is_limit = is_limit


@dataclass(frozen=True, slots=True, kw_only=True)
class Recognition:
    """Settings of the recognition. ``languages``: of tesseract, as in ``chi_sim+eng``. ``program``: its path, None if
    it is not installed. ``most_pages``: recognised in a document. ``page_s``: processor time for a page."""

    languages: str
    program: str | None
    most_pages: int
    page_s: float


@dataclass(frozen=True, kw_only=True)
class PageReader:
    """Recognises pages. ``begin_page`` is called before each, so that the limits of the process can follow."""

    recognition: Recognition
    begin_page: Callable[[], None] = field(default=lambda: None)

    def check(self, pages: int) -> None:
        """Raise UnreadPages unless so many pages of a document can be recognised here."""
        limits = self.recognition
        if pages > limits.most_pages:
            reason = f"at most {limits.most_pages} are recognised in a document (CHORDWISE_OCR_MAX_PAGES)"
            raise UnreadPages(reason, is_limit=True)
        if limits.program is None:
            raise UnreadPages("tesseract is not installed where documents are parsed; install tesseract-ocr")
        if missing := [name for name in limits.languages.split("+") if name not in self._installed]:
            packages = ", ".join(f"tesseract-ocr-{name.replace('_', '-').lower()}" for name in missing)
            raise UnreadPages(f"tesseract has no data for {', '.join(missing)}; install {packages}")

    def read(self, pixels: bytes, *, width: int, height: int) -> str:
        """Return the lines of a page of grey pixels, an empty line between paragraphs. Raises UnreadPages."""
        self.begin_page()
        page = b"P5 %d %d 255\n" % (width, height) + pixels
        options = ("-l", self.recognition.languages, "--dpi", str(DPI), "-c", "tessedit_create_tsv=1")
        # The parser process has one thread, so that it may run code of ours before the program.
        done = self._run(["stdin", "stdout", *options], page, before=self._limit)
        if done.returncode:
            raise UnreadPages(self._failure(done.returncode))
        return _text(done.stdout.decode("utf-8", "replace"))

    @cached_property
    def _installed(self) -> frozenset[str]:
        """The languages that tesseract has data for."""
        return frozenset(self._run(["--list-langs"]).stdout.decode("utf-8", "replace").split())

    def _run(
        self, arguments: Sequence[str], page: bytes = b"", *, before: Callable[[], None] | None = None
    ) -> subprocess.CompletedProcess[bytes]:
        assert self.recognition.program is not None
        # Its own folders are below its program; threads would multiply its processor time for little speed.
        environment = {"PATH": "/usr/bin:/bin", "OMP_THREAD_LIMIT": "1", "LC_ALL": "C.UTF-8"}
        try:
            return subprocess.run(
                [self.recognition.program, *arguments],
                input=page,
                capture_output=True,
                env=environment,
                preexec_fn=before,
                check=False,
            )
        except OSError as error:
            raise UnreadPages(f"tesseract does not start ({type(error).__name__})") from None

    def _limit(self) -> None:
        """Bound the processor time of a process about to start; it inherits the bound of memory."""
        seconds = max(1, round(self.recognition.page_s))
        resource.setrlimit(resource.RLIMIT_CPU, (seconds, seconds))

    def _failure(self, code: int) -> str:
        if code in (-24, -9, 128 + 24, 128 + 9):  # SIGXCPU or SIGKILL, also as a shell reports them
            seconds = f"{self.recognition.page_s:g} s (CHORDWISE_OCR_PAGE_TIMEOUT_S)"
            return f"recognising them took more than {seconds} a page"
        return f"tesseract ended with exit code {code}"


def unread(numbers: Sequence[int], total: int, remedy: str, *, what: str = "page") -> str:
    """Return the sentence about pages (or slides) that hold only pictures and were not read."""
    verb = "hold" if len(numbers) > 1 else "holds"
    return f"{len(numbers)} of {total} {what}s {verb} only pictures ({_runs(numbers)}): {remedy}"


def refusal(sentence: str, *, is_limit: bool) -> Rejected:
    """Return the error for a document without any text but in unread pictures."""
    return DocumentTooLarge(sentence) if is_limit else EmptyDocument(sentence)


def _runs(numbers: Iterable[int]) -> str:
    """Return page numbers in short: ``2-4, 9``."""
    runs = []
    for _, members in groupby(enumerate(sorted(numbers)), key=lambda pair: pair[1] - pair[0]):
        run = [number for _, number in members]
        runs.append(f"{run[0]}-{run[-1]}" if len(run) > 1 else f"{run[0]}")
    return ", ".join(runs[:_PAGES_NAMED]) + (", …" if len(runs) > _PAGES_NAMED else "")


def _text(table: str) -> str:
    """Return the text of tesseract's table of words, without the lines it is unsure of."""
    words = [row for line in table.splitlines()[1:] if len(row := line.split("\t")) == 12 and row[0] == str(_WORD)]
    paragraphs = []
    for _, paragraph in groupby(words, key=lambda row: row[1:4]):  # page, block, paragraph
        lines = []
        for _, members in groupby(paragraph, key=lambda row: row[4]):
            line = list(members)
            text = _SPACE_OF_CJK.sub("", " ".join(row[11] for row in line)).strip()
            if text and fmean(float(row[10]) for row in line) >= _LEAST_CONFIDENCE:
                lines.append(text)
        if lines:
            paragraphs.append("\n".join(lines))
    return "\n\n".join(paragraphs)
