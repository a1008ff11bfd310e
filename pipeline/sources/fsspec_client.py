"""Read stores through the filesystems of fsspec: S3, Google Cloud Storage, Azure, SFTP, WebDAV."""

from collections.abc import AsyncIterator, Iterator, Mapping
from contextlib import contextmanager
from datetime import datetime
from itertools import chain
from typing import Any
from urllib.parse import unquote, urlsplit

from pipeline.errors import FetchFailed, FetchRefused, FetchUnavailable
from pipeline.sources.entry import Entry, is_utf_8

_TRIES, _TIMEOUT_S = 2, 30
_AT_ONCE = 1000  # keys between two turns of the filesystem's event loop
_DEEPEST = 64  # folders; a link that leads to a folder above it would go on for ever
_VERSIONS = ("ETag", "etag", "generation", "md5Hash", "content_md5", "version_id")
_TIMES = ("mtime", "LastModified", "last_modified", "modified", "updated")
_AUTHORITY = {"s3": False, "gs": False, "az": False, "sftp": True, "webdav": True, "webdavs": True}  # host, not bucket
_AZURE = ("account_name", "account_key", "sas_token", "connection_string")
SCHEMES = tuple(_AUTHORITY)


class StoreReader:
    """The files below a path of a filesystem."""

    def __init__(self, filesystem: Any, root: str) -> None:
        self._fs, self._root = filesystem, root.rstrip("/")

    def entries(self) -> Iterator[Entry]:
        """Yield every file: page by page where the store has no folders, else folder by folder."""
        with _translated():
            found = self._keys() if hasattr(self._fs, "_iterdir") else self._below(self._root, 0)
            yield from found

    def _keys(self) -> Iterator[Entry]:
        """Yield what an S3 lists, without holding it: `find` would need a gigabyte for a million keys."""
        from fsspec.asyn import sync

        bucket, _, prefix = self._root.partition("/")
        listed = self._fs._iterdir(bucket, delimiter="", prefix=f"{prefix}/" if prefix else "")
        while some := sync(self._fs.loop, _take, listed, _AT_ONCE):
            for info in some:
                if not info["name"].endswith("/"):  # a key that stands for a folder
                    yield self._entry(info)

    def _below(self, folder: str, depth: int) -> Iterator[Entry]:
        try:
            found = self._fs.ls(folder or "/", detail=True)
        except (FileNotFoundError, NotADirectoryError, PermissionError):
            if not depth:
                raise
            yield Entry(path=self._path(folder), skipped="the folder cannot be read", hides=True)
            return
        folders = []
        for info in found:
            kind = info.get("type")
            if info["name"].rstrip("/") == folder.rstrip("/"):
                continue
            if not is_utf_8(info["name"]):
                shown = self._path(info["name"]).encode("utf-8", "surrogateescape").decode("utf-8", "backslashreplace")
                yield Entry(path=shown, skipped="its name is not UTF-8", hides=kind == "directory")
            elif kind == "directory" and depth >= _DEEPEST:
                yield Entry(
                    path=self._path(info["name"]), skipped=f"it is more than {_DEEPEST} folders deep", hides=True
                )
            elif kind == "directory":
                folders.append(info["name"].rstrip("/"))
            elif kind == "file":
                yield self._entry(info)
            else:
                yield Entry(path=self._path(info["name"]), skipped="it is a link, or no file")
        yield from chain.from_iterable(self._below(each, depth + 1) for each in folders)

    def _entry(self, info: Mapping[str, Any]) -> Entry:
        version = next((str(info[name]) for name in _VERSIONS if info.get(name)), None)
        size = info.get("size")
        time = next((info[name] for name in _TIMES if info.get(name)), None)
        if version is None and time is not None and size is not None:
            version = f"{time.isoformat() if isinstance(time, datetime) else time}-{size}"
        return Entry(path=self._path(info["name"]), version=version, size=size)

    def _path(self, name: str) -> str:
        return name.lstrip("/").removeprefix(f"{self._root.lstrip('/')}/") if self._root else name.lstrip("/")

    def read(self, path: str, most_bytes: int) -> bytes:
        """Return the content, or its beginning if it has grown since it was listed."""
        with (
            _translated(),
            self._fs.open(f"{self._root}/{path}" if self._root else path, "rb", block_size=2**20) as file,
        ):
            content: bytes = file.read(most_bytes + 1)
            return content


def open_store(url: str, secret: Mapping[str, str]) -> StoreReader:
    """Return the reader of a URL of one of these schemes. Raises FetchRefused for what is missing in the secret, FetchFailed
    and FetchUnavailable."""
    parts = urlsplit(url)
    path = unquote(parts.path).strip("/")
    with _translated():
        if _AUTHORITY[parts.scheme]:
            root = f"/{path}" if parts.scheme == "sftp" else path
            return StoreReader(_filesystem(parts.scheme, parts.hostname or "", parts.port, secret), root)
        return StoreReader(_filesystem(parts.scheme, "", None, secret), f"{parts.netloc}/{path}")


def _filesystem(scheme: str, host: str, port: int | None, secret: Mapping[str, str]) -> Any:
    """Return a filesystem that is shared with nobody and remembers no listing."""
    alone: dict[str, Any] = {"skip_instance_cache": True, "use_listings_cache": False}
    if scheme == "s3":
        return _s3(secret, alone)
    if scheme == "gs":
        token = _parsed(secret["token"]) if "token" in secret else "anon"
        from gcsfs import GCSFileSystem

        return GCSFileSystem(token=token, **alone)
    if scheme == "az":
        if unknown := sorted(secret.keys() - set(_AZURE)):  # others would have it take the credentials of this host
            raise FetchRefused(f"the secret has {unknown[0][:64]}, and may have {', '.join(_AZURE)}")
        from adlfs import AzureBlobFileSystem

        return AzureBlobFileSystem(**secret, **alone)
    if scheme == "sftp":
        return _sftp(host, port, secret)
    from webdav4.fsspec import WebdavFileSystem

    at = f"{host}:{port}" if port else host
    auth = (secret.get("username", ""), secret.get("password", "")) if secret else None
    base = f"{'https' if scheme == 'webdavs' else 'http'}://{at}"
    return WebdavFileSystem(base, auth=auth, timeout=_TIMEOUT_S, trust_env=False, skip_instance_cache=True)


def _s3(secret: Mapping[str, str], alone: Mapping[str, Any]) -> Any:
    from s3fs import S3FileSystem

    bounds = {"connect_timeout": _TIMEOUT_S, "read_timeout": _TIMEOUT_S, "retries": {"max_attempts": _TRIES}}
    return S3FileSystem(
        anon="key" not in secret,
        key=secret.get("key"),
        secret=secret.get("secret"),
        token=secret.get("token"),
        endpoint_url=secret.get("endpoint_url"),
        client_kwargs={"region_name": secret["region"]} if "region" in secret else {},
        config_kwargs=bounds,
        **alone,
    )


def _sftp(host: str, port: int | None, secret: Mapping[str, str]) -> Any:
    import asyncssh
    from sshfs import SSHFileSystem

    if not secret.get("host_key"):
        raise FetchRefused(
            "the secret has no host_key: give the line of the server that ssh-keyscan prints, as type and key"
        )
    trusted = asyncssh.import_public_key(secret["host_key"])
    keys = {}
    if "private_key" in secret:
        keys["client_keys"] = [asyncssh.import_private_key(secret["private_key"], secret.get("passphrase"))]
    return SSHFileSystem(
        host,
        port=port or 22,
        username=secret.get("username"),
        password=secret.get("password"),
        known_hosts=([trusted], [], []),
        config=None,
        agent_path=None,
        connect_timeout=_TIMEOUT_S,
        sftp_client_kwargs={"path_errors": "surrogateescape"},
        skip_instance_cache=True,
        **{"client_keys": None, **keys},
    )


async def _take(listed: AsyncIterator[Mapping[str, Any]], most: int) -> list[Mapping[str, Any]]:
    taken: list[Mapping[str, Any]] = []
    async for info in listed:
        taken.append(info)
        if len(taken) == most:
            break
    return taken


@contextmanager
def _translated() -> Iterator[None]:
    """Let no error of a store past this module. Their texts may name keys and hosts; a run reports only their kinds."""
    try:
        yield
    except (FetchRefused, FetchFailed, FileNotFoundError):
        raise
    except ImportError as error:
        raise FetchRefused(f"the package {error.name} is not installed here: chordwise[sources] has it") from error
    except (PermissionError, ValueError) as error:
        raise FetchFailed(f"the store refuses: {type(error).__name__}") from error
    except (TimeoutError, OSError) as error:
        raise FetchUnavailable(f"the store does not answer: {type(error).__name__}") from error


def _parsed(token: str) -> Any:
    """Return the account in a token. gcsfs takes another text for a file of this host, or for its own credentials."""
    import json

    try:
        account = json.loads(token)
    except ValueError:
        account = None
    if not isinstance(account, dict):
        raise FetchRefused("the secret's token is not the JSON of a service account")
    return account
