"""The search for stop strings in SGLang's scheduler, with each id read once.

SGLang decodes the last ids of a request at each step to look for its stop strings, and a second
time if the request streams, to see whether the end of its text may become one. Here a request with
stop strings has a :class:`streamdec.StopSequenceDecoder`, which takes each new id. It tells when no
stop can be complete, which is so at nearly all steps. When it finds one, SGLang's own code decides:
the reason of the end, its length, and which of several stops counts, are SGLang's.

While a request streams, text that may become a stop is withheld (``jailed``), whatever tokens
spell it. It stays withheld while an incomplete character follows; SGLang would send it then.

The class of a request is changed when it is made, if it has stop strings. So a request without
stops costs nothing more, and the decoder is freed with its request.
"""

from __future__ import annotations

from functools import lru_cache
from typing import Any

from sglang.srt.managers.schedule_batch import Req

from streamdec import HuggingFaceTokenizer, StopSequenceDecoder
from streamdec.protocols import ByteFallback, ByteLevel
from streamdec_sglang.logs import say_once
from streamdec_sglang.tokenizer import decoder_for, why_unsupported

__all__ = ["CheckedReq", "equip"]


def equip(result: Any, request: Req, *args: Any, **options: Any) -> None:
    """Give ``request`` the checks of this module if it has stop strings. This is the hook.

    It runs after ``Req.__init__``, and gets its result and its arguments.
    """
    params: Any = request.sampling_params
    if type(request) is Req and params.stop_strs and not params.stop_regex_strs:
        request.streamdec, request.streamdec_read = None, 0
        request.__class__ = CheckedReq


class CheckedReq(Req):  # type: ignore[misc]
    """SGLang's request, with a decoder that finds its stop strings."""

    streamdec: StopSequenceDecoder | None
    """Has read the first ``streamdec_read`` ids of the output; None before the first check."""
    streamdec_read: int

    def _check_str_based_finish(self, new_accepted_len: int = 1) -> bool:
        """Return whether a stop string ends the request, and note it as SGLang does."""
        error = None
        try:
            ids, decoder = self.output_ids, self.streamdec
            read = len(ids) - new_accepted_len
            if decoder is None or read != self.streamdec_read or new_accepted_len != 1:
                decoder = _after(self, read)
                decoder.feed(ids[read:])
            else:
                decoder.step(ids[read])
            self.streamdec_read = len(ids)
            if not decoder.finished:
                return False
        except Exception as raised:
            error = raised
        # SGLang's own code continues, also if it does not find the stop in its last few tokens.
        _hand_over(self, error)
        is_found: bool = self._check_str_based_finish(new_accepted_len)
        return is_found

    def check_match_stop_str_prefix(self) -> bool:
        """Return whether the end of the text may become a stop, so that it is not sent."""
        decoder = self.streamdec
        if decoder is None or self.streamdec_read != len(self.output_ids):
            is_begun: bool = super().check_match_stop_str_prefix()
            return is_begun
        return bool(decoder.jailed)


class _UnsupportedError(Exception):
    """SGLang's own code finds the stops of a request; the message is in the log."""


def _after(request: CheckedReq, read: int) -> StopSequenceDecoder:
    """Return the decoder of ``request``, after the first ``read`` ids of its output."""
    decoder = request.streamdec
    if decoder is None or read != request.streamdec_read:
        stops = request.sampling_params.stop_strs
        if any("\ufffd" in stop for stop in stops):
            raise _UnsupportedError("a stop has U+FFFD, as an unfinished character has")
        # SGLang decodes what it searches with special tokens, and without the prompt.
        tokenizer = _decoder_of(request.tokenizer)
        if isinstance(tokenizer, str):
            raise _UnsupportedError(tokenizer)
        decoder = StopSequenceDecoder(tokenizer, stop=[*stops], skip_special_tokens=False)
        decoder.feed(request.output_ids[: max(read, 0)])
        request.streamdec = decoder
    return decoder


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


def _hand_over(request: CheckedReq, error: Exception | None) -> None:
    """Let SGLang's own code check ``request`` from now on."""
    request.__class__ = Req
    request.streamdec = None
    if error is not None:
        is_expected = isinstance(error, _UnsupportedError)
        told = str(error) if is_expected else f"after a {type(error).__name__}"
        say_once(
            f"SGLang's own code finds the stop strings of requests ({told})",
            exc_info=None if is_expected else error,
        )
