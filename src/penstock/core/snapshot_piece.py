"""`Piece`: a part of a saved state, as runs make it and stores keep it."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, kw_only=True, repr=False)
class Piece:
    """A piece of a large array of a snapshot.

    `compared` says whether it may be left out where it is stored already. A secret piece may not:
    whether it has changed would tell something of the counts.
    """

    content: memoryview
    digest: bytes
    compared: bool
