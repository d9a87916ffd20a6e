"""The detokenizer of a request, with vLLM's ``IncrementalDetokenizer`` interface.

vLLM calls ``update`` with the ids of a step and gets the stop string that they complete, then
``get_next_output_text`` for the text. The ids after a stop are not kept, as vLLM expects: it cuts
log probabilities and counts by ``num_output_tokens``. vLLM's scheduler handles stop tokens and
limits: ``stop_terminated`` says that the last id is a stop token.

What differs from vLLM's own class, and why, is in the README.
"""

from __future__ import annotations

from collections.abc import Callable
from types import SimpleNamespace
from typing import Any
from weakref import WeakKeyDictionary

from vllm.v1.engine.detokenizer import (
    FastIncrementalDetokenizer,
    IncrementalDetokenizer,
    uses_fast_detokenizer,
)

from streamdec import (
    Chunk,
    FinishedError,
    HuggingFaceTokenizer,
    StopSequenceDecoder,
    TokenIdError,
    TokenizerLoadError,
)
from streamdec_vllm.logs import say_once, say_why_left
from streamdec_vllm.reasoning import markers_of

__all__ = ["Detokenizer", "why_unsupported"]

NOTHING = Chunk()


def why_unsupported(tokenizer: Any, request: Any) -> str | None:
    """Return why streamdec does not support ``request``; None if it does.

    The reason has a few words.
    """
    if not uses_fast_detokenizer(tokenizer):
        return f"a {type(tokenizer).__name__} (it has no tokenizers.Tokenizer)"
    params = request.sampling_params
    if not (params.skip_special_tokens or params.spaces_between_special_tokens):
        return "spaces_between_special_tokens=False and skip_special_tokens=False"
    return None


_decoders: WeakKeyDictionary[Any, tuple[Any, int, Any]] = WeakKeyDictionary()
"""For each tokenizer of vLLM: the tokenizer inside, its size, and streamdec's for it."""


def _decoder_for(tokenizer: Any) -> Any:
    """Return streamdec's tokenizer for one of vLLM; another one after tokens were added."""
    inner = tokenizer._tokenizer
    size = inner.get_vocab_size(with_added_tokens=True)
    found = _decoders.get(tokenizer)
    if found is None or found[0] is not inner or found[1] != size:
        found = _decoders[tokenizer] = inner, size, _wrapped(inner)
    return found[2]


def _wrapped(inner: Any) -> Any:
    # The JSON of a fastokens tokenizer is read. If that fails, its own decode() is used.
    try:
        return HuggingFaceTokenizer(inner)
    except (TypeError, TokenizerLoadError):
        return inner


class Detokenizer(IncrementalDetokenizer):  # type: ignore[misc]
    """Turns the ids of one request into text, and finds its stop strings.

    The decoder is made when the first id comes. So adding a request takes less time, and a request
    that is aborted before its first token has no decoder.

    Args:
        tokenizer: the tokenizer of vLLM, a ``transformers.TokenizersBackend``.
        request: the ``EngineCoreRequest``. Its prompt and its sampling parameters are kept.
    """

    def __init__(self, tokenizer: Any, request: Any) -> None:
        super().__init__()
        self._tokenizer = tokenizer
        self._params = request.sampling_params
        self._is_resumable = bool(getattr(request, "resumable", False))
        prompt = request.prompt_token_ids or ()  # none, if the prompt is embeddings
        # vLLM appends the prompts of later parts to the list of a resumable request.
        self._prompt = [*prompt] if self._is_resumable else prompt
        self._request_id = request.request_id
        self._shows_stop = bool(self._params.include_stop_str_in_output)
        self._new: list[str] = []
        """The text that was not output yet."""
        self._num_given = 0
        """The number of characters that were output, if vLLM asks for new text only (``delta``)."""
        self._given = ""
        """The text that was output, if all of it is each time."""
        self._decoder: StopSequenceDecoder | None = None
        self._step: Callable[[Any], Chunk] | None = None

    def _begin(self, prompt: Any, min_tokens: int) -> None:
        """Begin to decode after ``prompt``."""
        conditions: dict[str, Any] = {}
        if self._params.stop:
            options = {
                "stop": self._params.stop,
                "min_tokens": min_tokens,
                "include_stop_str_in_output": self._shows_stop,
                "ignore_stops_between": markers_of(self._params, self._tokenizer),
            }
            conditions = {name: value for name, value in options.items() if value}
        self._decoder = StopSequenceDecoder(
            _decoder_for(self._tokenizer),
            prompt_token_ids=prompt,
            skip_special_tokens=self._params.skip_special_tokens,
            **conditions,
        )
        self._step = self._decoder.step

    def update(self, new_token_ids: list[int], stop_terminated: bool) -> str | None:
        """Take the ids of a step, and return the stop string that they complete, or None.

        Args:
            new_token_ids: the ids.
            stop_terminated: the last of them ended the request by its id.
        """
        if self._step is None:
            if not new_token_ids:
                return None
            self._begin_or_hand_over(self._prompt, self._params.min_tokens)
            return self.update(new_token_ids, stop_terminated)
        if len(new_token_ids) == 1 and not stop_terminated:  # most steps
            token_id = new_token_ids[0]
            try:
                chunk = self._step(token_id)
            except TokenIdError:
                pass  # it is read again below
            except Exception as error:
                return self._update_after(error, new_token_ids, stop_terminated)
            else:
                self.token_ids.append(token_id)
                if chunk.text:
                    self._new.append(chunk.text)
                return None if chunk.finish_reason is None else str(chunk.stop_reason)
        if not new_token_ids:
            return None
        ids, read = self.token_ids, new_token_ids
        if stop_terminated and not self._shows_stop:
            read = new_token_ids[:-1]
        num_before = len(ids)
        try:
            for token_id in read:
                try:
                    chunk = self._step(token_id)
                except TokenIdError as error:  # as vLLM does: count it, and continue
                    message = "the engine output an invalid token id; it is decoded as no text"
                    say_once(message, exc_info=error)
                    chunk = NOTHING
                ids.append(token_id)
                if chunk.text:
                    self._new.append(chunk.text)
                if chunk.finish_reason is not None:
                    return str(chunk.stop_reason)
        except Exception as error:
            rest = new_token_ids[len(ids) - num_before :]
            return self._update_after(error, rest, stop_terminated)
        if read is not new_token_ids:
            ids.append(new_token_ids[-1])
        return None

    def get_next_output_text(self, finished: bool, delta: bool) -> str:
        """Return the text since the last call (``delta``), or all of it.

        ``finished`` also outputs what was withheld. The request may continue (vLLM's streaming
        input), so this is a release and not an end. There an unfinished character waits: a part of
        a request may have a single token.
        """
        if finished:
            self._release()
        new = self._new
        if len(new) == 1:
            text = new.pop()
        else:
            text = "".join(new)
            new.clear()
        if delta:
            self._num_given += len(text)
            return text
        self._given += text
        return self._given

    def _release(self) -> None:
        """Output what is held and jailed."""
        if self._decoder is None or self._decoder.finish_reason is not None:
            return
        try:
            pending = self._decoder.pending_text
            text = pending.rstrip("\ufffd")
            if not self._is_resumable or (pending and text == pending):
                text = self._decoder.release().text
            elif text:  # it comes before an unfinished character, which a new decoder completes
                self._begin(*self._so_far())
        except Exception as error:
            say_once(f"the end of a text was not decoded: {type(error).__name__}", exc_info=error)
            text = self._decoder.jailed
        if text:
            self._new.append(text)

    # --- what is rare

    def _so_far(self) -> tuple[list[int], int]:
        """Return all ids, and how many more must follow before a stop."""
        num_missing = self._params.min_tokens - len(self.token_ids)
        return [*self._prompt, *self.token_ids], max(num_missing, 0)

    def _begin_or_hand_over(self, prompt: Any, min_tokens: int) -> None:
        try:
            self._begin(prompt, min_tokens)
        except Exception as error:
            say_why_left(error)
            self._hand_over_or_give_up()

    def _update_after(self, error: Exception, rest: list[int], stop_terminated: bool) -> str | None:
        """Continue with ``rest``; our decoder raised ``error`` at its first id."""
        if isinstance(error, FinishedError):
            # Streaming input: the request continues after a stop.
            self._begin_or_hand_over(*self._so_far())
            return self.update(rest, stop_terminated)
        name = type(error).__name__
        say_once(f"vLLM's own detokenizer continues with a request after a {name}", exc_info=error)
        self._hand_over_or_give_up()
        return self.update(rest, stop_terminated)

    def _hand_over_or_give_up(self) -> None:
        try:
            self._hand_over()
        except Exception as error:
            say_once(f"a request gets no more text: {type(error).__name__}", exc_info=error)
            self._step = _no_text

    def _hand_over(self) -> None:
        """Become vLLM's own detokenizer, which has decoded what this one has."""
        request: Any = SimpleNamespace(
            request_id=self._request_id,
            prompt_token_ids=[*self._prompt] or None,
            sampling_params=self._params,
        )
        stock = FastIncrementalDetokenizer(self._tokenizer, request)
        stop, stock.stop = stock.stop, []  # none of them was in the text
        stock.update(self.token_ids, False)
        stock.stop = stop
        stock._last_output_text_offset = self._num_given
        self.__class__, self.__dict__ = FastIncrementalDetokenizer, stock.__dict__


def _no_text(_: Any) -> Chunk:
    return NOTHING
