"""The operating system's files as simulated processes see them.

Only calls of simulated processes on simulated disks are changed, all others pass. So head files,
locks and sinks that write files run as they are.
"""

from __future__ import annotations

import errno
import fcntl
import os
from contextlib import ExitStack, contextmanager
from pathlib import Path
from unittest.mock import patch

from tests.simulation.disk import content_of

_REAL = {
    name: getattr(os, name)
    for name in ("open", "close", "write", "fsync", "ftruncate", "replace", "unlink", "fdopen")
}
_FLOCK = fcntl.flock
_READ_BYTES = Path.read_bytes
LOCK_PAUSE = 0.01


def failed(code: int) -> OSError:
    return OSError(code, os.strerror(code))


class SimulatedSystem:
    """Patches the calls while a world runs."""

    def __init__(self, world) -> None:
        self.world = world
        self._place = str(world.place)
        self._open: dict[int, tuple[object, object, str]] = {}  # process, disk, path

    @contextmanager
    def installed(self):
        with ExitStack() as stack:
            for name in _REAL:
                stack.enter_context(patch.object(os, name, getattr(self, f"_call_{name}")))
            stack.enter_context(patch.object(fcntl, "flock", self._flock))
            system = self
            stack.enter_context(
                patch.object(Path, "read_bytes", lambda path: system._read_bytes(path))
            )
            yield self

    def close_all(self, process) -> None:
        """Close the files of a dead process; its locks end."""
        for file, (owner, _, _) in list(self._open.items()):
            if owner is process:
                del self._open[file]
                _REAL["close"](file)

    def _disk(self, path):
        """The disk of a path, if a simulated process asks."""
        text = os.fspath(path)
        if not isinstance(text, str) or not text.startswith(self._place):
            return None
        return self.world.disk_of_call(text)

    def _op(self, kind, disk, *, moves=True):
        """Pass the faults; an error that is chosen is raised."""
        fault = self.world.op(self.world.process, kind, disk, switches=moves)
        if fault == "full":
            raise failed(errno.ENOSPC)
        if fault == "error":
            raise failed(errno.EIO)
        return fault

    # -- the calls ---------------------------------------------------------------------------------

    def _open_known(self, file):
        known = self._open.get(file)
        if known is not None and known[0] is self.world.process:
            return known
        return None

    def _read_bytes(self, path):
        disk = self._disk(path)
        if disk is not None:
            self._op("read", disk)
        return _READ_BYTES(path)

    def _call_open(self, path, flags, mode=0o777, *, dir_fd=None):
        disk = self._disk(path) if not isinstance(path, int) else None
        if disk is None:
            return _REAL["open"](path, flags, mode, dir_fd=dir_fd)
        if not Path(path).is_dir():
            self._op("write" if flags & os.O_CREAT and not disk.knows(path) else "read", disk)
        file = _REAL["open"](path, flags, mode, dir_fd=dir_fd)
        if not Path(path).is_dir():
            disk.inode(path)
        self._open[file] = self.world.process, disk, os.fspath(path)
        return file

    def _call_close(self, file):
        self._open.pop(file, None)
        _REAL["close"](file)

    def _call_write(self, file, data):
        known = self._open_known(file)
        if known is None:
            return _REAL["write"](file, data)
        _, disk, path = known
        fault = self._op("write", disk)
        size = len(data)
        if fault == "short" and size:
            size = disk.random.randrange(size) + 1
        begin = os.fstat(file).st_size  # files are written from their end on
        done = _REAL["write"](file, memoryview(data)[:size])
        disk.inode(path).wrote(begin, done)
        self.world.wrote(disk, path)
        return done

    def _call_fdopen(self, file, mode="r", *more, **options):
        if self._open_known(file) is None:
            return _REAL["fdopen"](file, mode, *more, **options)
        return _WrittenFile(self, file)

    def _call_fsync(self, file):
        known = self._open_known(file)
        if known is None:
            _REAL["fsync"](file)
            return
        _, disk, path = known
        if Path(path).is_dir():
            self._op("sync folder", disk)
            disk.sync_folder()
            return
        current = content_of(path)
        try:
            fault = self._op("sync", disk)
        except OSError:
            disk.inode(path).sync_failed(current, disk.random)
            raise
        disk.inode(path).sync(current, lie=fault == "lie")

    def _call_ftruncate(self, file, size):
        known = self._open_known(file)
        if known is not None:
            _, disk, path = known
            self._op("truncate", disk)
            disk.inode(path).truncated(size)
        _REAL["ftruncate"](file, size)

    def _call_replace(self, old, new, **more):
        disk = self._disk(old)
        if disk is not None:
            self._op("rename", disk)
        _REAL["replace"](old, new, **more)
        if disk is not None:
            disk.renamed(old, new)

    def _call_unlink(self, path, **more):
        disk = self._disk(path)
        if disk is not None:
            self._op("remove", disk)
        _REAL["unlink"](path, **more)
        if disk is not None:
            disk.removed(path)

    def _flock(self, file, how):
        """Wait for a lock in simulated time only."""
        if self._open_known(file) is None or how & fcntl.LOCK_NB:
            _FLOCK(file, how)
            return
        while True:
            try:
                _FLOCK(file, how | fcntl.LOCK_NB)
            except BlockingIOError:
                self.world.scheduler.pause(LOCK_PAUSE)
            else:
                return


class _WrittenFile:
    """A file object that writes without a buffer."""

    def __init__(self, system, file):
        self._system, self._file = system, file

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self._system._call_close(self._file)

    def write(self, content):
        rest = memoryview(content)
        while rest:
            rest = rest[self._system._call_write(self._file, rest) :]
        return len(content)
