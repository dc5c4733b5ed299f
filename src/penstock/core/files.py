"""Files that are written whole or not at all, folders that survive a power cut, file locks, and
files with secrets.
"""

from __future__ import annotations

import errno
import fcntl
import glob
import os
import secrets
import stat
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from penstock.core.errors import ConfigurationError

_HERE, _EXCHANGE = -100, 2
"""AT_FDCWD and RENAME_EXCHANGE of Linux; the latter is RENAME_SWAP of macOS, too."""

_ROOT = 0
_GROUP_READS = 0o040
_OTHERS = 0o077


def cannot(action: str, path: str | os.PathLike[str], error: OSError) -> str:
    """Say with the whole path what cannot be done to a file, why, and what to do instead.

    Parameters
    ----------
    action : str
        What was tried, as in "read" or "written".
    path : str or os.PathLike
        The file.
    error : OSError
        Why it failed.

    >>> cannot("read", "/no/such/file", FileNotFoundError(errno.ENOENT, "No such file"))
    '/no/such/file cannot be read: there is no folder /no/such. Make it, or name another place.'
    """
    whole = Path(path).absolute()
    folder = whole.parent
    if error.errno == errno.ENOENT and not folder.is_dir():
        why = f"there is no folder {folder}. Make it, or name another place"
    elif error.errno == errno.ENOENT:
        why = "there is no such file. Check its name, or name another file"
    elif error.errno in (errno.EACCES, errno.EPERM):
        rights = f"{whole}" if action == "read" else f"the folder {folder}"
        verb = "read" if action == "read" else "write in"
        why = f"permission denied. Let this user {verb} {rights}, or name another place"
    elif error.errno == errno.EISDIR:
        why = "it is a folder. Name a file in it"
    else:
        why = error.strerror or type(error).__name__
    return f"{whole} cannot be {action}: {why}."


@contextmanager
def replacing(path: Path, *, mode: int = 0o666, durable: bool = True) -> Iterator[Path]:
    """Give the name of a new, empty file beside `path`; when the block ends, it replaces `path`.

    A process killed at any point leaves the old file or the new one. If the block fails, the old
    file stays. With `durable` the new file is on disk before this returns.
    """
    fresh = path.with_name(f".{path.name}.{secrets.token_hex(4)}.new")
    try:
        os.close(os.open(fresh, os.O_CREAT | os.O_EXCL | os.O_WRONLY | os.O_CLOEXEC, mode))
        yield fresh
        if durable:
            _sync(fresh)
        fresh.replace(path)
    except BaseException:
        fresh.unlink(missing_ok=True)
        raise
    if durable:
        sync_folder(path.parent)


def write_file(path: Path, content: bytes, *, mode: int = 0o666, durable: bool = True) -> None:
    """Write a file whole or not at all, as `replacing` does."""
    with (
        replacing(path, mode=mode, durable=durable) as fresh,
        os.fdopen(os.open(fresh, os.O_WRONLY | os.O_CLOEXEC), "wb") as file,
    ):
        file.write(content)


def remove_leftovers(path: Path) -> None:
    """Remove the temporary files of writers of `path` that were killed. Call it under a lock."""
    name = glob.escape(path.name)
    for pattern in (f".{name}.????????.new", f"{name}.????????.new", f"{name}.new"):
        for leftover in path.parent.glob(pattern):  # version 0.1 wrote the last two
            leftover.unlink(missing_ok=True)


def make_folder(folder: Path) -> None:
    """Make a folder and its parents where they are missing; they survive a power cut."""
    if folder.is_dir():
        return
    make_folder(folder.parent)
    folder.mkdir(exist_ok=True)
    sync_folder(folder.parent)


def sync_folder(folder: Path) -> None:
    """Bring the names in a folder to the disk."""
    _sync(folder)


def exchange(one: Path, other: Path) -> None:
    """Exchange two files or folders in one step: nobody ever sees one of them missing or twice.

    Both are on disk under their new names when this returns. It is an `OSError` where the system or
    the file system cannot do it, or where the two are on different ones; then nothing has changed.
    """
    import ctypes  # 20 ms, and rarely needed

    library = ctypes.CDLL(None, use_errno=True)
    names = os.fsencode(one), os.fsencode(other)
    if hasattr(library, "renameat2"):
        failed = library.renameat2(_HERE, names[0], _HERE, names[1], _EXCHANGE)
    elif hasattr(library, "renamex_np"):  # macOS
        failed = library.renamex_np(*names, _EXCHANGE)
    else:
        raise OSError(errno.ENOSYS, os.strerror(errno.ENOSYS))
    if failed:
        raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()))
    sync_folder(one.parent)
    sync_folder(other.parent)


def open_locked(
    path: Path,
    flags: int = os.O_RDWR | os.O_CREAT,
    *,
    mode: int = 0o600,
    wait: bool = False,
) -> int:
    """Open a file or folder and lock it for this descriptor alone; closing it ends the lock.

    The lock ends with the process, also after a crash. While another descriptor holds it, this is
    a `BlockingIOError`; with `wait`, this call waits instead.
    """
    descriptor = os.open(path, flags | os.O_CLOEXEC, mode)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | (0 if wait else fcntl.LOCK_NB))
    except BaseException:
        os.close(descriptor)
        raise
    return descriptor


def check_secret_file(path: Path, holds: str) -> None:
    """Refuse a file with a secret that users other than its owner can read or write.

    The rule is PostgreSQL's: mode 0600 or less, or 0640 for a file of root, whose group was chosen
    by the system's administrator. An access list shows in the mode of the group. A missing file and
    a file that is no regular one, such as a pipe, are left to whoever opens them.

    Parameters
    ----------
    path : Path
        The file.
    holds : str
        What the file holds, such as "token"; it stands in the message.
    """
    try:
        found = path.stat()
    except OSError:
        return
    refused = _OTHERS & ~(_GROUP_READS if found.st_uid == _ROOT else 0)
    if stat.S_ISREG(found.st_mode) and found.st_mode & refused:
        raise ConfigurationError(
            f"the file {str(path)!r} holds the {holds}, and other users can read or write it "
            f"(mode {stat.S_IMODE(found.st_mode):04o}). It was not read. Run chmod 600 on it; "
            f"if others have read it, make a new {holds}."
        )


def _sync(path: Path) -> None:
    descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
