"""OpenAI's wire formats: chat completions and completions, streamed and whole.

In: the chunks of one or several samples of a request. Out: the JSON objects of the API, or the
bytes of their Server-Sent Events. No I/O and no clock: ids and times are the caller's.

Beside what OpenAI sends there is what vLLM adds and its clients know: ``stop_reason`` (which stop
it was), ``continuous_usage_stats``, ``token_ids``. Tried with the clients openai 3.52.0 (streams,
and the accumulating ``.stream()``) and httpx 0.28.1.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Sequence
from typing import ClassVar, Required, TypedDict, Unpack

from streamdec.chunks import Chunk, FinishReason, StopReason, json_of
from streamdec.errors import FinishedError
from streamdec.integrations._failures import FAILED, FAILURES
from streamdec.integrations._json import Json, json_bytes, string_bytes
from streamdec.integrations._openai_logprobs import chat_logprobs, completion_logprobs
from streamdec.integrations.logprobs import PlacedLogprob
from streamdec.integrations.sse import comment, event

__all__ = [
    "DONE",
    "FAILED",
    "ChatCompletionEncoder",
    "ChatResponse",
    "CompletionEncoder",
    "CompletionResponse",
    "ResponseOptions",
    "StreamOptions",
    "error_body",
]

DONE = event("[DONE]")
"""The end of a streamed response."""


def error_body(
    message: str,
    *,
    kind: str = "server_error",
    code: str | None = None,
    param: str | None = None,
) -> Json:
    """An error as the API gives it: the body of a response, or an event in the midst of one.

    Args:
        message: what a person reads.
        kind: OpenAI's ``type``: ``"invalid_request_error"``, ``"server_error"``.
        code: what a program reads.
        param: which parameter of the request was wrong.

    >>> from streamdec.integrations.openai import error_body
    >>> error_body("n must be 1 at least", kind="invalid_request_error")["error"]["type"]
    'invalid_request_error'
    """
    return {"error": {"message": message, "type": kind, "param": param, "code": code}}


class ResponseOptions(TypedDict, total=False):
    """What a response is made of, however it is sent: keyword arguments of the four classes.

    >>> from streamdec.integrations.openai import CompletionResponse, ResponseOptions
    >>> options: ResponseOptions = {"response_id": "cmpl-1", "model": "tiny", "created": 0}
    >>> CompletionResponse(**options, prompt_tokens=3).finished
    False
    """

    response_id: Required[str]
    """Its ``id``, of the caller's making: ``"chatcmpl-..."``, ``"cmpl-..."``."""
    model: Required[str]
    """The name that the client asked for."""
    created: Required[int]
    """Whole seconds since 1970."""
    n: int
    """How many samples there are; 1 if nothing is said."""
    prompt_tokens: int
    """How many tokens the prompt has. Needed wherever there is a usage."""
    system_fingerprint: str
    """As the API has it; left out if nothing is said."""
    stop_reason: bool
    """Whether vLLM's field is there beside each finish_reason: which stop it was. True."""
    return_token_ids: bool
    """Whether choices have vLLM's ``token_ids``: those of the chunks. False."""


class StreamOptions(ResponseOptions, total=False):
    """What a streamed response is made of: those of ResponseOptions, and two more.

    ``response_id``, ``model`` and ``created`` are required; ``n``, ``prompt_tokens``,
    ``system_fingerprint``, ``stop_reason`` and ``return_token_ids`` are not.

    >>> from streamdec.integrations.openai import ChatCompletionEncoder, StreamOptions
    >>> options: StreamOptions = {"response_id": "chatcmpl-1", "model": "tiny", "created": 0}
    >>> len(ChatCompletionEncoder(**options, n=2).start())
    2
    """

    include_usage: bool
    """The client's ``stream_options.include_usage``. False."""
    continuous_usage_stats: bool
    """vLLM's: each object has the usage so far of its own sample. Nothing without the usage."""


class _Sample:
    """What is known of one sample."""

    __slots__ = ("finish_reason", "has_text", "head", "num_tokens", "stop_reason")

    def __init__(self) -> None:
        self.head = b""
        """What comes before the text of a plain event."""
        self.num_tokens = 0
        self.has_text = False
        self.finish_reason: FinishReason | None = None
        self.stop_reason: StopReason = None

    def take(self, chunk: Chunk, num_tokens: int | None) -> None:
        """Notes a chunk: how many tokens there are, and whether it is the last."""
        if num_tokens is not None:
            self.num_tokens = num_tokens
        else:
            self.num_tokens += len(chunk.token_ids)
        self.has_text = self.has_text or bool(chunk.text)
        self.finish_reason, self.stop_reason = chunk.finish_reason, chunk.stop_reason


class _Format(ABC):
    """What a response knows, however it is sent."""

    _object: ClassVar[str]
    _is_chat: ClassVar[bool]

    def __init__(self, *, has_usage: bool, **options: Unpack[ResponseOptions]) -> None:
        n, prompt_tokens = options.get("n", 1), options.get("prompt_tokens")
        if type(n) is not int or n < 1:
            raise ValueError(f"n must be a number of samples, from 1 up, not {n!r:.40}")
        if type(options["created"]) is not int:
            found = options["created"]
            raise ValueError(f"created must be whole seconds since 1970, not {found!r:.40}")
        if has_usage and prompt_tokens is None:
            raise ValueError("a response with a usage needs prompt_tokens")
        if prompt_tokens is not None and (type(prompt_tokens) is not int or prompt_tokens < 0):
            raise ValueError(f"prompt_tokens must be a count, not {prompt_tokens!r:.40}")
        self._fields: Json = {
            "id": options["response_id"],
            "object": self._object,
            "created": options["created"],
            "model": options["model"],
        }
        if "system_fingerprint" in options:
            self._fields["system_fingerprint"] = options["system_fingerprint"]
        self._has_usage = has_usage
        self._prompt_tokens = prompt_tokens or 0
        self._says_stop_reason = options.get("stop_reason", True)
        self._returns_token_ids = options.get("return_token_ids", False)
        self._samples = [_Sample() for _ in range(n)]

    # --- what may be asked

    @property
    def failed(self) -> bool:
        """Whether a sample was aborted or failed, so that the response is an error."""
        return any(sample.finish_reason in FAILURES for sample in self._samples)

    @property
    def finished(self) -> bool:
        """Whether every sample has its end."""
        return all(sample.finish_reason is not None for sample in self._samples)

    @property
    def completion_tokens(self) -> int:
        """How many tokens were read so far, for all samples together."""
        return sum(sample.num_tokens for sample in self._samples)

    # --- for both

    def _sample(self, chunk: Chunk, index: int, num_tokens: int | None) -> _Sample:
        """The sample that ``chunk`` is of. Raises what ``step`` does, and changes nothing."""
        if type(index) is not int or not 0 <= index < len(self._samples):
            raise ValueError(f"index must be from 0 to {len(self._samples) - 1}, not {index!r:.40}")
        sample = self._samples[index]
        if sample.finish_reason is not None:
            raise FinishedError(f"sample {index} has ended ({sample.finish_reason})")
        is_counted = num_tokens is not None or sample.num_tokens or chunk.token_ids
        has_text = sample.has_text or chunk.text
        if chunk.finish_reason is not None and self._has_usage and has_text and not is_counted:
            raise ValueError("a response with a usage needs num_tokens, or chunks with token_ids")
        return sample

    def _end(self, sample: _Sample) -> Json:
        """The end of a sample, as its choice has it."""
        reason = sample.finish_reason
        if reason is None or reason in FAILURES:
            return {"finish_reason": None}
        if not self._says_stop_reason:
            return {"finish_reason": reason}
        return {"finish_reason": reason, "stop_reason": _as_json(sample.stop_reason)}

    def _failure(self) -> Json:
        """The error of the samples that failed."""
        reasons = {sample.finish_reason for sample in self._samples}
        reason: FinishReason = "error" if "error" in reasons else "abort"
        return error_body(FAILURES[reason], code=reason)

    def _check_finished(self) -> None:
        going = [i for i, sample in enumerate(self._samples) if sample.finish_reason is None]
        if going:
            raise ValueError(f"samples that have no end yet: {going}; fail() breaks a response off")

    def _usage(self, completion_tokens: int) -> Json:
        prompt_tokens = self._prompt_tokens
        return {
            "prompt_tokens": prompt_tokens,
            "completion_tokens": completion_tokens,
            "total_tokens": prompt_tokens + completion_tokens,
        }

    def _logprobs(self, logprobs: Sequence[PlacedLogprob], shift: int = 0) -> Json:
        return chat_logprobs(logprobs) if self._is_chat else completion_logprobs(logprobs, shift)


# --- streamed -------------------------------------------------------------------------------------


class _Stream(_Format):
    """A response that is sent as it comes."""

    keep_alive: ClassVar[bytes] = comment("keep-alive")
    """What may be sent while nothing comes."""
    _key: ClassVar[bytes]
    """Of the text, in a choice."""

    def __init__(
        self,
        *,
        include_usage: bool = False,
        continuous_usage_stats: bool = False,
        **options: Unpack[ResponseOptions],
    ) -> None:
        super().__init__(has_usage=include_usage, **options)
        self._is_continuous = include_usage and continuous_usage_stats  # as in vLLM
        self._has_started = False
        self._running: dict[int, _Sample] = {}
        """The samples whose plain events are written by template."""
        self._tail = b""

    def start(self) -> list[Json]:
        """The objects that come before any text; none the second time. ``step`` begins with them.

        To be sent at once: a client then knows that its request is being served.
        """
        if self._has_started:
            return []
        self._has_started = True
        if not self._is_continuous and not self._returns_token_ids:
            for index, sample in enumerate(self._samples):
                sample.head, self._tail = self._template(index)
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
        """The objects that a chunk of sample ``index`` makes.

        Args:
            chunk: what its stream gave. One without text makes an object too: streams give such
                chunks only if they are asked for.
            index: which sample it is of, from 0.
            num_tokens: how many tokens the sample has read so far (``stream.machine.num_tokens``).
                Without it the ``token_ids`` of the chunks are counted.
            logprobs: of the tokens of the chunk (``LogprobTracker.take()``).

        A sample that is aborted or fails has no finish_reason: its text is sent, and the error
        comes with ``flush``, after the text of all samples.

        Raises ValueError for an index that is none, and if the usage cannot be known;
        :class:`~streamdec.FinishedError` after the end of the sample. All is then as before.
        """
        sample = self._sample(chunk, index, num_tokens)
        events = self.start()
        sample.take(chunk, num_tokens)
        if chunk.finish_reason is not None:
            self._running.pop(index, None)
        if chunk.finish_reason not in FAILURES or chunk.text or logprobs:
            content = self._content(chunk)
            events.append(self._object_of(index, sample, content, logprobs, chunk))
        return events

    def flush(self) -> list[Json]:
        """The objects after the end of all samples: the usage, or the error of one that failed.

        ValueError if a sample has not ended.
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
        """The object that breaks the response off, whatever was sent before.

        ``message``, ``kind`` and ``code`` are those of
        :func:`~streamdec.integrations.openai.error_body`. Nothing is to be sent after it.
        """
        return error_body(message, kind=kind, code=code)

    # --- as bytes

    def start_bytes(self) -> bytes:
        """``start`` as Server-Sent Events, UTF-8; empty the second time."""
        return _events(self.start())

    def step_bytes(
        self,
        chunk: Chunk,
        index: int = 0,
        *,
        num_tokens: int | None = None,
        logprobs: Sequence[PlacedLogprob] = (),
    ) -> bytes:
        """``step`` as Server-Sent Events.

        ``chunk``, ``index``, ``num_tokens``, ``logprobs`` and what is raised are those of ``step``.
        Cost: about that of writing the text as JSON.
        """
        sample = self._running.get(index)
        if sample is None or chunk.finish_reason is not None or logprobs:
            return _events(self.step(chunk, index, num_tokens=num_tokens, logprobs=logprobs))
        # Nearly all chunks are of this kind: only the text differs from the event before.
        sample.take(chunk, num_tokens)
        return sample.head + json_of(chunk, string_bytes) + self._tail

    def flush_bytes(self) -> bytes:
        """``flush`` as Server-Sent Events, and ``[DONE]``. Raises what ``flush`` raises."""
        return _events(self.flush()) + DONE

    def fail_bytes(
        self, message: str = FAILED, *, kind: str = "server_error", code: str = "error"
    ) -> bytes:
        """``fail`` as a Server-Sent Event, and ``[DONE]``.

        ``message``, ``kind`` and ``code`` are those of ``fail``.
        """
        return _events([self.fail(message, kind=kind, code=code)]) + DONE

    # --- one object

    def _template(self, index: int) -> tuple[bytes, bytes]:
        """What comes before and after the text of a plain event."""
        plain = self._object_of(index, _Sample(), self._content(Chunk("\0")), ())
        key = self._key + b":"
        # No string of JSON has a quote that is not escaped: the key is found nowhere else.
        head, _, tail = event(json_bytes(plain)).partition(key + b'"\\u0000"')
        return head + key, tail

    def _object_of(
        self,
        index: int,
        sample: _Sample,
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
            answer["usage"] = self._usage(sample.num_tokens) if self._is_continuous else None
        return answer

    @abstractmethod
    def _beginning(self, index: int) -> Iterable[tuple[Json, Sequence[PlacedLogprob]]]:
        """What a sample begins with: the content of objects, and the log probabilities in them."""

    @abstractmethod
    def _content(self, chunk: Chunk) -> Json:
        """A chunk, as a choice has it."""

    def _shift(self, index: int, chunk: Chunk | None) -> int:
        return 0


class ChatCompletionEncoder(_Stream):
    r"""A chat completion, as it comes: ``chat.completion.chunk`` objects.

    The first of each sample has the role, the last the finish_reason; then comes the usage if it
    was asked for, and ``[DONE]``. ``step_bytes`` of a chunk costs about as much as its text takes
    to be written as JSON.

    Its ``options`` are those of :class:`~streamdec.integrations.openai.StreamOptions`, as are
    ``include_usage`` and ``continuous_usage_stats``. ValueError for a count that is none, and for a
    usage without ``prompt_tokens``.

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
    _key = b'"content"'

    def _beginning(self, index: int) -> Iterable[tuple[Json, Sequence[PlacedLogprob]]]:
        return [({"delta": {"role": "assistant", "content": ""}}, ())]

    def _content(self, chunk: Chunk) -> Json:
        has_content = chunk.text or chunk.finish_reason is None
        return {"delta": {"content": chunk.text} if has_content else {}}


class CompletionEncoder(_Stream):
    r"""A completion, as it comes: ``text_completion`` objects.

    Args:
        options: those of :class:`~streamdec.integrations.openai.StreamOptions`.
        echo: the text of the prompt, if the client wants it before each sample; or one for each
            sample. (Of ids that end inside a character without that: it comes with the sample.)
        echo_logprobs: of the prompt's tokens, for each sample
            (:func:`~streamdec.integrations.logprobs.prompt_logprobs`).

    Raises what ChatCompletionEncoder does, and ValueError for another number of echoes than of
    samples.

    >>> from streamdec import Chunk
    >>> from streamdec.integrations.openai import CompletionEncoder
    >>> wire = CompletionEncoder(response_id="cmpl-1", model="tiny", created=0, echo="Once")
    >>> [each["choices"][0]["text"] for each in wire.step(Chunk(" upon"))]
    ['Once', ' upon']
    """

    _object = "text_completion"
    _is_chat = False
    _key = b'"text"'

    def __init__(
        self,
        *,
        echo: str | Sequence[str] = "",
        echo_logprobs: Sequence[Sequence[PlacedLogprob]] = (),
        **options: Unpack[StreamOptions],
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


class _Response(_Format):
    """A response that is sent when it is complete."""

    def __init__(self, *, logprobs: bool = False, **options: Unpack[ResponseOptions]) -> None:
        super().__init__(has_usage=True, **options)
        self._has_logprobs = logprobs
        self._texts: list[list[str]] = [[] for _ in self._samples]
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
        """Takes ``chunk``, of the sample ``index``.

        ``num_tokens``, ``logprobs`` and what is raised are as for ``ChatCompletionEncoder.step``.
        """
        self._sample(chunk, index, num_tokens).take(chunk, num_tokens)
        self._texts[index].append(chunk.text)
        self._placed[index] += logprobs
        self._token_ids[index] += chunk.token_ids

    def body(self) -> Json:
        """The object; the error of a sample that was aborted or failed (``failed`` says so: 500).

        Raises ValueError if a sample has not ended. May be asked for again.
        """
        self._check_finished()
        if self.failed:
            return self._failure()
        choices = [self._choice(index, sample) for index, sample in enumerate(self._samples)]
        usage = self._usage(self.completion_tokens)
        return {**self._fields, "choices": choices, "usage": usage}

    def body_bytes(self) -> bytes:
        """``body`` as JSON, UTF-8. Raises what ``body`` raises."""
        return json_bytes(self.body())

    def _choice(self, index: int, sample: _Sample) -> Json:
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
        """The text of a sample, as a choice has it."""


class ChatResponse(_Response):
    """A whole ``chat.completion``, of the same chunks as a stream.

    Args:
        options: those of :class:`~streamdec.integrations.openai.ResponseOptions`; with
            ``prompt_tokens``.
        logprobs: whether the client asked for them.

    Raises ValueError as ChatCompletionEncoder does. The texts of all samples are held.

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
        return {"message": {"role": "assistant", "content": text, "refusal": None}}


class CompletionResponse(_Response):
    """A whole ``text_completion``, of the same chunks as a stream.

    Args:
        options: those of :class:`~streamdec.integrations.openai.ResponseOptions`; with
            ``prompt_tokens``.
        logprobs: whether the client asked for them.
        echo, echo_logprobs: as for CompletionEncoder.

    Raises ValueError as CompletionEncoder does. The texts of all samples are held.

    >>> from streamdec import Chunk
    >>> from streamdec.integrations.openai import CompletionResponse
    >>> answer = CompletionResponse(response_id="cmpl-1", model="tiny", created=0, prompt_tokens=3)
    >>> answer.step(Chunk(" upon a time", "stop", 2), num_tokens=4)
    >>> answer.body()["choices"][0]["text"], answer.body()["choices"][0]["stop_reason"]
    (' upon a time', 2)
    """

    _object = "text_completion"
    _is_chat = False

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


def _as_json(stop_reason: StopReason) -> str | int | list[int] | None:
    return list(stop_reason) if isinstance(stop_reason, tuple) else stop_reason


def _for_each(
    n: int, echo: str | Sequence[str], logprobs: Sequence[Sequence[PlacedLogprob]]
) -> list[tuple[str, Sequence[PlacedLogprob]]]:
    """What is echoed for each sample."""
    echoes = [echo] * n if isinstance(echo, str) else list(echo)
    for name, given in (("echo", echoes), ("echo_logprobs", logprobs or echoes)):
        if len(given) != n:
            raise ValueError(f"{name} has {len(given)} parts, and there are {n} samples")
    return list(zip(echoes, logprobs or [()] * n, strict=True))
