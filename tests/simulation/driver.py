"""SQLite on a simulated disk: a file system in Python below it, and Python's own interface above.

The store gets connections that behave as those of `sqlite3`, errors included. Below, every write,
truncation, sync and deletion of SQLite passes the world's faults first.
"""

# ruff: noqa: N802 - the names are those of SQLite
from __future__ import annotations

import sqlite3
from contextlib import contextmanager, suppress
from pathlib import Path
from urllib.parse import unquote, urlsplit

import apsw

from tests.simulation.disk import content_of

_CLASSES = {
    apsw.SQLITE_CORRUPT: sqlite3.DatabaseError,
    apsw.SQLITE_NOTADB: sqlite3.DatabaseError,
    apsw.SQLITE_CONSTRAINT: sqlite3.IntegrityError,
}
WORLDS: dict[str, object] = {}
"""The world by the place of its folders; SQLite's file system is one for the whole process."""

VFS_NAME = "simulated"


def problem(code: int, text: str) -> sqlite3.Error:
    """An error of `sqlite3` with this code."""
    error = _CLASSES.get(code & 0xFF, sqlite3.OperationalError)(text)
    error.sqlite_errorcode = code
    return error


@contextmanager
def translated():
    try:
        yield
    except apsw.Error as error:
        code = getattr(error, "extendedresult", None) or getattr(error, "result", 0)
        raise problem(code, str(error)) from None
    except UnicodeDecodeError:  # only a damaged file has such text; `sqlite3` would hand it out
        raise problem(apsw.SQLITE_CORRUPT, "database disk image is malformed") from None


class SimulatedConnection:
    """A connection of one process to a file on a simulated disk.

    With `remote` the disk is that of a database server. Then an answer may be lost, and after the
    server's power cut the next call opens a new connection.
    """

    def __init__(self, world, process, disk, name, *, remote):
        self.world, self.process, self.disk, self.name = world, process, disk, name
        self.remote = remote
        self.renewed = False
        """Whether the connection was lost, and the store has not looked at the new one yet."""
        self.text_factory = str
        self._open()
        world.connections.append(self)

    def _open(self):
        self.boot = self.disk.boot
        with translated():
            self._file = apsw.Connection(str(self.disk.folder / self.name), vfs=VFS_NAME)
            self._file.set_busy_timeout(0)
            self._file.execute(f"PRAGMA wal_autocheckpoint = {self.world.plan.checkpoint}")

    @property
    def in_transaction(self):
        return self._file.in_transaction

    def execute(self, statement, values=()):
        return self._call(statement, lambda: Rows(self._file.execute(statement, values)))

    def executemany(self, statement, rows):
        return self._call(statement, lambda: Rows(self._file.executemany(statement, rows)))

    def _call(self, statement, call):
        kind = statement.split(None, 1)[0].lower()
        process, world = self.process, self.world
        if self.boot != self.disk.boot:
            world.check_alive(process)
            self._open()
            raise self._lost()
        fault = world.op(process, f"sql {kind}", self.disk, remote=self.remote)
        if fault == "lost request":
            if self.in_transaction:
                self._file.execute("ROLLBACK")
            raise self._lost()
        try:
            with translated(), world.inside(process):
                result = call()
        finally:
            if kind == "commit":  # one that failed may be there all the same
                world.committed(self.disk, self.name)
        if kind == "commit":
            if fault == "lost answer":
                raise self._lost()
            world.op(process, "after commit", self.disk)
        return result

    def _lost(self):
        self.renewed = True
        return problem(apsw.SQLITE_IOERR, "the connection was lost")

    def close(self):
        if self._file is not None and not self.process.dead:
            with suppress(apsw.Error), self.world.inside(self.process):
                self._file.close()  # `sqlite3` says nothing about a checkpoint that failed here

    def drop(self):
        """Close the connection of a dead process. Its disk has moved on to another folder, or every
        write of a dead process fails.
        """
        try:
            self._file.close(True)
        except BaseException as error:
            if not isinstance(error, (apsw.Error, self.world.crash)):
                raise


class Rows:
    """A cursor with all its rows read."""

    def __init__(self, cursor):
        self._rows = list(cursor)

    def __iter__(self):
        return iter(self._rows)

    def fetchall(self):
        return self._rows

    def fetchone(self):
        return self._rows[0] if self._rows else None


def plain_reader(path, **_):
    """A connection that only looks, past all faults."""
    text = str(path)
    if text.startswith("file:"):
        text = unquote(urlsplit(text).path)
    return Looking(text)


class Looking:
    """A connection for the observers of the world."""

    def __init__(self, path):
        with translated():
            self._file = apsw.Connection(path, flags=apsw.SQLITE_OPEN_READONLY)
        self.text_factory = str

    def execute(self, statement, values=()):
        with translated():
            return Rows(self._file.execute(statement, values))

    def close(self):
        self._file.close()


class SimulatedVfs(apsw.VFS):
    """The file system below SQLite."""

    def __init__(self):
        super().__init__(VFS_NAME, "unix")

    def xOpen(self, name, flags):
        return SimulatedVfsFile("unix", name, flags)

    def xDelete(self, name, sync_folder):
        world, disk = _where(name)
        fault = world.op(world.calling, "remove", disk)
        if fault is not None:
            raise apsw.exception_for(apsw.SQLITE_IOERR_DELETE)
        super().xDelete(name, sync_folder)
        disk.removed(name)
        if sync_folder:
            disk.sync_folder()


class SimulatedVfsFile(apsw.VFSFile):
    """One file of SQLite."""

    def __init__(self, base, name, flags):
        self._path = name.filename() if isinstance(name, apsw.URIFilename) else name
        self._world, self._disk = _where(self._path)
        # SQLite syncs the folder with the first sync of a log that it has opened.
        self._names_synced = not self._path.endswith(("-wal", "-journal"))
        self._inode = self._disk.inode(self._path)
        super().__init__(base, name, flags)

    def _fault(self, kind):
        return self._world.op(self._world.calling, kind, self._disk)

    def xRead(self, amount, offset):
        if self._fault("read") is not None:
            raise apsw.exception_for(apsw.SQLITE_IOERR_READ)
        return super().xRead(amount, offset)

    def xWrite(self, data, offset):
        fault = self._fault("write")
        if fault is not None:
            part = self._disk.random.randrange(len(data) + 1) if fault == "short" else 0
            if part:
                super().xWrite(data[:part], offset)
                self._inode.wrote(offset, part)
            full = self._disk.full or fault == "full"
            raise apsw.exception_for(apsw.SQLITE_FULL if full else apsw.SQLITE_IOERR_WRITE)
        super().xWrite(data, offset)
        self._inode.wrote(offset, len(data))

    def xTruncate(self, size):
        if self._fault("truncate") is not None:
            raise apsw.exception_for(apsw.SQLITE_IOERR_TRUNCATE)
        super().xTruncate(size)
        self._inode.truncated(size)

    def xSync(self, flags):
        fault = self._fault("sync")
        current = content_of(self._path)
        if fault == "error":
            self._inode.sync_failed(current, self._disk.random)
            raise apsw.exception_for(apsw.SQLITE_IOERR_FSYNC)
        self._inode.sync(current, lie=fault == "lie")
        if not self._names_synced:
            self._disk.sync_folder()
            self._names_synced = True
        return


def _where(path):
    folder = Path(path).parent
    world = WORLDS[str(folder.parent)]
    return world, world.disk_at(folder)


_VFS = SimulatedVfs()
