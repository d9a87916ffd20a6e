"""The search for stop strings in SGLang's scheduler, with each id read once.

SGLang decodes the last ids of a request at each step to look for its stop strings, and a second
time if the request streams, to see whether the end of its text may become one. Here a request with
stop strings has a :class:`streamdec.StopSequenceDecoder`, which takes each new id. It tells when no
stop can be complete, which is so at nearly all steps. When it finds one, SGLang's own code decides:
the reason of the end, its length, and which of several stops counts, are SGLang's. If that does not
find the stop, or only later, another decoder looks for the stops after it.

SGLang's code does not know of reasoning. If the stops of a request are ignored between markers, its
decoder decides instead. The manager of the detokenizer cuts a text at the first occurrence of the
stop, which may be one that was ignored. So the reason of the end (:class:`FoundStop`) says where
the stop is, and :func:`trim_matched_stop` cuts there.

Text that may become a stop is withheld (``jailed``). It stays withheld while an incomplete
character follows it, whereas SGLang would send it.

The class of a request is changed when it is made, if it has stop strings. So a request without
stops costs nothing more, and the decoder is freed with its request.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import lru_cache
from typing import Any

from sglang.srt.managers.schedule_batch import FINISH_MATCHED_STR, Req

from streamdec import DecodeStream, HuggingFaceTokenizer, StopSequenceDecoder
from streamdec.protocols import ByteFallback, ByteLevel
from streamdec_sglang.logs import say_once
from streamdec_sglang.reasoning import Pairs, markers_of, note_regex
from streamdec_sglang.tokenizer import decoder_for, why_unsupported

__all__ = ["CheckedReq", "FoundStop", "equip", "trim_matched_stop"]

_CONTEXT = 16
"""How many ids before those that a decoder reads again are its prompt, for an open character."""
_AFTER = "streamdec_num_after"
"""The key of a reason with the number of code points after the stop. The detokenizer removes it."""


def equip(result: Any, request: Req, *args: Any, **options: Any) -> None:
    """Give ``request`` the checks of this module if it has stop strings. This is the hook.

    It runs after ``Req.__init__``, and gets its result and its arguments.
    """
    params: Any = request.sampling_params
    if type(request) is not Req:
        return
    # An error here would end the scheduler: another version may not have these fields.
    if getattr(params, "stop_regex_strs", None):
        note_regex(params)
    elif getattr(params, "stop_strs", None):
        request.streamdec, request.streamdec_read = None, 0
        request.streamdec_late, request.streamdec_markers = None, ()
        request.__class__ = CheckedReq


def trim_matched_stop(
    original: Callable[..., Any],
    manager: Any,
    output: Any,
    finished_reason: dict[str, Any] | None,
    no_stop_trim: bool,
) -> Any:
    """Cut ``output`` at the stop that ended its request. This is the hook.

    Args:
        original: the method that the hook is around.
        manager: the ``DetokenizerManager``.
        output: the text or the ids of a request.
        finished_reason: why the request ended; None if it did not.
        no_stop_trim: whether the stop is a part of the text.
    """
    if not isinstance(output, str) or _AFTER not in (finished_reason or ()):
        return original(manager, output, finished_reason, no_stop_trim)
    assert finished_reason is not None
    stop, end = finished_reason["matched"], len(output) - finished_reason.pop(_AFTER)
    if not output.endswith(stop, 0, max(end, 0)):
        return output  # the stop is the text of a special token that is not shown
    return output[: end if no_stop_trim else end - len(stop)]


class FoundStop(FINISH_MATCHED_STR):  # type: ignore[misc]
    """The reason of a request whose stop may not be the first one in its text.

    Args:
        matched: the stop.
        num_after: how many code points follow it.
    """

    def __init__(self, matched: str, num_after: int) -> None:
        super().__init__(matched)
        self.num_after = num_after

    def to_json(self) -> dict[str, Any]:
        """Return SGLang's JSON of the reason, with the number."""
        return {**super().to_json(), _AFTER: self.num_after}


class CheckedReq(Req):  # type: ignore[misc]
    """SGLang's request, with a decoder that finds its stop strings."""

    streamdec: StopSequenceDecoder | None
    """Has read the first ``streamdec_read`` ids of the output; None before the first check."""
    streamdec_read: int
    streamdec_late: int | None
    """How many ids were read when there was a stop that SGLang did not find yet."""
    streamdec_markers: Pairs
    """Stops between them are ignored."""

    def _check_str_based_finish(self, new_accepted_len: int = 1) -> bool:
        """Return whether a stop string ends the request, and note it as SGLang does."""
        is_found: bool
        try:
            ids, decoder = self.output_ids, self.streamdec
            read = len(ids) - new_accepted_len
            if decoder is None or read != self.streamdec_read or new_accepted_len != 1:
                decoder = _after(self, read)
                if not decoder.finished:
                    decoder.feed(ids[read:])
            else:
                decoder.step(ids[read])
            self.streamdec_read = len(ids)
            if not decoder.finished:
                if not self._is_late(new_accepted_len):
                    return False
            elif self.streamdec_markers:
                _finish(self, decoder)
                return True
            else:
                self.streamdec, self.streamdec_late = _after_stop(self), len(ids)
        except Exception as error:
            _hand_over(self, error)
            is_found = self._check_str_based_finish(new_accepted_len)
            return is_found
        # SGLang's own code decides. It may not find the stop in its last few ids, or later.
        is_found = super()._check_str_based_finish(new_accepted_len)
        if is_found:
            self.__class__, self.streamdec = Req, None
        return is_found

    def _is_late(self, new_accepted_len: int = 1) -> bool:
        """Return whether SGLang still looks at the ids of a stop that it did not find."""
        late = self.streamdec_late
        if late is None:
            return False
        num_seen: int = self._stop_match_tail_len(new_accepted_len)
        return len(self.output_ids) - late < num_seen

    def check_match_stop_str_prefix(self) -> bool:
        """Return whether the end of the text may become a stop, so that it is not sent."""
        decoder = self.streamdec
        if decoder is None or self.streamdec_read != len(self.output_ids):
            is_begun: bool = super().check_match_stop_str_prefix()
            return is_begun
        return bool(decoder.jailed) or self._is_late()

    def init_incremental_detokenize(self) -> tuple[Any, int]:
        """Return the ids for the detokenizer, and how many of them are of the prompt.

        SGLang sends ids of a request that does not stream at each 50th token, also if the end of
        their text may become a stop. Here those ids wait.
        """
        ids, num_prompt_ids = super().init_incremental_detokenize()
        if not self.stream and not self.finished() and self.check_match_stop_str_prefix():
            ids = ids[: max(self.send_decode_id_offset, num_prompt_ids)]
        return ids, num_prompt_ids


class _HandedOverReq(Req):  # type: ignore[misc]
    """A request that SGLang checks after an error. Stops that were ignored may be in its text."""

    finished_reason: Any

    def _check_str_based_finish(self, new_accepted_len: int = 1) -> bool:
        is_found: bool = super()._check_str_based_finish(new_accepted_len)
        reason = self.finished_reason
        if is_found and type(reason) is FINISH_MATCHED_STR:
            stop = reason.matched
            text = self.tokenizer.decode(self.output_ids[: self.finished_len])
            if stop in text:
                num_after = len(text) - text.rindex(stop) - len(stop)
                self.finished_reason = FoundStop(stop, num_after)
        return is_found


class _UnsupportedError(Exception):
    """SGLang's own code finds the stops of a request; the message is in the log."""


def _after(request: CheckedReq, read: int) -> StopSequenceDecoder:
    """Return the decoder of ``request``, after the first ``read`` ids of its output."""
    decoder = request.streamdec
    if decoder is None or read != request.streamdec_read:
        params = request.sampling_params
        if any("\ufffd" in stop for stop in params.stop_strs):
            raise _UnsupportedError("a stop has U+FFFD, as an unfinished character has")
        # SGLang decodes what it searches with special tokens, and without the prompt.
        request.streamdec_markers = markers = markers_of(params, request.tokenizer)
        request.streamdec_late = None
        prompt = _prompt(request) if markers else ()
        decoder = _decoder(request, prompt, ignore_stops_between=markers)
        decoder.feed(request.output_ids[: max(read, 0)])
        request.streamdec = decoder
    return decoder


def _after_stop(request: CheckedReq) -> StopSequenceDecoder:
    """Return a decoder that has read all ids of ``request``, and ignores stops in them.

    A later stop may begin in the last of these ids, so it reads them again.
    """
    ids = request.output_ids
    longest = max(len(stop.encode()) for stop in request.sampling_params.stop_strs)
    start = max(len(ids) - longest, 0)
    context = ids[max(start - _CONTEXT, 0) : start]
    decoder = _decoder(request, context, min_tokens=len(ids) - start)
    decoder.feed(ids[start:])
    return decoder


def _decoder(request: CheckedReq, prompt: Sequence[int], **conditions: Any) -> StopSequenceDecoder:
    tokenizer = _decoder_of(request.tokenizer)
    if isinstance(tokenizer, str):
        raise _UnsupportedError(tokenizer)
    return StopSequenceDecoder(
        tokenizer,
        prompt_token_ids=prompt,
        skip_special_tokens=False,
        stop=[*request.sampling_params.stop_strs],
        **conditions,
    )


def _prompt(request: CheckedReq) -> list[int]:
    """Return the ids of the prompt without those of images, which may be negative."""
    return [token_id for token_id in request.origin_input_ids if token_id >= 0]


def _finish(request: CheckedReq, decoder: StopSequenceDecoder) -> None:
    """End ``request`` at the stop that ``decoder`` found."""
    match = decoder.match
    assert match is not None
    assert match.token_index is not None
    length = match.token_index + 1
    stream = DecodeStream(decoder.tokenizer, _prompt(request), skip_special_tokens=False)
    text = stream.feed(request.output_ids[:length]) + stream.flush()
    request.finished_reason = FoundStop(str(match.stop), len(text) - match.end)
    request.finished_len = length
    request.__class__, request.streamdec = Req, None


@lru_cache(maxsize=8)
def _decoder_of(tokenizer: Any) -> HuggingFaceTokenizer | str:
    """Return the streamdec tokenizer of the scheduler's, or why SGLang's own code is used.

    The text of some ids must be the same alone as in the whole text, as SGLang searches the text of
    the last ones.
    """
    reason = why_unsupported(tokenizer)
    if reason is None:
        decoder = decoder_for(tokenizer)
        rules = decoder.rules
        if rules is not None and isinstance(rules.rule, (ByteLevel, ByteFallback)):
            return decoder
        reason = "it joins tokens in another way"
    return f"{type(tokenizer).__name__}: {reason}"


def _hand_over(request: CheckedReq, error: Exception) -> None:
    """Let SGLang's own code check ``request`` from now on."""
    request.streamdec = None
    request.__class__ = _HandedOverReq if request.streamdec_markers else Req
    is_expected = isinstance(error, _UnsupportedError)
    message = str(error) if is_expected else f"after a {type(error).__name__}"
    say_once(
        f"SGLang's own code finds the stop strings of requests ({message})",
        exc_info=None if is_expected else error,
    )
