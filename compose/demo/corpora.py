"""The demo's documents: docstrings of Python's standard library, and Chinese articles written for the project."""

import ast
import json
import sysconfig
import warnings
from collections.abc import Iterable, Iterator
from itertools import islice
from pathlib import Path

from chordwise import Document

ENGLISH = "python-docs"
CHINESE = "zh-notes"

NOTICE_ID = "zh-notice-maintenance"  # the article that the demo sends a second time, changed
OLD_WORDS = "紫藤花开"
NEW_WORDS = "琥珀松风"

KINDS = ("module", "class", "function", "method")

MIN_CHARACTERS = 240  # shorter docstrings add little to their names
MAX_CHARACTERS = 6_000
MAX_ID_CHARACTERS = 64
MAX_PER_PACKAGE = 12  # so that no package fills the corpus

# Old enough to be in every Python from 3.11 on, and explained in prose rather than in tables of constants.
PACKAGES = """
    abc argparse ast asyncio base64 bdb bisect calendar cmd code codecs codeop collections compileall concurrent
    configparser contextlib copy copyreg csv ctypes dataclasses datetime difflib dis doctest email enum filecmp
    fileinput fnmatch fractions ftplib functools getopt getpass gettext glob graphlib gzip heapq hmac html http imaplib
    importlib inspect ipaddress json keyword linecache locale logging lzma mailbox mimetypes modulefinder
    multiprocessing netrc numbers optparse os pathlib pdb pickle pickletools pkgutil platform plistlib poplib posixpath
    pprint profile pstats pyclbr pydoc queue quopri random re reprlib runpy sched selectors shelve shlex shutil signal
    smtplib socket socketserver ssl statistics string stringprep subprocess symtable sysconfig tabnanny tarfile tempfile
    textwrap threading timeit tokenize trace traceback tracemalloc types typing unittest urllib uuid venv warnings wave
    weakref webbrowser wsgiref xml xmlrpc zipapp zipfile zipimport zoneinfo
"""


def python_docs(library: Path | None = None) -> list[Document]:
    """Return one document per module, class or public function of the standard library with a long docstring.

    The sources are parsed, never imported. Ids are the dotted names, so every run on the same Python gives the same
    documents in the same order. ``library`` is the folder of the standard library, by default the running Python's.
    """
    root = library or Path(sysconfig.get_paths()["stdlib"])
    documents: dict[str, Document] = {}
    for package in PACKAGES.split():
        for document in islice(_explained(root, package), MAX_PER_PACKAGE):
            documents.setdefault(str(document.document_id), document)
    return list(documents.values())


def chinese_notes() -> list[Document]:
    """Return the Chinese articles, in the order of their file."""
    lines = (Path(__file__).parent / "corpus_zh.jsonl").read_text(encoding="utf-8").splitlines()
    return [
        Document(**{**entry, "tags": tuple(entry["tags"])}, metadata={"language": "zh"})
        for entry in map(json.loads, lines)
    ]


def changed_notice(notes: Iterable[Document]) -> Document:
    """Return the corrected maintenance notice: same id, other words."""
    notice = next(note for note in notes if note.document_id == NOTICE_ID)
    return Document(
        document_id=NOTICE_ID,
        title=notice.title,
        text=notice.text.replace(OLD_WORDS, NEW_WORDS),
        author=notice.author,
        type=notice.type,
        tags=notice.tags,
        published_at=notice.published_at,
        metadata=notice.metadata,
    )


def _explained(root: Path, package: str) -> Iterator[Document]:
    """Yield the documents of one package: modules, classes, functions, methods; within each the order of the sources."""
    documents = [document for path in _sources(root, package) for document in _documents(root, path)]
    seen: set[str | None] = set()
    for document in sorted(documents, key=lambda document: KINDS.index(str(document.metadata["kind"]))):
        if document.document_id not in seen:
            seen.add(document.document_id)
            yield document


def _sources(root: Path, package: str) -> list[Path]:
    module = root / f"{package}.py"
    if module.is_file():
        return [module]
    return sorted(path for path in (root / package).glob("**/*.py") if _is_public(path.relative_to(root)))


def _is_public(path: Path) -> bool:
    parts = path.with_suffix("").parts
    return not any(part in {"test", "tests"} or (part.startswith("_") and part != "__init__") for part in parts)


def _documents(root: Path, path: Path) -> Iterator[Document]:
    parts = path.relative_to(root).with_suffix("").parts
    module = ".".join(parts[:-1] if parts[-1] == "__init__" else parts)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # some sources hold escapes that newer Pythons warn about
        tree = ast.parse(path.read_bytes())
    for name, kind, node in _named(module, tree):
        text = ast.get_docstring(node) or ""
        if MIN_CHARACTERS <= len(text) <= MAX_CHARACTERS and len(name) <= MAX_ID_CHARACTERS:
            yield Document(
                document_id=name,
                title=name,
                text=text,
                type="function" if kind == "method" else kind,
                tags=(parts[0],),
                metadata={"language": "en", "module": module, "kind": kind},
                source={"uri": f"pydoc:{name}", "media_type": "text/plain"},
            )


def _named(
    module: str, tree: ast.Module
) -> Iterator[tuple[str, str, ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef]]:
    yield module, "module", tree
    for node in tree.body:
        if isinstance(node, ast.ClassDef) and not node.name.startswith("_"):
            yield f"{module}.{node.name}", "class", node
            for inner in node.body:
                if isinstance(inner, ast.FunctionDef | ast.AsyncFunctionDef) and not inner.name.startswith("_"):
                    yield f"{module}.{node.name}.{inner.name}", "method", inner
        elif isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) and not node.name.startswith("_"):
            yield f"{module}.{node.name}", "function", node
