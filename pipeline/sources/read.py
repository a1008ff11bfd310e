"""The process that reads one source: `python -m pipeline.sources.read`, with frames on standard streams. It has no settings and
no environment, connects to allowed addresses alone, and ends with its run, whatever a store does to it."""

import importlib.metadata
import resource
import shutil
import tempfile
from collections.abc import Callable, Iterator, Mapping
from functools import partial
from itertools import islice
from pathlib import Path
from typing import Any, BinaryIO
from urllib.parse import urlsplit

from pipeline.errors import FetchFailed, FetchRefused, FetchUnavailable, PipelineError
from pipeline.outbound.addresses import parse_networks
from pipeline.sandbox.pipes import own_streams, packed, read_exactly, read_frame
from pipeline.sources import fsspec_client, git_client, guard
from pipeline.sources.entry import GROUP, MOST_FILES, Entry, SourceReader
from pipeline.sources.folder_client import open_folder

_MEMORY_BYTES = 2 * 1024**3
_TOGETHER = 500  # files in a frame
_KINDS = (FetchRefused, FetchFailed, FetchUnavailable)


def main() -> None:
    """List the source, then read the files that are asked for until the input ends."""
    requests, answers = own_streams()
    read = partial(read_exactly, requests)
    order, _ = read_frame(read)
    hard = resource.getrlimit(resource.RLIMIT_AS)[1]
    resource.setrlimit(resource.RLIMIT_AS, (_MEMORY_BYTES, hard))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    tempfile.tempdir = order["scratch"]
    guard.allow_only(parse_networks(order["networks"]))
    try:
        _serve(order, read, lambda header, body=b"": _send(answers, header, body))
    except EOFError:
        pass  # the run's process has ended, perhaps without a chance to drop the files
    finally:
        shutil.rmtree(order["scratch"], ignore_errors=True)


def _serve(order: Mapping[str, Any], read: Callable[[int], bytes], send: Callable[..., None]) -> None:
    try:
        reader = open_reader(order)
        for some in _batches(islice(reader.entries(), MOST_FILES + 1)):
            send({"entries": [[e.path, e.version, e.size, e.skipped, e.hides] for e in some]})
        send({"listed": True})
    except Exception as error:  # noqa: BLE001 - a store or a plug-in may raise anything; the run reports it
        send(_failure(error))
        return
    while True:
        wanted, _ = read_frame(read)
        try:
            body = reader.read(wanted["read"], order["most_bytes"])
        except FileNotFoundError:
            send({"gone": True})
        except Exception as error:  # noqa: BLE001 - as above
            send(_failure(error))
        else:
            send({"size": len(body)}, body if len(body) <= order["most_bytes"] else b"")


def open_reader(order: Mapping[str, Any]) -> SourceReader:
    """Return the reader of a source. Raises FetchRefused for a scheme that nothing reads."""
    url, secret = order["url"], order["secret"]
    scheme = urlsplit(url).scheme
    folders = [Path(folder) for folder in order["folders"]]
    if scheme == "file":
        return open_folder(url, secret, allowed=folders)
    if scheme in git_client.SCHEMES:
        permitted = parse_networks(order["networks"])
        return git_client.open_repository(url, secret, permitted=permitted, allowed=folders)
    if scheme in ("http", "https"):
        from pipeline.sources.site_client import SiteReader  # httpx takes as long to load as all else here

        return SiteReader(url, secret)
    if scheme in fsspec_client.SCHEMES:
        return fsspec_client.open_store(url, secret)
    for entry in importlib.metadata.entry_points(group=GROUP, name=scheme):
        reader: SourceReader = entry.load()(url, secret)
        return reader
    raise FetchRefused(f"nothing here reads {scheme[:32]} URLs")


def _failure(error: Exception) -> dict[str, Any]:
    """Return the frame of an error. Texts of libraries may hold keys, so it has only the kind of theirs."""
    if guard.refused:
        guard.refused.clear()
        return {"error": "FetchRefused", "detail": "the source has an address that this installation may not ask"}
    if isinstance(error, FileNotFoundError):
        return {"error": "FetchFailed", "detail": "there is nothing at this address"}
    if isinstance(error, PipelineError):
        kind = next((kind for kind in _KINDS if isinstance(error, kind)), FetchUnavailable)
        return {"error": kind.__name__, "detail": str(error)}
    return {"error": "FetchUnavailable", "detail": f"reading the source failed: {type(error).__name__}"}


def _batches(entries: Iterator[Entry]) -> Iterator[tuple[Entry, ...]]:
    while some := tuple(islice(entries, _TOGETHER)):
        yield some


def _send(answers: BinaryIO, header: dict[str, Any], body: bytes) -> None:
    answers.write(packed(header, body))
    answers.flush()


if __name__ == "__main__":
    main()
