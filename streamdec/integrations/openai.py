"""OpenAI's wire formats: chat completions and completions, streamed and whole.

In: the chunks of one or several samples of a request. Out: the JSON objects of the API, or the
bytes of their Server-Sent Events. No I/O and no clock: the caller supplies ids and times.

vLLM adds some fields, which its clients know: ``stop_reason`` (the stop), ``token_ids``, and the
usage of ``continuous_usage_stats``. In chats, text of the section "reasoning" is ``reasoning``, as
in vLLM, and ``reasoning_content``, as in SGLang and in DeepSeek's API. Tested with the clients
openai 3.57.0 (streams, and the accumulating ``.stream()``) and httpx 0.28.1.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterable, Mapping, Sequence
from types import MappingProxyType
from typing import ClassVar, Unpack

from streamdec.chunks import Chunk, in_section, json_of
from streamdec.integrations._failures import FAILED, REASONING, failure_of, not_a_chunk
from streamdec.integrations._json import Json, json_bytes, string_bytes
from streamdec.integrations._openai_format import Format, ResponseOptions, Sample, error_body
from streamdec.integrations.logprobs import PlacedLogprob
from streamdec.integrations.sse import comment, event
from streamdec.mistakes import check_flag

__all__ = [
    "DONE",
    "FAILED",
    "ChatCompletionEncoder",
    "ChatResponse",
    "CompletionEncoder",
    "CompletionResponse",
    "EventStreamOptions",
    "ResponseOptions",
    "error_body",
]

DONE = event("[DONE]")
"""The end of a streamed response."""
_AGAIN = b',"reasoning_content":'
"""What precedes the second copy of the text of reasoning."""


class EventStreamOptions(ResponseOptions, total=False):
    """The keyword arguments of a streamed response: ResponseOptions and two more.

    ``response_id``, ``model`` and ``created`` are required. ``n``, ``prompt_tokens``,
    ``system_fingerprint``, ``stop_reason`` and ``return_token_ids`` are optional.

    >>> from streamdec.integrations.openai import ChatCompletionEncoder, EventStreamOptions
    >>> options: EventStreamOptions = {"response_id": "chatcmpl-1", "model": "tiny", "created": 0}
    >>> len(ChatCompletionEncoder(**options, n=2).start())
    2
    """

    include_usage: bool
    """The client's ``stream_options.include_usage``. Default: False."""
    continuous_usage_stats: bool
    """vLLM's option: each object has the usage of its sample so far. Without ``include_usage`` it
    is ignored. Default: False."""


# --- streamed -------------------------------------------------------------------------------------


class _Stream(Format):
    """The base class of streamed responses."""

    keep_alive: ClassVar[bytes] = comment("keep-alive")
    """An event that clients ignore, for the time in which there is no text."""
    _keys: ClassVar[Mapping[str | None, bytes]]
    """The key of the text in a choice, as JSON, by the section of the text."""
    _known_options = tuple(EventStreamOptions.__annotations__)

    def __init__(
        self,
        *,
        include_usage: bool = False,
        continuous_usage_stats: bool = False,
        **options: Unpack[ResponseOptions],
    ) -> None:
        super().__init__(has_usage=include_usage, **options)
        check_flag("continuous_usage_stats", continuous_usage_stats)
        self.counts_each_chunk: bool = include_usage and continuous_usage_stats  # as in vLLM
        """Whether ``step`` needs ``num_tokens`` with each chunk, not only with the last."""
        self._has_started = False
        self._running: dict[int, Sample] = {}
        """The samples whose plain events are written with ``heads`` and ``_tail``."""
        self._tail = b""

    def start(self) -> list[Json]:
        """Return the objects before any text; [] the second time.

        Send them at once, so that the client knows that its request is served. Otherwise the first
        ``step`` returns them before its own objects.
        """
        if self._has_started:
            return []
        self._has_started = True
        if not self.counts_each_chunk and not self._returns_token_ids:
            for index, sample in enumerate(self._samples):
                for section, key in self._keys.items():
                    sample.heads[section], self._tail = self._template(index, section, key)
                self._running[index] = sample
        return [
            self._object_of(index, sample, content, logprobs)
            for index, sample in enumerate(self._samples)
            for content, logprobs in self._beginning(index)
        ]

    def step(
        self,
        chunk: Chunk,
        index: int = 0,
        *,
        num_tokens: int | None = None,
        logprobs: Sequence[PlacedLogprob] = (),
    ) -> list[Json]:
        """Return the objects of a chunk.

        Args:
            chunk: a chunk of the sample's stream. A chunk without text becomes an object too.
                (Streams output such chunks only if asked to.)
            index: the number of the sample, from 0.
            num_tokens: how many tokens the sample has read so far (``stream.decoder.num_tokens``).
                Without it, the ``token_ids`` of the chunks are counted.
            logprobs: those of the tokens of the chunk (``LogprobTracker.take()``).

        A sample that is aborted or fails has no finish_reason. Its text is sent, and ``flush``
        returns the error, after the text of all samples.

        Raises ValueError for an index out of range, and if the usage cannot be known;
        :class:`~streamdec.FinishedError` after the end of the sample. An error changes nothing.
        """
        sample = self._sample(chunk, index, num_tokens)
        events = self.start()
        *others, last = chunk.split() if self._is_chat else (chunk,)
        for part in others:
            events.append(self._object_of(index, sample, self._content(part), (), part))
        sample.take(chunk, num_tokens)
        if chunk.finish_reason is not None:
            self._running.pop(index, None)
        if not failure_of(chunk.finish_reason) or last.text or logprobs:
            events.append(self._object_of(index, sample, self._content(last), logprobs, last))
        return events

    def flush(self) -> list[Json]:
        """Return the objects after the end of all samples: the usage or a sample's error.

        Raises ValueError if a sample has not ended.
        """
        self._check_finished()
        events = self.start()
        if self.failed:
            events.append(self._failure())
        elif self._has_usage:
            usage = self._usage(self.completion_tokens)
            events.append({**self._fields, "choices": [], "usage": usage})
        return events

    def fail(
        self, message: str = FAILED, *, kind: str = "server_error", code: str = "error"
    ) -> Json:
        """Return an error that ends the response. Send nothing after it.

        ``message``, ``kind`` and ``code`` are those of
        :func:`~streamdec.integrations.openai.error_body`.
        """
        return error_body(message, kind=kind, code=code)

    # --- as bytes

    def start_bytes(self) -> bytes:
        """Return ``start`` as Server-Sent Events in UTF-8; b"" the second time."""
        return _events(self.start())

    def step_bytes(
        self,
        chunk: Chunk,
        index: int = 0,
        *,
        num_tokens: int | None = None,
        logprobs: Sequence[PlacedLogprob] = (),
    ) -> bytes:
        """Return ``step`` as Server-Sent Events.

        ``chunk``, ``index``, ``num_tokens``, ``logprobs`` and the errors are those of ``step``.
        **Cost.** About that of writing the text as JSON.
        """
        sample = self._running.get(index)
        try:
            is_last = chunk.finish_reason is not None
        except AttributeError:
            raise not_a_chunk(chunk) from None
        if sample is None or is_last or logprobs:
            return _events(self.step(chunk, index, num_tokens=num_tokens, logprobs=logprobs))
        # The usual case: only the text differs from the event before.
        head = sample.heads[None]
        if type(chunk) is not Chunk and self._is_chat:
            if len(chunk.split()) > 1:
                return _events(self.step(chunk, index, num_tokens=num_tokens))
            head = sample.heads.get(chunk.section, head)
        # For all other chunks ``take`` would change nothing. The call of json_of is saved, too.
        if num_tokens is not None or chunk.token_ids or not sample.has_text:
            sample.take(chunk, num_tokens)
        text = chunk._json or json_of(chunk, string_bytes)
        if head is not sample.heads[None]:
            text += _AGAIN + text
        return head + text + self._tail

    def flush_bytes(self) -> bytes:
        """Return the objects of ``flush`` as Server-Sent Events, and ``[DONE]``.

        Raises the errors of ``flush``.
        """
        return _events(self.flush()) + DONE

    def fail_bytes(
        self, message: str = FAILED, *, kind: str = "server_error", code: str = "error"
    ) -> bytes:
        """Return ``fail`` as a Server-Sent Event, and ``[DONE]``.

        ``message``, ``kind`` and ``code`` are those of ``fail``.
        """
        return _events([self.fail(message, kind=kind, code=code)]) + DONE

    # --- one object

    def _template(self, index: int, section: str | None, key: bytes) -> tuple[bytes, bytes]:
        """Return the bytes before and after the text of a plain event."""
        plain = self._object_of(index, Sample(), self._content(in_section(section, "\0")), ())
        # JSON escapes quotes in strings, so the key is found nowhere else.
        head, _, tail = event(json_bytes(plain)).partition(key + b':"\\u0000"')
        return head + key + b":", tail.removeprefix(_AGAIN + b'"\\u0000"')

    def _object_of(
        self,
        index: int,
        sample: Sample,
        content: Json,
        logprobs: Sequence[PlacedLogprob],
        chunk: Chunk | None = None,
    ) -> Json:
        choice: Json = {"index": index, **content, "logprobs": None}
        if logprobs:
            choice["logprobs"] = self._logprobs(logprobs, self._shift(index, chunk))
        choice |= self._end(sample)
        if self._returns_token_ids and chunk is not None:
            choice["token_ids"] = list(chunk.token_ids)
        answer: Json = {**self._fields, "choices": [choice]}
        if self._has_usage:
            answer["usage"] = self._usage(sample.num_tokens) if self.counts_each_chunk else None
        return answer

    @abstractmethod
    def _beginning(self, index: int) -> Iterable[tuple[Json, Sequence[PlacedLogprob]]]:
        """Return the content and log probabilities of the first objects of a sample."""

    @abstractmethod
    def _content(self, chunk: Chunk) -> Json:
        """Return the fields of a choice that have the text."""

    def _shift(self, index: int, chunk: Chunk | None) -> int:
        return 0


class ChatCompletionEncoder(_Stream):
    r"""Encodes a streamed chat completion: ``chat.completion.chunk`` objects.

    The first object of each sample has the role, and the last has the finish_reason. The usage, if
    the client asked for it, and ``[DONE]`` follow. ``step_bytes`` takes about as long as writing
    the text as JSON.

    The ``options``, among them ``include_usage`` and ``continuous_usage_stats``, are those of
    :class:`~streamdec.integrations.openai.EventStreamOptions`. Raises TypeError for an unknown
    option, a missing required one, a ``response_id`` or ``model`` that is not a string, and a flag
    that is not a bool; ValueError for an invalid ``n``, ``created`` or ``prompt_tokens``, and for
    ``include_usage`` without ``prompt_tokens``.

    >>> from streamdec import Chunk
    >>> from streamdec.integrations.openai import ChatCompletionEncoder
    >>> wire = ChatCompletionEncoder(response_id="chatcmpl-1", model="tiny", created=0)
    >>> [each["choices"][0]["delta"] for each in wire.step(Chunk("Hi"))]
    [{'role': 'assistant', 'content': ''}, {'content': 'Hi'}]
    >>> wire.step(Chunk("", "stop", "\nUser:"))[0]["choices"]  # doctest: +NORMALIZE_WHITESPACE
    [{'index': 0, 'delta': {}, 'logprobs': None, 'finish_reason': 'stop',
      'stop_reason': '\nUser:'}]
    >>> wire.flush_bytes()
    b'data: [DONE]\n\n'
    """

    _object = "chat.completion.chunk"
    _is_chat = True
    _keys = MappingProxyType({None: b'"content"', REASONING: b'"reasoning"'})

    def _beginning(self, index: int) -> Iterable[tuple[Json, Sequence[PlacedLogprob]]]:
        return [({"delta": {"role": "assistant", "content": ""}}, ())]

    def _content(self, chunk: Chunk) -> Json:
        if not chunk.text and chunk.finish_reason is not None:
            return {"delta": {}}
        if chunk.section == REASONING:
            return {"delta": {"reasoning": chunk.text, "reasoning_content": chunk.text}}
        return {"delta": {"content": chunk.text}}


class CompletionEncoder(_Stream):
    r"""Encodes a streamed completion: ``text_completion`` objects.

    Args:
        options: those of :class:`~streamdec.integrations.openai.EventStreamOptions`.
        echo: the text of the prompt, if the client wants it before each sample; or a text for each
            sample. If the prompt ends inside a character, the character belongs to the sample.
        echo_logprobs: those of the prompt's tokens, for each sample
            (:func:`~streamdec.integrations.logprobs.prompt_logprobs`).

    Raises the errors of ChatCompletionEncoder, and ValueError if the number of echoes is not that
    of samples.

    >>> from streamdec import Chunk
    >>> from streamdec.integrations.openai import CompletionEncoder
    >>> wire = CompletionEncoder(response_id="cmpl-1", model="tiny", created=0, echo="Once")
    >>> [each["choices"][0]["text"] for each in wire.step(Chunk(" upon"))]
    ['Once', ' upon']
    """

    _object = "text_completion"
    _is_chat = False
    _keys = MappingProxyType({None: b'"text"'})
    _known_options = (*_Stream._known_options, "echo", "echo_logprobs")

    def __init__(
        self,
        *,
        echo: str | Sequence[str] = "",
        echo_logprobs: Sequence[Sequence[PlacedLogprob]] = (),
        **options: Unpack[EventStreamOptions],
    ) -> None:
        super().__init__(**options)
        self._echoes = _for_each(len(self._samples), echo, echo_logprobs)

    def _beginning(self, index: int) -> Iterable[tuple[Json, Sequence[PlacedLogprob]]]:
        text, logprobs = self._echoes[index]
        return [({"text": text}, logprobs)] if text or logprobs else []

    def _content(self, chunk: Chunk) -> Json:
        return {"text": chunk.text}

    def _shift(self, index: int, chunk: Chunk | None) -> int:
        return 0 if chunk is None else len(self._echoes[index][0])


# --- whole ----------------------------------------------------------------------------------------


class _Response(Format):
    """The base class of responses that are sent when they are complete."""

    _known_options = (*ResponseOptions.__annotations__, "logprobs")

    def __init__(self, *, logprobs: bool = False, **options: Unpack[ResponseOptions]) -> None:
        super().__init__(has_usage=True, **options)
        self._has_logprobs = check_flag("logprobs", logprobs)
        self._texts: list[list[str]] = [[] for _ in self._samples]
        self._reasoning: list[list[str]] = [[] for _ in self._samples]
        self._placed: list[list[PlacedLogprob]] = [[] for _ in self._samples]
        self._token_ids: list[list[int]] = [[] for _ in self._samples]

    def step(
        self,
        chunk: Chunk,
        index: int = 0,
        *,
        num_tokens: int | None = None,
        logprobs: Sequence[PlacedLogprob] = (),
    ) -> None:
        """Add ``chunk`` to the sample ``index``.

        ``num_tokens``, ``logprobs`` and the errors are those of ``ChatCompletionEncoder.step``.
        """
        self._sample(chunk, index, num_tokens).take(chunk, num_tokens)
        for part in chunk.split():
            is_reasoning = self._is_chat and part.section == REASONING
            (self._reasoning if is_reasoning else self._texts)[index].append(part.text)
        self._placed[index] += logprobs
        self._token_ids[index] += chunk.token_ids

    def body(self) -> Json:
        """Return the object. If ``failed``, it is an error: send it with status 500.

        Raises ValueError if a sample has not ended. It can be called again.
        """
        self._check_finished()
        if self.failed:
            return self._failure()
        choices = [self._choice(index, sample) for index, sample in enumerate(self._samples)]
        usage = self._usage(self.completion_tokens)
        return {**self._fields, "choices": choices, "usage": usage}

    def body_bytes(self) -> bytes:
        """Return ``body`` as JSON in UTF-8. Raises the errors of ``body``."""
        return json_bytes(self.body())

    def _choice(self, index: int, sample: Sample) -> Json:
        text, logprobs = "".join(self._texts[index]), None
        if self._has_logprobs:
            logprobs = self._all_logprobs(index)
        choice: Json = {"index": index, **self._content(index, text), "logprobs": logprobs}
        choice |= self._end(sample)
        if self._returns_token_ids:
            choice["token_ids"] = self._token_ids[index]
        return choice

    def _all_logprobs(self, index: int) -> Json:
        return self._logprobs(self._placed[index])

    @abstractmethod
    def _content(self, index: int, text: str) -> Json:
        """Return the fields of a choice that have the text."""


class ChatResponse(_Response):
    """Makes a ``chat.completion`` object of the chunks of a stream.

    Args:
        options: those of :class:`~streamdec.integrations.openai.ResponseOptions`.
            ``prompt_tokens`` is required.
        logprobs: whether the client asked for them.

    Raises the errors of ChatCompletionEncoder. It keeps the texts of all samples.

    >>> from streamdec import Chunk
    >>> from streamdec.integrations.openai import ChatResponse
    >>> answer = ChatResponse(response_id="chatcmpl-1", model="tiny", created=0, prompt_tokens=3)
    >>> answer.step(Chunk("Hi"), num_tokens=1)
    >>> answer.step(Chunk("!", "length"), num_tokens=2)
    >>> answer.body()["choices"][0]["message"], answer.body()["usage"]["completion_tokens"]
    ({'role': 'assistant', 'content': 'Hi!', 'refusal': None}, 2)
    """

    _object = "chat.completion"
    _is_chat = True

    def _content(self, index: int, text: str) -> Json:
        message = {"role": "assistant", "content": text, "refusal": None}
        if reasoning := "".join(self._reasoning[index]):
            message |= {"reasoning": reasoning, "reasoning_content": reasoning}
        return {"message": message}


class CompletionResponse(_Response):
    """Makes a ``text_completion`` object of the chunks of a stream.

    Args:
        options: those of :class:`~streamdec.integrations.openai.ResponseOptions`.
            ``prompt_tokens`` is required.
        logprobs: whether the client asked for them.
        echo, echo_logprobs: as for CompletionEncoder.

    Raises the errors of CompletionEncoder. It keeps the texts of all samples.

    >>> from streamdec import Chunk
    >>> from streamdec.integrations.openai import CompletionResponse
    >>> answer = CompletionResponse(response_id="cmpl-1", model="tiny", created=0, prompt_tokens=3)
    >>> answer.step(Chunk(" upon a time", "stop", 2), num_tokens=4)
    >>> answer.body()["choices"][0]["text"], answer.body()["choices"][0]["stop_reason"]
    (' upon a time', 2)
    """

    _object = "text_completion"
    _is_chat = False
    _known_options = (*_Response._known_options, "echo", "echo_logprobs")

    def __init__(
        self,
        *,
        echo: str | Sequence[str] = "",
        echo_logprobs: Sequence[Sequence[PlacedLogprob]] = (),
        logprobs: bool = False,
        **options: Unpack[ResponseOptions],
    ) -> None:
        super().__init__(logprobs=logprobs, **options)
        self._echoes = _for_each(len(self._samples), echo, echo_logprobs)

    def _content(self, index: int, text: str) -> Json:
        return {"text": self._echoes[index][0] + text}

    def _all_logprobs(self, index: int) -> Json:
        text, logprobs = self._echoes[index]
        shifted = [
            each._replace(text_offset=each.text_offset + len(text)) for each in self._placed[index]
        ]
        return self._logprobs([*logprobs, *shifted])


# --- parts ----------------------------------------------------------------------------------------


def _events(objects: list[Json]) -> bytes:
    return b"".join(event(json_bytes(each)) for each in objects)


def _for_each(
    n: int, echo: str | Sequence[str], logprobs: Sequence[Sequence[PlacedLogprob]]
) -> list[tuple[str, Sequence[PlacedLogprob]]]:
    """Return the echoed text of each sample, with its log probabilities."""
    echoes = [echo] * n if isinstance(echo, str) else list(echo)
    for name, given in (("echo", echoes), ("echo_logprobs", logprobs or echoes)):
        if len(given) != n:
            told = f"{name} must have a part for each of the {n} samples, not {len(given)}"
            raise ValueError(told)
    return list(zip(echoes, logprobs or [()] * n, strict=True))
