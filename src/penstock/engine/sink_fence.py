"""A sink as the fence of a pipeline that has no head file."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path

from penstock.core.declaration import EndpointSetup
from penstock.core.files import make_folder
from penstock.engine.chain import Head, HeadFile
from penstock.engine.pipeline import Pipeline, SinkConfig
from penstock.released.sinks.base import SinkError, SinkFence, SinkHead, SinkKind


def fencing_sink(pipeline: Pipeline) -> SinkConfig | None:
    """The sink that is the fence: the first that can, where there is no head file."""
    if pipeline.store.head is not None:
        return None
    return next((sink for sink in pipeline.sinks if sink.declaration.fence is not None), None)


def open_fence(kind: SinkKind, setup: EndpointSetup, name: str) -> SinkFenceHeads | SinkHeadFile:
    """The fence of a sink that has one; `name` is that of the sink."""
    assert kind.fence is not None
    made = kind.fence(setup)
    if isinstance(made, Path):
        return SinkHeadFile(made, name=f"the head file of sink {name!r}")
    return SinkFenceHeads(made, name=f"sink {name!r}")


class SinkHeadFile(HeadFile):
    """A head file beside the files of a sink. The sink's folder may be made first."""

    def swap(self, before: Mapping[str, Head | None], after: Mapping[str, Head]) -> dict[str, Head]:
        """Replace some heads if each is as before: see `Fence`."""
        with suppress(OSError):  # it is told when the head is written
            make_folder(self.path.parent)
        return super().swap(before, after)

    def close(self) -> None:
        """Nothing is open."""


class SinkFenceHeads:
    """The fence of a sink, in heads of a chain."""

    def __init__(self, fence: SinkFence, *, name: str) -> None:
        self.name = name
        self._fence = fence

    def read(self) -> dict[str, Head]:
        """The heads of all series that it knows."""
        return self._heads(self._fence.read())

    def swap(self, before: Mapping[str, Head | None], after: Mapping[str, Head]) -> dict[str, Head]:
        """Replace some heads if each is as before: see `Fence`."""
        found = self._fence.swap(
            {name: None if head is None else _for_sink(head) for name, head in before.items()},
            {name: _for_sink(head) for name, head in after.items()},
        )
        return self._heads(found)

    def close(self) -> None:
        """Let go of what it holds."""
        self._fence.close()

    def _heads(self, heads: Mapping[str, SinkHead]) -> dict[str, Head]:
        try:
            return {name: Head(unit, bytes.fromhex(link)) for name, (unit, link) in heads.items()}
        except ValueError:
            raise SinkError(f"{self.name}: a head of its fence is damaged.", lasting=True) from None


def _for_sink(head: Head) -> SinkHead:
    return SinkHead(head.unit, head.link.hex())
