"""The idempotency keys of kept requests: known after a restart, and of bounded size."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from hashlib import blake2b
from typing import NamedTuple

from penstock.core.errors import StateError
from penstock.core.exact import whole

DIGEST_BYTES = 16
ENTRY_BYTES = 2 * DIGEST_BYTES
MAX_KEYS_PER_PART = 512
"""The most keys of a part. A part is written again with each batch until it is full."""

PREFIX = "seen/"


class Entry(NamedTuple):
    """Digests of a key and of the body that came with it."""

    key: bytes
    body: bytes

    @classmethod
    def of(cls, key: str, *pieces: bytes | bytearray) -> Entry:
        """The digests. That of the body depends on the key too, so that equal bodies look
        different.
        """
        raw = key.encode()
        body = blake2b(digest_size=DIGEST_BYTES, key=blake2b(raw, person=b"penstock body").digest())
        for piece in pieces:
            body.update(piece)
        return cls(
            blake2b(raw, digest_size=DIGEST_BYTES, person=b"penstock key").digest(), body.digest()
        )


@dataclass(kw_only=True, eq=False)
class IdempotencyKeys:
    """At least the last `window` keys, in numbered parts. Only the last part grows; the oldest goes
    whole.

    >>> seen = IdempotencyKeys(window=100)
    >>> entry = Entry.of("monday", b"body")
    >>> kept = seen.add([entry])
    >>> list(kept), seen.body(entry.key) == entry.body
    (['seen/1'], True)
    >>> restored = IdempotencyKeys(window=100)
    >>> restored.restore(kept)
    >>> restored.body(entry.key) == entry.body
    True
    """

    window: int
    _bodies: dict[bytes, bytes] = field(default_factory=dict, init=False, repr=False)
    _parts: deque[tuple[int, list[Entry]]] = field(default_factory=deque, init=False, repr=False)

    def __post_init__(self) -> None:
        whole(self.window, name="window", least=1)

    def body(self, key: bytes) -> bytes | None:
        """The digest of the body that came with this key; None if the key is unknown or too old."""
        return self._bodies.get(key)

    def restore(self, parts: Mapping[str, bytes | None]) -> None:
        """Start with parts that `add` gave."""
        found: dict[int, list[Entry]] = {}
        for name, part in parts.items():
            number = name.removeprefix(PREFIX)
            if (
                name == number
                or not (number.isascii() and number.isdecimal())
                or part is None
                or len(part) % ENTRY_BYTES
            ):
                raise StateError(
                    "http: what was kept of idempotency keys is damaged. Nothing was taken."
                )
            found[int(number)] = [
                Entry(
                    part[place : place + DIGEST_BYTES],
                    part[place + DIGEST_BYTES : place + ENTRY_BYTES],
                )
                for place in range(0, len(part), ENTRY_BYTES)
            ]
        self._parts = deque(sorted(found.items()))
        self._bodies = dict(entry for _, entries in self._parts for entry in entries)

    def add(self, entries: Iterable[Entry]) -> dict[str, bytes | None]:
        """Add new keys. Returns the parts that have changed, with None for those that are gone."""
        before = self._parts[-1][0] if self._parts else 0
        changed: dict[int, list[Entry] | None] = {}
        for entry in entries:
            if not self._parts or len(self._parts[-1][1]) >= MAX_KEYS_PER_PART:
                self._parts.append((self._parts[-1][0] + 1 if self._parts else 1, []))
            number, last = self._parts[-1]
            last.append(entry)
            self._bodies[entry.key] = entry.body
            changed[number] = last
        while len(self._bodies) - len(self._parts[0][1] if self._parts else ()) >= self.window:
            number, old = self._parts.popleft()
            for entry in old:
                del self._bodies[entry.key]
            changed[number] = None
        return {
            f"{PREFIX}{number}": None
            if part is None
            else b"".join(each for entry in part for each in entry)
            for number, part in changed.items()
            if part is not None or number <= before
        }
