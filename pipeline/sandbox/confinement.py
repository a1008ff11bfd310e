"""Drop the parser process's access to network, other users' processes and files before any plug-in is loaded.

Four layers of Linux where the kernel allows them: network namespace, unprivileged user or user namespace, Landlock, and
a system call filter. Missing layers are reported by name.
"""

import ctypes
import errno
import mimetypes
import os
import platform
import struct
import sys
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Final

import pipeline

# Without an account, and not the user `nobody`, which other servers use: the local stack's PostgreSQL, for one.
PARSER_UID: Final = 61_347
NETWORK, USER, FILES, SYSTEM_CALLS = "network", "user", "files", "system_calls"

_LIBC = ctypes.CDLL(None, use_errno=True) if sys.platform == "linux" else None
_PR_SET_KEEPCAPS, _PR_SET_SECCOMP, _PR_SET_NO_NEW_PRIVS = 8, 22, 38
_PR_CAP_AMBIENT, _PR_CAP_AMBIENT_RAISE = 47, 2
_CLONE_NEWUSER, _CLONE_NEWNET = 0x1000_0000, 0x4000_0000
_CAP_DAC_READ_SEARCH = 1 << 2

_CREATE_RULESET, _ADD_RULE, _RESTRICT_SELF = 444, 445, 446  # Landlock's system calls, on every architecture
_EXECUTE, _WRITE_FILE, _READ_FILE, _READ_DIR = 1 << 0, 1 << 1, 1 << 2, 1 << 3
_READ = _EXECUTE | _READ_FILE | _READ_DIR
_FILE_RIGHTS = {1: 13, 2: 14, 3: 15, 4: 15}  # bits of access by version of Landlock; 16 from the fifth on

# System calls that no parser needs, by architecture: sockets, io_uring (which opens sockets without them), other processes'
# memory and signals, files by handle. The first is the architecture's own number.
_SYSTEM_CALLS: Final = {
    "x86_64": (0xC000_003E, (41, 42, 49, 50, 62, 101, 129, 200, 240, 297, 304, 310, 311, 321, 424, 425, 434, 438)),
    "aarch64": (
        0xC000_00B7,
        (117, 129, 130, 138, 180, 198, 200, 201, 203, 240, 265, 270, 271, 280, 424, 425, 434, 438),
    ),
}
_LOAD, _EQUALS, _AT_LEAST, _RETURN = 0x20, 0x15, 0x35, 0x06
_ALLOW, _REFUSE = 0x7FFF_0000, 0x0005_0000 | errno.EPERM
_X32 = 0x4000_0000  # the other ABI of x86_64, with numbers of its own


def confine(programs: Iterable[Path] = ()) -> tuple[str, ...]:
    """Drop every right that parsing does not need; return the layers this system lacks. ``programs``: further folders
    to read and run programs from. Call it with one thread."""
    if _LIBC is None:
        return (NETWORK, USER, FILES, SYSTEM_CALLS)
    is_root = os.geteuid() == 0
    own_network = _call(_LIBC.unshare, _CLONE_NEWNET if is_root else _CLONE_NEWUSER | _CLONE_NEWNET)
    ruleset = _ruleset(programs)
    another_user = _become_another(may_read_all=ruleset is not None) if is_root else own_network
    _call(_LIBC.prctl, _PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0)
    few_files = ruleset is not None and _call(_LIBC.syscall, _RESTRICT_SELF, ruleset, 0)
    few_calls = _filter_system_calls()
    if ruleset is not None:
        os.close(ruleset)
    held = {NETWORK: own_network or few_calls, USER: another_user, FILES: few_files, SYSTEM_CALLS: few_calls}
    return tuple(name for name, is_held in held.items() if not is_held)


def _call(function: Callable[..., int], *arguments: object) -> bool:
    return function(*arguments) >= 0


def _become_another(*, may_read_all: bool) -> bool:
    """Switch from root to a user id without an account; if it could not read the packages (below /root), keep the
    capability of reading, provided that Landlock limits the files."""
    assert _LIBC is not None
    unreadable = not all(_is_readable(folder) for folder in readable_folders())
    if unreadable and not may_read_all:
        return False
    try:
        _LIBC.prctl(_PR_SET_KEEPCAPS, int(unreadable), 0, 0, 0)
        os.setgroups([])
        os.setresgid(PARSER_UID, PARSER_UID, PARSER_UID)
        os.setresuid(PARSER_UID, PARSER_UID, PARSER_UID)
    except OSError:
        return False
    capability = _CAP_DAC_READ_SEARCH if unreadable else 0
    header = ctypes.create_string_buffer(struct.pack("=Ii", 0x2008_0522, 0))
    data = ctypes.create_string_buffer(struct.pack("=6I", capability, capability, capability, 0, 0, 0))
    if not _call(_LIBC.capset, header, data):
        return False
    if unreadable:  # also for the programs that parsers run, under the same Landlock
        _LIBC.prctl(_PR_CAP_AMBIENT, _PR_CAP_AMBIENT_RAISE, _CAP_DAC_READ_SEARCH.bit_length() - 1, 0, 0)
    return True


def _is_readable(folder: Path) -> bool:
    """Return whether every user may enter a folder and all its parents."""
    try:
        return all(path.stat().st_mode & 0o001 for path in (folder.resolve(), *folder.resolve().parents))
    except OSError:
        return False


def readable_folders() -> Iterator[Path]:
    """Yield the folders of this interpreter, the installed packages and our own code; not the checkout around it."""
    code = Path(pipeline.__file__).parent
    yield code
    for name in (sys.prefix, sys.base_prefix, sys.exec_prefix, sys.base_exec_prefix, *sys.path):
        folder = Path(name)
        if folder.is_absolute() and folder.exists() and not code.is_relative_to(folder.resolve()):
            yield folder


def _ruleset(programs: Iterable[Path]) -> int | None:
    """Return a Landlock ruleset that lets the process read code and the system's shared files, and write nowhere."""
    assert _LIBC is not None
    version = _LIBC.syscall(_CREATE_RULESET, None, 0, 1)
    if version < 1:
        return None
    handled = (1 << _FILE_RIGHTS.get(version, 16)) - 1
    network = 0b11 if version >= 4 else 0  # binding and connecting TCP
    scoped = 0b11 if version >= 6 else 0  # abstract sockets and signals
    size = 8 if version < 4 else 16 if version < 6 else 24
    attributes = ctypes.create_string_buffer(struct.pack("=3Q", handled, network, scoped), 24)
    ruleset = _LIBC.syscall(_CREATE_RULESET, attributes, size, 0)
    if ruleset < 0:
        return None
    shared = (Path(name) for name in ("/usr", "/lib", "/lib64", "/bin", "/proc/self", "/sys/devices/system/cpu"))
    files = ("/etc/ld.so.cache", "/etc/localtime", "/dev/urandom", "/dev/zero", "/proc/cpuinfo", "/proc/meminfo")
    _permit(ruleset, (*readable_folders(), *shared, *programs), _READ & handled)
    _permit(ruleset, (Path(name) for name in (*files, *mimetypes.knownfiles)), _READ_FILE)
    _permit(ruleset, [Path(os.devnull)], _READ_FILE | _WRITE_FILE)
    return int(ruleset)


def _permit(ruleset: int, paths: Iterable[Path], access: int) -> None:
    assert _LIBC is not None
    for path in paths:
        try:
            descriptor = os.open(path, os.O_PATH | os.O_CLOEXEC)
        except OSError:
            continue
        rights = access if os.path.isdir(path) else access & ~_READ_DIR
        rule = ctypes.create_string_buffer(struct.pack("=Qi", rights, descriptor))
        _LIBC.syscall(_ADD_RULE, ruleset, 1, rule, 0)
        # Linux makes a new inode, to which no rule belongs, for a file of /proc that has left its cache: an open one stays.
        if not path.is_relative_to("/proc"):
            os.close(descriptor)


def _filter_system_calls() -> bool:
    """Make the system calls that no parser needs fail with EPERM."""
    assert _LIBC is not None
    if platform.machine() not in _SYSTEM_CALLS:
        return False
    architecture, refused = _SYSTEM_CALLS[platform.machine()]
    last = len(refused)  # number of comparisons before the permission; the refusal follows it
    program = [
        (_LOAD, 0, 0, 4),  # the architecture
        (_EQUALS, 1, 0, architecture),
        (_RETURN, 0, 0, _REFUSE),
        (_LOAD, 0, 0, 0),  # the number
        (_AT_LEAST, last + 1, 0, _X32),
        *((_EQUALS, last - index, 0, number) for index, number in enumerate(refused)),
        (_RETURN, 0, 0, _ALLOW),
        (_RETURN, 0, 0, _REFUSE),
    ]
    instructions = ctypes.create_string_buffer(b"".join(struct.pack("=HBBI", *line) for line in program))
    header = ctypes.create_string_buffer(struct.pack("@HP", len(program), ctypes.addressof(instructions)))
    return _call(_LIBC.prctl, _PR_SET_SECCOMP, 2, header, 0, 0)
