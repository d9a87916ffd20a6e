"""Parts of OpenAI responses, streamed or whole: samples, usage, errors.

In: the chunks of the samples of a response. Out: parts of its JSON objects. No I/O and no clock.
"""

from __future__ import annotations

from typing import ClassVar, assert_never

from streamdec.chunks import Chunk, FinishReason, StopReason
from streamdec.errors import FinishedError
from streamdec.integrations._failures import (
    FAILED,
    check_count,
    check_text,
    failure_of,
    not_a_chunk,
)
from streamdec.integrations._json import Json
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

    def __init__(self) -> None:
        self.heads: dict[str | None, bytes] = {}
        """The bytes before the text of a plain event, by the section of the text."""
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
        if num_tokens is not None:
            self.num_tokens = num_tokens
        else:
            self.num_tokens += len(chunk.token_ids)
        self.has_text = self.has_text or bool(chunk.text)
        self.finish_reason, self.stop_reason = chunk.finish_reason, chunk.stop_reason

    def end(self) -> Json:
        """Return the fields of a choice that say why the sample ended."""
        word = _word_of(self.finish_reason)
        if word is None:
            return {"finish_reason": None}
        return {"finish_reason": word, "stop_reason": self.stop_reason}


class Format:
    """The base class of streamed and whole responses."""

    _object: ClassVar[str]

    def __init__(
        self,
        *,
        response_id: str,
        model: str,
        created: int,
        n: int = 1,
        prompt_tokens: int | None = None,
        return_token_ids: bool = False,
    ) -> None:
        self._fields: Json = {
            "id": check_text("response_id", response_id),
            "object": self._object,
            "created": check_count("created", created),
            "model": check_text("model", model),
        }
        self._has_usage = prompt_tokens is not None
        self._prompt_tokens = check_count("prompt_tokens", prompt_tokens or 0)
        self._returns_token_ids = check_flag("return_token_ids", return_token_ids)
        self._samples = [Sample() for _ in range(check_count("n", n, 1))]

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

    def _failure(self) -> Json:
        """Return the error of the samples that failed."""
        failed = [each.finish_reason for each in self._samples if failure_of(each.finish_reason)]
        reason = "error" if "error" in failed else failed[0]
        return error_body(failure_of(reason) or FAILED, code=reason)

    def _check_finished(self) -> None:
        going = [i for i, sample in enumerate(self._samples) if sample.finish_reason is None]
        if going:
            raise ValueError(
                f"samples {going} have not ended; call fail() to end the response with an error"
            )

    def _usage(self) -> Json:
        completion_tokens = sum(sample.num_tokens for sample in self._samples)
        return {
            "prompt_tokens": self._prompt_tokens,
            "completion_tokens": completion_tokens,
            "total_tokens": self._prompt_tokens + completion_tokens,
        }
