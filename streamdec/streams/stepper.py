"""The protocol of decoders for streams and pools, and the object that steps them."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from functools import partial
from typing import Any, Protocol, SupportsIndex

from streamdec import hooks
from streamdec.chunks import Chunk, FinishReason, chunk_before
from streamdec.core.stepping import end, methods_of
from streamdec.core.text_stop_decoder import TextStopDecoder
from streamdec.protocols import Decoder
from streamdec.streams.attribution import TokenAttribution
from streamdec.streams.statistics import StreamStatistics


class Machine(Protocol):
    """A decoder that a stream can run on: a class of the core, or a tracer of one."""

    @property
    def tokenizer(self) -> Decoder:
        """The tokenizer that decodes."""

    def step(self, token_id: SupportsIndex) -> str | Chunk:
        """Return the text or the chunk of one id. An error leaves the machine as it was."""

    def feed(self, token_ids: Sequence[SupportsIndex]) -> str | Chunk:
        """Return the text or the chunk of several ids.

        If an id raises an error, the ``chunk`` of the error has the text before that id.
        """

    def snapshot(self) -> dict[str, Any]:
        """Return the state of the machine, as a dict that JSON can represent."""

    @property
    def pending_text(self) -> str:
        """The text that would be output if no more ids came."""

    @property
    def finished(self) -> bool:
        """Whether the machine has ended, so that it returns no more text."""

    @property
    def jailed(self) -> str:
        """Decided text that is withheld because it may become a stop."""

    @property
    def held(self) -> bytes:
        """The bytes of an unfinished character."""

    @property
    def num_pending_tokens(self) -> int:
        """How many of the last tokens have text that is held or jailed."""


_MEMBERS = tuple(name for name in vars(Machine) if not name.startswith("_"))


def check_machine(machine: object) -> None:
    """Raise TypeError if ``machine`` is not an object that a stream can run on.

    A Tracer has most of its members through ``__getattr__``, which ``isinstance`` with a protocol
    does not see since Python 3.12.
    """
    if isinstance(machine, type) or not all(hasattr(machine, name) for name in _MEMBERS):
        raise TypeError(
            "decoder must be a DecodeStream, a Sequence, a StopSequenceDecoder or a "
            f"TextStopDecoder, not {machine!r:.80}"
        )


class Stepper:
    """Steps one machine, optionally adds token ids to chunks, and counts for hooks.

    Args:
        machine: the decoder to step.
        return_token_ids: whether chunks have the ids whose text is complete with them.
        waiting: the ids that were read before and do not belong to a chunk yet.
    """

    __slots__ = ("attribution", "end", "feed", "machine", "outermost", "statistics", "step")

    step: Callable[[Any], Chunk]
    """Returns the chunk of one id or piece of text. Raises the errors of the machine."""
    feed: Callable[[Sequence[SupportsIndex]], Chunk]
    """Returns the chunk of several ids. An error has the chunk of the ids before it."""
    end: Callable[[FinishReason], Chunk]
    """Ends the machine, and returns what was withheld, with the reason."""

    def __init__(
        self, machine: Any, *, return_token_ids: bool = False, waiting: Iterable[int] = ()
    ) -> None:
        is_text = isinstance(machine, TextStopDecoder)
        self.machine: Any = machine
        self.outermost: Any = machine
        """What has the methods ``step`` and ``feed``: the machine, or the last object around it."""
        self.attribution: TokenAttribution | None = None
        self.statistics: StreamStatistics | None = None
        if return_token_ids:
            self.attribution = self.outermost = TokenAttribution(machine, waiting)
            self.step, self.feed = self.attribution.step, self.attribution.feed
            self.end = self.attribution.end
        else:
            self.step, self.feed = methods_of(machine)
            self.end = partial(end, machine)
        if hooks.installed and not machine.finished and not is_text:
            counting = StreamStatistics(machine, self.step, self.feed, hooks.installed)
            self.step, self.feed, self.statistics = counting.step, counting.feed, counting
            self.outermost = counting

    @property
    def waiting(self) -> tuple[int, ...]:
        """The ids that were read and do not belong to a chunk yet."""
        return () if self.attribution is None else self.attribution.waiting

    def report_end(self, last: Chunk | None, error: BaseException | None) -> None:
        """Report the end of the stream to the hooks: its ``last`` chunk or its ``error``."""
        if self.statistics is not None:
            self.statistics.end(last, error)


def take_chunk(error: Exception) -> Chunk:
    """Return ``chunk_before(error)`` to output it, and remove it from the error."""
    chunk = chunk_before(error)
    if getattr(error, "chunk", None) is not None:  # some errors cannot be changed
        error.chunk = None  # type: ignore[attr-defined]
    return chunk
