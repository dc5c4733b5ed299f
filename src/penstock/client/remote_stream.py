"""`penstock.connect`: a stream of a read service, to look at, to query and to follow."""

from __future__ import annotations

import os
from collections.abc import Iterator

from penstock.client.live_events import live_heads
from penstock.client.remote_reader import RemoteReader
from penstock.client.service_connection import ServiceConnection
from penstock.core.errors import ConfigurationError, StateError
from penstock.core.exact import whole
from penstock.core.released import Released
from penstock.engine.chain import Head
from penstock.engine.publication import Publication
from penstock.engine.signing import PublicKey
from penstock.engine.store import VerifiedLedger


def connect(
    url: str,
    stream: str | None = None,
    *,
    token: str | None = None,
    timeout: float = 30.0,
    certificates: str | os.PathLike[str] | None = None,
) -> RemoteStream:
    """Connect to a read service (`penstock serve`) and return one of its streams.

    The stream behaves like one from a store: the same queries give the same numbers, tables and
    charts. Releases are fetched when they are needed, checked against the hash chain and kept in
    memory. Queries are computed here, and cost no budget.

    Parameters
    ----------
    url : str
        The address of the service, such as "https://data.example". Certificates are checked.
    stream : str, optional
        The name of the stream, or of one of its views, such as "taps/hourly". Default: the only
        one of the service.
    token : str, optional
        The token for reading, if the service wants one. It is sent in a header only. Default:
        none.
    timeout : float
        The most seconds to wait for a connection or for more of a reply. Default: 30.
    certificates : path, optional
        A PEM file with the authorities to trust. Default: those of the system.

    Returns
    -------
    RemoteStream
        The stream. Close it, or use it in a `with` statement.

    Examples
    --------
    Here a service of this process serves a store:

    >>> import tempfile, penstock as ps
    >>> from pathlib import Path
    >>> from penstock.testing import serving
    >>> folder = Path(tempfile.mkdtemp())
    >>> _ = (folder / "taps.csv").write_text("ts,station\\n2026-01-01T00:10Z,north\\n")
    >>> ps.publish(
    ...     folder / "taps.csv", time="ts", key="station", every="1h", origin="2026-01-01",
    ...     until="2026-01-02", mechanism=ps.Laplace(epsilon="1"), domain=["north", "south"],
    ...     store=folder / "taps.db",
    ... ).close()
    >>> with serving(folder / "taps.db") as url, ps.connect(url) as stream:
    ...     len(stream), stream.window("6h").series().estimate.shape, stream["north"][-1]
    ...     stream.verify().account.kept
    (24, (19, 2), <Released unit 24: 1 number, Guarantee(epsilon=1, window=1)>)
    True
    """
    connection = ServiceConnection(url, token=token, timeout=timeout, certificates=certificates)
    reader = RemoteReader(connection)
    try:
        names = reader.series_names
        if stream is None and len(names) != 1:
            raise ConfigurationError(
                f"stream must be one of the streams of {connection.url}: "
                f"{', '.join(map(repr, names)) or 'none yet'}.",
                parameter="stream",
            )
        return RemoteStream(reader, stream or names[0])
    except BaseException:
        reader.close()
        raise


class RemoteStream(Publication):
    """A stream of a read service. `penstock.connect` returns one.

    It is a `Publication`: cut it by keys, units and time, and ask it queries. `follow` waits for
    new releases.

    Parameters
    ----------
    reader : RemoteReader
        The service. The stream closes it.
    name : str
        The name of the series.

    Examples
    --------
    >>> import tempfile, penstock as ps
    >>> from penstock.testing import serving
    >>> path = f"{tempfile.mkdtemp()}/taps.db"
    >>> run = ps.Laplace(epsilon="1").run(["north", "south"])
    >>> with ps.open_log(path, run) as log:
    ...     log.append(run.step([7, 0]))
    >>> with serving(path) as url, ps.connect(url) as stream:
    ...     type(stream).__name__, stream.name, next(stream.follow(after=0)).unit
    ('RemoteStream', 'taps', 1)
    """

    _reader: RemoteReader

    def __init__(self, reader: RemoteReader, name: str) -> None:
        super().__init__(reader, name)
        reader.head(name)

    def __repr__(self) -> str:
        if self._closed.is_set():
            return f"<RemoteStream {self.name!r}: closed>"
        return f"<RemoteStream {self.name!r} at {self.url}: {self._extent}, {self.guarantee}>"

    @property
    def url(self) -> str:
        """The address of the service."""
        return self._reader.name

    def refresh(self) -> Head:
        """Ask for the newest unit now. Without this call it may be a second old."""
        return self._reader.refresh(self.name)

    def verify(
        self,
        *,
        head: Head | None = None,
        public_key: PublicKey | str | os.PathLike[str] | None = None,
    ) -> VerifiedLedger:
        """Recompute every link of the chain and the cost of every window, here.

        All units are fetched. A service cannot pass off a changed unit, line or promise: the first
        one that does not fit is a `LedgerError`.

        Parameters
        ----------
        head : Head, optional
            A head that was noted before, which must be in the past of the stream. Default: none.
        public_key : PublicKey or path, optional
            The key of the publisher, or its PEM file. Every signature must be by that key. Default:
            signatures are checked with the key that they name.
        """
        key = public_key
        if key is not None and not isinstance(key, PublicKey):
            key = PublicKey.from_file(key)
        return self._reader.verify(self.name, head=head, public_key=key)

    def follow(self, *, after: int | None = None) -> Iterator[Released]:
        """Wait for new releases, and return one after the other; none is left out.

        A lost connection is opened again, and the iteration goes on where it was. It ends when the
        stream is closed. A service whose history is older than what was seen is a `StateError`.

        Parameters
        ----------
        after : int, optional
            The unit before the first release. Default: the newest unit.

        Examples
        --------
        `for release in stream.follow(): print(release.unit, release.estimate)` prints each unit as
        soon as it is released, and `stream["Harbour"].follow()` that of one key.
        """
        newest = self.refresh().unit
        known = newest if after is None else whole(after, name="after", least=0)
        if known > newest:
            raise ConfigurationError(
                f"after must be a released unit: the newest is {newest}.", parameter="after"
            )
        return self._follow(known, newest)

    def _follow(self, known: int, newest: int) -> Iterator[Released]:
        try:
            yield from self._between(known + 1, newest)
            for head in live_heads(
                self._reader.connection, self.name, after=newest, closed=self._closed
            ):
                self._reader.hear(self.name, head)
                yield from self._between(newest + 1, head.unit)
                newest = head.unit
        except StateError:
            if not self._closed.is_set():
                raise

    def _between(self, first: int, last: int) -> Iterator[Released]:
        for release in self.log.between(first, last):
            yield self._cut(release)
