# ruff: noqa: B018
"""Mistakes that a type checker must find, one per marked line."""

from __future__ import annotations

import penstock as ps


def mistakes(stream: ps.Publication) -> None:
    stream[1.5]  # wrong
    stream["Jamaica"].value  # wrong
    stream[3].to_polars(confidence=0.95)  # wrong
    stream.plot(3)  # wrong
    stream.window(1.5)  # wrong
    ps.Publication.read(7)  # wrong
    ps.no_such_name  # wrong
    ps.publish(7, time="at", key="zone", every="1h", origin="2026-06-01", domain=["a"])  # wrong
    number: int = stream.to_polars()  # wrong
    print(number)
