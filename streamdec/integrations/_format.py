"""What the wire formats share: samples, and the bytes of events."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import ClassVar

from streamdec.chunks import Chunk, FinishReason, StopReason, in_section, json_of
from streamdec.errors import FinishedError
from streamdec.integrations._json import Json, json_bytes, string_bytes
from streamdec.integrations.logprobs import PlacedLogprob

REASONING = "reasoning"
"""The name of the section whose text has its own field in the APIs."""

FAILED = "the server had an error while it generated the answer"
"""The default message for a client: it does not contain the message of the error."""

FAILURES: dict[FinishReason | None, str] = {
    "abort": "the request was aborted before the answer was complete",
    "error": FAILED,
}
"""The messages for reasons that the APIs have no word for."""

_PLACE = b'"\\u0000"'
"""What the text of a template is in JSON."""


def check_text(name: str, value: object) -> str:
    """Return ``value``. Raise TypeError if it is not a string."""
    if not isinstance(value, str):
        raise TypeError(f"{name} must be a string, not {value!r:.40}")
    return value


def check_count(name: str, value: object, least: int = 0) -> int:
    """Return ``value``. Raise ValueError if it is not an int of at least ``least``."""
    if type(value) is not int or value < least:
        raise ValueError(f"{name} must be an integer of at least {least}, not {value!r:.40}")
    return value


class Sample:
    """The state of one sample."""

    def __init__(self) -> None:
        self.parts: list[Chunk] = []
        """The chunks of a whole response."""
        self.placed: list[PlacedLogprob] = []
        """The log probabilities of a whole response."""
        self.num_tokens = 0
        self.has_text = False
        self.finish_reason: FinishReason | None = None
        self.stop_reason: StopReason = None

    def take(self, chunk: Chunk, num_tokens: int | None) -> None:
        """Note the number of tokens after ``chunk``, and whether it is the last chunk."""
        counted = self.num_tokens + len(chunk.token_ids)
        self.num_tokens = counted if num_tokens is None else num_tokens
        self.has_text = self.has_text or bool(chunk.text)
        self.finish_reason, self.stop_reason = chunk.finish_reason, chunk.stop_reason


class Format(ABC):
    """The base class of streamed and whole responses."""

    _has_templates = True
    """Whether only the text differs in the streamed events before the last chunk."""

    def __init__(self, fields: Json, n: int, *, has_usage: bool) -> None:
        self._fields = fields
        """The fields of every object of the response."""
        self._samples = [Sample() for _ in range(n)]
        self._has_usage = has_usage

    @property
    def n(self) -> int:
        """How many samples the response has."""
        return len(self._samples)

    @property
    def failed(self) -> bool:
        """Whether a sample was aborted or failed, so that the response is an error."""
        return any(sample.finish_reason in FAILURES for sample in self._samples)

    @property
    def finished(self) -> bool:
        """Whether every sample has ended."""
        return all(sample.finish_reason is not None for sample in self._samples)

    def _taken(self, chunk: Chunk, index: int, num_tokens: int | None) -> Sample:
        """Return the sample that took ``chunk``. Raises the errors of ``step`` before that."""
        if not isinstance(chunk, Chunk):
            raise TypeError(f"chunk must be a Chunk, not {chunk!r:.80}; write Chunk(text)")
        if type(index) is not int or not 0 <= index < self.n:
            raise ValueError(
                f"index must be from 0 to {self.n - 1}, not {index!r:.40}: "
                f"{type(self).__name__} was made with n={self.n}"
            )
        sample = self._samples[index]
        if sample.finish_reason is not None:
            raise FinishedError(f"sample {index} has ended ({sample.finish_reason})")
        is_counted = num_tokens is not None or sample.num_tokens or chunk.token_ids
        has_text = sample.has_text or chunk.text
        if chunk.finish_reason is not None and self._has_usage and has_text and not is_counted:
            raise ValueError("a response with usage needs num_tokens=, or chunks with token_ids")
        sample.take(chunk, num_tokens)
        return sample

    def _check_finished(self) -> None:
        going = [i for i, sample in enumerate(self._samples) if sample.finish_reason is None]
        if going:
            raise ValueError(
                f"samples {going} have not ended; if they failed, step Chunk('', 'error')"
            )

    def _failure(self) -> Json:
        """Return the error of the samples that failed."""
        is_error = any(sample.finish_reason == "error" for sample in self._samples)
        reason: FinishReason = "error" if is_error else "abort"
        return self._error(FAILURES[reason], reason)

    @abstractmethod
    def _error(self, message: str, code: str) -> Json:
        """Return an error of the API."""


class Encoder(Format):
    """The base class of streamed responses."""

    keep_alive: ClassVar[bytes]
    """An event that clients ignore, for the time in which there is no text."""
    _done = b""
    """What ends the response after all objects."""
    _has_started = False

    def __init__(self, fields: Json, n: int, *, has_usage: bool) -> None:
        super().__init__(fields, n, has_usage=has_usage)
        self._templates: dict[tuple[int, str | None], list[bytes]] = {}
        """The bytes around the text of an event, by the sample and the section."""

    def start(self) -> list[Json]:
        """Return the objects before any text; [] the second time.

        Send them at once, so that the client knows that its request is served. Otherwise the first
        ``step`` returns them before its own objects.
        """
        if self._has_started:
            return []
        self._has_started = True
        return self._beginning()

    def step(
        self,
        chunk: Chunk,
        index: int = 0,
        *,
        num_tokens: int | None = None,
        logprobs: Sequence[PlacedLogprob] | None = None,
    ) -> list[Json]:
        """Return the objects of a chunk.

        Args:
            chunk: a chunk of the sample's stream. A chunk without text becomes an object too.
            index: the number of the sample, from 0. A message of Anthropic has only one.
            num_tokens: how many tokens the sample has read (``stream.decoder.num_tokens``). Only
                the last chunk needs it. Without it, ``token_ids`` of the chunks are counted.
            logprobs: of the tokens of the chunk (``LogprobTracker.take()``); not for Anthropic.

        A sample that is aborted or fails has no finish_reason. Its text is sent, and ``flush``
        returns the error, after the text of all samples.

        Raises TypeError for an object that is not a Chunk; ValueError for an index out of range,
        and if the usage cannot be known; :class:`~streamdec.FinishedError` after the end of the
        sample. An error changes nothing.
        """
        sample = self._taken(chunk, index, num_tokens)
        if chunk.finish_reason is not None:
            self._templates.clear()
        objects = self._objects(index, sample, chunk, logprobs or ())
        return [*self.start(), *objects]

    def flush(self) -> list[Json]:
        """Return the objects after the end: the usage, or a sample's error.

        Raises ValueError if a sample has not ended.
        """
        self._check_finished()
        return [*self.start(), *([self._failure()] if self.failed else self._ending())]

    def fail(self, message: str = FAILED) -> Json:
        """Return an error that ends the response, with the ``message`` for the client."""
        return self._error(message, "error")

    def start_bytes(self) -> bytes:
        """Return ``start`` as Server-Sent Events in UTF-8; b"" the second time."""
        return self._events(self.start())

    def step_bytes(
        self,
        chunk: Chunk,
        index: int = 0,
        *,
        num_tokens: int | None = None,
        logprobs: Sequence[PlacedLogprob] | None = None,
    ) -> bytes:
        """Return ``step`` as Server-Sent Events. See ``step``."""
        section, is_one = None, type(chunk) is Chunk
        if not is_one and isinstance(chunk, Chunk):
            section, is_one = chunk.section, len(chunk.split()) == 1
        is_plain = is_one and chunk.finish_reason is None and not logprobs
        parts = self._templates.get((index, section))
        if parts is None or not is_plain:
            objects = self.step(chunk, index, num_tokens=num_tokens, logprobs=logprobs)
            if is_plain and chunk.text and self._has_templates:
                self._templates[index, section] = self._template(index, section)
            return self._events(objects)
        sample = self._samples[index]
        # For all other chunks ``take`` would change nothing.
        if num_tokens is not None or chunk.token_ids or not sample.has_text:
            sample.take(chunk, num_tokens)
        return (chunk._json or json_of(chunk, string_bytes)).join(parts)

    def flush_bytes(self) -> bytes:
        """Return ``flush`` as events, with OpenAI's ``[DONE]``. See ``flush``."""
        return self._events(self.flush()) + self._done

    def fail_bytes(self, message: str = FAILED) -> bytes:
        """Return ``fail`` as Server-Sent Events; ``message`` is that of ``fail``."""
        return self._events([self.fail(message)]) + self._done

    def _template(self, index: int, section: str | None) -> list[bytes]:
        """Return the bytes before, between and after the copies of the text."""
        [plain] = self._objects(index, Sample(), in_section(section, "\0"))
        own = {name: value for name, value in plain.items() if name not in self._fields}
        # A field of the response, such as the model, may have the same text. They come first.
        return self._events([plain]).rsplit(_PLACE, json_bytes(own).count(_PLACE))

    def _events(self, objects: Sequence[Json]) -> bytes:
        return b"".join(b"data: %b\n\n" % json_bytes(each) for each in objects)

    def _beginning(self) -> list[Json]:
        """Return the objects before any text."""
        return []

    @abstractmethod
    def _ending(self) -> list[Json]:
        """Return the objects after the end of all samples, none of which failed."""

    @abstractmethod
    def _objects(
        self, index: int, sample: Sample, chunk: Chunk, logprobs: Sequence[PlacedLogprob] = ()
    ) -> list[Json]:
        """Return the objects of ``chunk``, which ``sample`` has taken."""


class Response(Format):
    """The base class of responses that are sent when they are complete."""

    def step(
        self,
        chunk: Chunk,
        index: int = 0,
        *,
        num_tokens: int | None = None,
        logprobs: Sequence[PlacedLogprob] | None = None,
    ) -> None:
        """Add ``chunk`` to the sample ``index``. See ``ChatCompletionEncoder.step``."""
        sample = self._taken(chunk, index, num_tokens)
        sample.parts += chunk.split()
        sample.placed += logprobs or ()

    def body(self) -> Json:
        """Return the object. If ``failed``, it is an error: send it with status 500.

        Raises ValueError if a sample has not ended. It can be called again.
        """
        self._check_finished()
        return self._failure() if self.failed else self._whole()

    @abstractmethod
    def _whole(self) -> Json:
        """Return the object of samples that have all ended without a failure."""
