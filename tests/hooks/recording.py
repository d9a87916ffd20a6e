"""A hook that records its events."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from streamdec.hooks import Call, FellBack, Loaded, StreamEnded
from streamdec.metrics import Hook, add_hook


class Recording(Hook):
    """What was told, in order."""

    def __init__(self) -> None:
        self.streams: list[StreamEnded] = []
        self.calls: list[Call] = []
        self.loads: list[Loaded] = []
        self.fallbacks: list[FellBack] = []

    def stream_ended(self, event: StreamEnded) -> None:
        self.streams.append(event)

    def called(self, event: Call) -> None:
        self.calls.append(event)

    def loaded(self, event: Loaded) -> None:
        self.loads.append(event)

    def fell_back(self, event: FellBack) -> None:
        self.fallbacks.append(event)


@contextmanager
def hooked(*hooks: Hook) -> Iterator[None]:
    removes = [add_hook(hook) for hook in hooks]
    try:
        yield
    finally:
        for remove in removes:
            remove()


@contextmanager
def recording() -> Iterator[Recording]:
    hook = Recording()
    with hooked(hook):
        yield hook
