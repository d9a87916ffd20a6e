"""Parts of OpenAI responses, streamed or whole: options, samples, usage, errors.

In: the chunks of the samples of a response. Out: parts of its JSON objects. No I/O and no clock.
"""

from __future__ import annotations

from abc import ABC
from collections.abc import Sequence
from typing import ClassVar, Required, TypedDict, Unpack, assert_never

from streamdec.chunks import Chunk, FinishReason, StopReason
from streamdec.errors import FinishedError
from streamdec.integrations._failures import (
    FAILED,
    check_options,
    check_texts,
    failure_of,
    not_a_chunk,
)
from streamdec.integrations._json import Json
from streamdec.integrations._openai_logprobs import chat_logprobs, completion_logprobs
from streamdec.integrations.logprobs import PlacedLogprob
from streamdec.mistakes import check_flag


def error_body(
    message: str,
    *,
    kind: str = "server_error",
    code: str | None = None,
    param: str | None = None,
) -> Json:
    """Return an error of the API, as the body of a response or as a streamed event.

    Args:
        message: the message for people.
        kind: OpenAI's ``type``: ``"invalid_request_error"``, ``"server_error"``.
        code: the code for programs.
        param: the parameter of the request that was wrong.

    >>> from streamdec.integrations.openai import error_body
    >>> error_body("n must be at least 1", kind="invalid_request_error")["error"]["type"]
    'invalid_request_error'
    """
    return {"error": {"message": message, "type": kind, "param": param, "code": code}}


class ResponseOptions(TypedDict, total=False):
    """The keyword arguments that all four classes of responses take.

    >>> from streamdec.integrations.openai import CompletionResponse, ResponseOptions
    >>> options: ResponseOptions = {"response_id": "cmpl-1", "model": "tiny", "created": 0}
    >>> CompletionResponse(**options, prompt_tokens=3).finished
    False
    """

    response_id: Required[str]
    """Its ``id``, which the caller makes: ``"chatcmpl-..."``, ``"cmpl-..."``."""
    model: Required[str]
    """The name that the client asked for."""
    created: Required[int]
    """Whole seconds since 1970."""
    n: int
    """How many samples there are. Default: 1."""
    prompt_tokens: int
    """How many tokens the prompt has. Required for a response with a usage."""
    system_fingerprint: str
    """The field of the API. Default: left out."""
    stop_reason: bool
    """Whether each finish_reason comes with vLLM's field, which has the stop. Default: True."""
    return_token_ids: bool
    """Whether choices have vLLM's ``token_ids``, which are those of the chunks. Default: False."""


def _word_of(reason: FinishReason | None) -> str | None:
    """Return the API's word for ``reason``; None for no reason and for a failure."""
    match reason:
        case "stop" | "length" | "content_filter":
            return reason
        case None | "abort" | "error":
            return None
        case _:
            assert_never(reason)


class Sample:
    """The state of one sample."""

    __slots__ = ("finish_reason", "has_text", "heads", "num_tokens", "stop_reason")

    def __init__(self) -> None:
        self.heads: dict[str | None, bytes] = {}
        """The bytes before the text of a plain event, by the section of the text."""
        self.num_tokens = 0
        self.has_text = False
        self.finish_reason: FinishReason | None = None
        self.stop_reason: StopReason = None

    def take(self, chunk: Chunk, num_tokens: int | None) -> None:
        """Note the number of tokens after ``chunk``, and whether it is the last chunk."""
        if num_tokens is not None:
            self.num_tokens = num_tokens
        else:
            self.num_tokens += len(chunk.token_ids)
        self.has_text = self.has_text or bool(chunk.text)
        self.finish_reason, self.stop_reason = chunk.finish_reason, chunk.stop_reason


class Format(ABC):
    """The base class of streamed and whole responses."""

    _object: ClassVar[str]
    _is_chat: ClassVar[bool]
    _known_options: ClassVar[tuple[str, ...]]
    """The names of all its options."""

    def __init__(self, *, has_usage: bool, **options: Unpack[ResponseOptions]) -> None:
        required = ("response_id", "model", "created")
        check_options(type(self).__name__, options, self._known_options, required)
        check_texts(options, ("response_id", "model"))
        check_flag("include_usage", has_usage)
        n, prompt_tokens = options.get("n", 1), options.get("prompt_tokens")
        if type(n) is not int or n < 1:
            raise ValueError(f"n must be an integer of at least 1, not {n!r:.40}")
        if type(options["created"]) is not int:
            found = options["created"]
            raise ValueError(f"created must be whole seconds since 1970, not {found!r:.40}")
        if has_usage and prompt_tokens is None:
            raise ValueError("a response with usage needs prompt_tokens=")
        if prompt_tokens is not None and (type(prompt_tokens) is not int or prompt_tokens < 0):
            raise ValueError(
                f"prompt_tokens must be an integer of at least 0, not {prompt_tokens!r:.40}"
            )
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
        self._says_stop_reason = check_flag("stop_reason", options.get("stop_reason", True))
        self._returns_token_ids = check_flag(
            "return_token_ids", options.get("return_token_ids", False)
        )
        self._samples = [Sample() for _ in range(n)]

    # --- properties

    @property
    def n(self) -> int:
        """How many samples the response has."""
        return len(self._samples)

    @property
    def failed(self) -> bool:
        """Whether a sample was aborted or failed, so that the response is an error."""
        return any(failure_of(sample.finish_reason) for sample in self._samples)

    @property
    def finished(self) -> bool:
        """Whether every sample has ended."""
        return all(sample.finish_reason is not None for sample in self._samples)

    @property
    def completion_tokens(self) -> int:
        """How many tokens all samples together have read so far."""
        return sum(sample.num_tokens for sample in self._samples)

    # --- parts of responses

    def _sample(self, chunk: Chunk, index: int, num_tokens: int | None) -> Sample:
        """Return the sample of ``chunk``.

        Raises the errors of ``step``, before any change.
        """
        if not isinstance(chunk, Chunk):
            raise not_a_chunk(chunk)
        if type(index) is not int or not 0 <= index < len(self._samples):
            raise ValueError(
                f"index must be from 0 to {len(self._samples) - 1}, not {index!r:.40}: "
                f"{type(self).__name__} was made with n={len(self._samples)}"
            )
        sample = self._samples[index]
        if sample.finish_reason is not None:
            raise FinishedError(f"sample {index} has ended ({sample.finish_reason})")
        is_counted = num_tokens is not None or sample.num_tokens or chunk.token_ids
        has_text = sample.has_text or chunk.text
        if chunk.finish_reason is not None and self._has_usage and has_text and not is_counted:
            raise ValueError("a response with usage needs num_tokens=, or chunks with token_ids")
        return sample

    def _end(self, sample: Sample) -> Json:
        """Return the fields of a choice that say why the sample ended."""
        word = _word_of(sample.finish_reason)
        if word is None or not self._says_stop_reason:
            return {"finish_reason": word}
        return {"finish_reason": word, "stop_reason": sample.stop_reason}

    def _failure(self) -> Json:
        """Return the error of the samples that failed."""
        failed = [each.finish_reason for each in self._samples if failure_of(each.finish_reason)]
        reason = "error" if "error" in failed else failed[0]
        return error_body(failure_of(reason) or FAILED, code=reason)

    def _check_finished(self) -> None:
        going = [i for i, sample in enumerate(self._samples) if sample.finish_reason is None]
        if going:
            told = "have not ended; call fail() to end the response with an error"
            raise ValueError(f"samples {going} {told}")

    def _usage(self, completion_tokens: int) -> Json:
        prompt_tokens = self._prompt_tokens
        return {
            "prompt_tokens": prompt_tokens,
            "completion_tokens": completion_tokens,
            "total_tokens": prompt_tokens + completion_tokens,
        }

    def _logprobs(self, logprobs: Sequence[PlacedLogprob], shift: int = 0) -> Json:
        return chat_logprobs(logprobs) if self._is_chat else completion_logprobs(logprobs, shift)
