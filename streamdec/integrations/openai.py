"""OpenAI's wire formats: chat completions and completions, streamed and whole.

In: the chunks of one or several samples of a request. Out: the JSON objects of the API, or the
bytes of their Server-Sent Events. No I/O and no clock: the caller supplies ids and times.

Two fields are vLLM's, whose clients know them: ``stop_reason`` (the stop) and ``token_ids``. In
chats, text of the section "reasoning" is ``reasoning``, as in vLLM, and ``reasoning_content``, as
in SGLang and in DeepSeek's API. Tested with the clients openai 3.57.0 (streams, and the
accumulating ``.stream()``) and httpx 0.28.1.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import Any, ClassVar

from streamdec.chunks import Chunk, in_section, json_of
from streamdec.integrations._failures import FAILED, REASONING, failure_of, not_a_chunk
from streamdec.integrations._json import Json, json_bytes, string_bytes
from streamdec.integrations._openai_format import Format, Sample, error_body
from streamdec.integrations._openai_logprobs import chat_logprobs, completion_logprobs
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
    "error_body",
]

DONE = event("[DONE]")
"""The end of a streamed response."""
_AGAIN = b',"reasoning_content":'
"""What precedes the second copy of the text of reasoning."""


# --- streamed -------------------------------------------------------------------------------------


class _Stream(Format):
    """The base class of streamed responses."""

    keep_alive: ClassVar[bytes] = comment("keep-alive")
    """An event that clients ignore, for the time in which there is no text."""
    _keys: ClassVar[Mapping[str | None, bytes]]
    """The key of the text in a choice, as JSON, by the section of the text."""

    def __init__(
        self,
        *,
        response_id: str,
        model: str,
        created: int,
        n: int = 1,
        prompt_tokens: int | None = None,
        include_usage: bool = False,
        return_token_ids: bool = False,
    ) -> None:
        super().__init__(
            response_id=response_id,
            model=model,
            created=created,
            n=n,
            prompt_tokens=prompt_tokens,
            return_token_ids=return_token_ids,
        )
        if check_flag("include_usage", include_usage) and prompt_tokens is None:
            raise ValueError("include_usage needs prompt_tokens=")
        self._has_usage = include_usage
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
        if not self._returns_token_ids:
            for index, sample in enumerate(self._samples):
                for section, key in self._keys.items():
                    sample.heads[section], self._tail = self._template(index, section, key)
                self._running[index] = sample
        return self._beginning()

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
                Only the last chunk needs it. Without it, the ``token_ids`` of the chunks are
                counted.
            logprobs: those of the tokens of the chunk (``LogprobTracker.take()``).

        A sample that is aborted or fails has no finish_reason. Its text is sent, and ``flush``
        returns the error, after the text of all samples.

        Raises ValueError for an index out of range, and if the usage cannot be known;
        :class:`~streamdec.FinishedError` after the end of the sample. An error changes nothing.
        """
        sample = self._sample(chunk, index, num_tokens)
        events = self.start()
        *others, last = self._parts(chunk)
        events += [self._object_of(index, sample, part) for part in others]
        sample.take(chunk, num_tokens)
        if chunk.finish_reason is not None:
            self._running.pop(index, None)
        if not failure_of(chunk.finish_reason) or last.text or logprobs:
            events.append(self._object_of(index, sample, last, logprobs))
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
            events.append({**self._fields, "choices": [], "usage": self._usage()})
        return events

    def fail(self, message: str = FAILED) -> Json:
        """Return an error that ends the response. Send nothing after it.

        ``message`` is for the client.
        """
        return error_body(message, code="error")

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
        if type(chunk) is not Chunk and len(self._keys) > 1:
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

    def fail_bytes(self, message: str = FAILED) -> bytes:
        """Return ``fail`` as a Server-Sent Event, and ``[DONE]``.

        ``message`` is that of ``fail``.
        """
        return _events([self.fail(message)]) + DONE

    # --- one object

    def _template(self, index: int, section: str | None, key: bytes) -> tuple[bytes, bytes]:
        """Return the bytes before and after the text of a plain event."""
        plain = self._object_of(index, Sample(), in_section(section, "\0"))
        # JSON escapes quotes in strings, so the key is found nowhere else.
        head, _, tail = event(json_bytes(plain)).partition(key + b':"\\u0000"')
        return head + key + b":", tail.removeprefix(_AGAIN + b'"\\u0000"')

    def _object_of(
        self,
        index: int,
        sample: Sample,
        chunk: Chunk,
        logprobs: Sequence[PlacedLogprob] = (),
    ) -> Json:
        placed = self._logprobs(logprobs) if logprobs else None
        choice = {"index": index, **self._content(chunk), "logprobs": placed, **sample.end()}
        if self._returns_token_ids:
            choice["token_ids"] = list(chunk.token_ids)
        return self._with_choice(choice)

    def _with_choice(self, choice: Json) -> Json:
        answer: Json = {**self._fields, "choices": [choice]}
        return {**answer, "usage": None} if self._has_usage else answer

    def _beginning(self) -> list[Json]:
        """Return the objects before any text."""
        return []

    def _parts(self, chunk: Chunk) -> tuple[Chunk, ...]:
        """Return the parts of ``chunk`` that are objects of their own."""
        return (chunk,)

    @abstractmethod
    def _content(self, chunk: Chunk) -> Json:
        """Return the fields of a choice that have the text."""

    @abstractmethod
    def _logprobs(self, logprobs: Sequence[PlacedLogprob]) -> Json: ...


class ChatCompletionEncoder(_Stream):
    r"""Encodes a streamed chat completion: ``chat.completion.chunk`` objects.

    The first object of each sample has the role, and the last has the finish_reason. The usage, if
    the client asked for it, and ``[DONE]`` follow. ``step_bytes`` takes about as long as writing
    the text as JSON.

    Args:
        response_id: its ``id``, which the caller makes: ``"chatcmpl-..."``.
        model: the name that the client asked for.
        created: whole seconds since 1970.
        n: how many samples there are.
        prompt_tokens: how many tokens the prompt has.
        include_usage: the client's ``stream_options.include_usage``. Needs ``prompt_tokens``.
        return_token_ids: whether choices have vLLM's ``token_ids``, which are those of the chunks.

    Raises TypeError for a ``response_id`` or ``model`` that is not a string, and a flag that is not
    a bool; ValueError for a wrong number, and for ``include_usage`` without ``prompt_tokens``.

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
    _keys = MappingProxyType({None: b'"content"', REASONING: b'"reasoning"'})
    _logprobs = staticmethod(chat_logprobs)

    def _beginning(self) -> list[Json]:
        delta = {"role": "assistant", "content": ""}
        none = {"logprobs": None, "finish_reason": None}
        return [
            self._with_choice({"index": index, "delta": delta, **none}) for index in range(self.n)
        ]

    def _parts(self, chunk: Chunk) -> tuple[Chunk, ...]:
        return chunk.split()

    def _content(self, chunk: Chunk) -> Json:
        if not chunk.text and chunk.finish_reason is not None:
            return {"delta": {}}
        if chunk.section == REASONING:
            return {"delta": {"reasoning": chunk.text, "reasoning_content": chunk.text}}
        return {"delta": {"content": chunk.text}}


class CompletionEncoder(_Stream):
    r"""Encodes a streamed completion: ``text_completion`` objects.

    The arguments and errors (TypeError, ValueError) are those of ChatCompletionEncoder:
    ``response_id``, ``model``, ``created``, ``n``, ``prompt_tokens``, ``include_usage`` and
    ``return_token_ids``.

    >>> from streamdec import Chunk
    >>> from streamdec.integrations.openai import CompletionEncoder
    >>> wire = CompletionEncoder(response_id="cmpl-1", model="tiny", created=0)
    >>> [each["choices"][0]["text"] for each in wire.step(Chunk(" upon"))]
    [' upon']
    """

    _object = "text_completion"
    _keys = MappingProxyType({None: b'"text"'})
    _logprobs = staticmethod(completion_logprobs)

    def _content(self, chunk: Chunk) -> Json:
        return {"text": chunk.text}


# --- whole ----------------------------------------------------------------------------------------


class _Response(Format):
    """The base class of responses that are sent when they are complete."""

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
        sample = self._sample(chunk, index, num_tokens)
        sample.take(chunk, num_tokens)
        sample.parts += chunk.split()
        sample.placed += logprobs

    def body(self) -> Json:
        """Return the object. If ``failed``, it is an error: send it with status 500.

        Raises ValueError if a sample has not ended. It can be called again.
        """
        self._check_finished()
        if self.failed:
            return self._failure()
        choices = [self._choice(index, sample) for index, sample in enumerate(self._samples)]
        usage = {"usage": self._usage()} if self._has_usage else {}
        return {**self._fields, "choices": choices, **usage}

    def body_bytes(self) -> bytes:
        """Return ``body`` as JSON in UTF-8. Raises the errors of ``body``."""
        return json_bytes(self.body())

    def _choice(self, index: int, sample: Sample) -> Json:
        placed = self._logprobs(sample.placed) if sample.placed else None
        content = self._content(sample.parts)
        choice = {"index": index, **content, "logprobs": placed, **sample.end()}
        if self._returns_token_ids:
            ids = [token_id for part in sample.parts for token_id in part.token_ids]
            choice["token_ids"] = ids
        return choice

    @abstractmethod
    def _content(self, parts: Sequence[Chunk]) -> Json:
        """Return the fields of a choice that have the text."""

    @abstractmethod
    def _logprobs(self, logprobs: Sequence[PlacedLogprob]) -> Json: ...


class ChatResponse(_Response):
    """Makes a ``chat.completion`` object of the chunks of a stream.

    The arguments ``response_id``, ``model``, ``created``, ``n``, ``prompt_tokens`` (without it the
    object has no usage) and ``return_token_ids``, and the errors, are those of
    ChatCompletionEncoder. It keeps the chunks of all samples.

    >>> from streamdec import Chunk
    >>> from streamdec.integrations.openai import ChatResponse
    >>> answer = ChatResponse(response_id="chatcmpl-1", model="tiny", created=0, prompt_tokens=3)
    >>> answer.step(Chunk("Hi"), num_tokens=1)
    >>> answer.step(Chunk("!", "length"), num_tokens=2)
    >>> answer.body()["choices"][0]["message"], answer.body()["usage"]["completion_tokens"]
    ({'role': 'assistant', 'content': 'Hi!', 'refusal': None}, 2)
    """

    _object = "chat.completion"
    _logprobs = staticmethod(chat_logprobs)

    def _content(self, parts: Sequence[Chunk]) -> Json:
        text = "".join(each.text for each in parts if each.section != REASONING)
        reasoning = "".join(each.text for each in parts if each.section == REASONING)
        message: dict[str, Any] = {"role": "assistant", "content": text, "refusal": None}
        if reasoning:
            message |= {"reasoning": reasoning, "reasoning_content": reasoning}
        return {"message": message}


class CompletionResponse(_Response):
    """Makes a ``text_completion`` object of the chunks of a stream.

    The arguments and errors are those of ChatResponse: ``response_id``, ``model``, ``created``,
    ``n``, ``prompt_tokens`` and ``return_token_ids``. It keeps the chunks of all samples.

    >>> from streamdec import Chunk
    >>> from streamdec.integrations.openai import CompletionResponse
    >>> answer = CompletionResponse(response_id="cmpl-1", model="tiny", created=0, prompt_tokens=3)
    >>> answer.step(Chunk(" upon a time", "stop", 2), num_tokens=4)
    >>> answer.body()["choices"][0]["text"], answer.body()["choices"][0]["stop_reason"]
    (' upon a time', 2)
    """

    _object = "text_completion"
    _logprobs = staticmethod(completion_logprobs)

    def _content(self, parts: Sequence[Chunk]) -> Json:
        return {"text": "".join(each.text for each in parts)}


def _events(objects: list[Json]) -> bytes:
    return b"".join(event(json_bytes(each)) for each in objects)
