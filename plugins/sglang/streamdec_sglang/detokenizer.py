"""The decoding of a batch, in place of SGLang's own method.

The method is ``DetokenizerManager._decode_batch_token_id_output``.

SGLang's scheduler sends ids for each request that has new ones: at first the last ids of the prompt
and the first new ids, then new ids alone, and with the last of them a finish reason. The manager
keeps a state for each request in ``decode_status``, a dict that drops its oldest entries when it is
full, and returns the new text of each request. Here the state is a :class:`Request`. The scheduler
finds stops, and the manager's own ``trim_matched_stop`` cuts them off.

Where the text differs from SGLang's own is in the README.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import lru_cache
from importlib.metadata import version
from types import SimpleNamespace
from typing import Any

from sglang.srt.managers.detokenizer_manager import DecodeStatus

from streamdec import DecodeStream
from streamdec_sglang import SWITCH
from streamdec_sglang.logs import logger, say_once
from streamdec_sglang.tokenizer import decoder_for, why_unsupported

__all__ = ["FIELDS", "BatchDecoder", "HandedOver", "Request", "decode_batch"]

FIELDS = (
    *("rids", "decode_ids", "read_offsets", "decoded_texts", "finished_reasons"),
    *("skip_special_tokens", "spaces_between_special_tokens", "no_stop_trim"),
)
"""What SGLang's method reads of a batch: lists with an entry for each request."""
_CONTEXT = 5
"""How many ids are context when SGLang's own code continues with a request."""
_MAX_LATE = 16
"""The most characters that wait until the next character is complete. Most stops of several tokens
have fewer."""
_MAX_PROMPTS = 1024
"""How many ends of prompts are remembered, with a stream that has read them."""

Original = Callable[[Any, Any], list[str]]


def decode_batch(original: Original, manager: Any, recv_obj: Any) -> list[str]:
    """Return the new text of each request of a batch. This is the hook.

    Args:
        original: the method that the hook is around.
        manager: the ``DetokenizerManager``.
        recv_obj: the ``BatchTokenIDOutput``.
    """
    decoder = getattr(manager, "_streamdec", None)
    if decoder is None or decoder.source is not manager.tokenizer:
        decoder = manager._streamdec = BatchDecoder(manager.tokenizer)
    if not decoder.is_supported:
        return original(manager, recv_obj)
    texts: list[str] = decoder.decode(original, manager, recv_obj)
    return texts


class Request:
    """The state of one request.

    The scheduler keeps ids back while the end of the text may become a stop. When the first byte of
    a character follows, it sends all of these ids at once, although this character may still
    complete the stop. So the text of these ids waits in ``late`` until the character is complete.

    Args:
        stream: decodes the ids. It has read the end of the prompt.
        prompt_ids: the end of the prompt.
    """

    __slots__ = ("ids", "late", "step", "stream", "texts")

    def __init__(self, stream: DecodeStream, prompt_ids: Sequence[int]) -> None:
        self.stream = stream
        self.step = stream.step
        self.ids = [*prompt_ids]
        """The end of the prompt, and all ids since."""
        self.texts: list[str] = []
        """The text that was output."""
        self.late = ""
        """Text that will be output."""

    def feed(self, ids: Sequence[int]) -> str:
        """Take ids that came together, and return the text to output."""
        text = "".join(map(self.step, ids))
        self.ids.extend(ids)
        if self.late or (text and self.stream.held):
            return self.decided(text)
        return text

    def decided(self, text: str) -> str:
        """Return the text to output after ids that decided ``text``."""
        text = self.late + text
        if self.stream.held and len(text) <= _MAX_LATE:
            self.late = text
            return ""
        self.late = ""
        return text


class HandedOver(DecodeStatus):  # type: ignore[misc]
    """SGLang's state of a request that SGLang decodes after an error of streamdec."""


class BatchDecoder:
    """Decodes the batches of one manager.

    Args:
        tokenizer: the manager's. If streamdec does not support it, ``is_supported`` is False, and
            the reason is in the log.
    """

    def __init__(self, tokenizer: Any) -> None:
        self.source = tokenizer
        try:
            reason = why_unsupported(tokenizer)
            if reason is None:
                self._decoder = decoder_for(tokenizer)
                if any(self._begin((), skip).route != "bytes" for skip in (True, False)):
                    reason = "it joins tokens in a way that streamdec does not know"
        except Exception as error:
            reason = f"{type(error).__name__}: {error}"
        self.is_supported = reason is None
        if reason is not None:
            kind = type(tokenizer).__name__
            say_once(f"SGLang's own detokenizer decodes the text of requests ({kind}: {reason})")
            return
        self._stream_after = lru_cache(maxsize=_MAX_PROMPTS)(self._begin)
        logger.info(
            "streamdec %s decodes the text of requests (%s=off turns it off)",
            version("streamdec"),
            SWITCH,
        )

    def decode(self, original: Original, manager: Any, recv_obj: Any) -> list[str]:
        """Return the new text of each request of a batch. See ``decode_batch``."""
        requests = manager.decode_status
        texts: list[str] = []
        left: list[int] = []  # the rows that SGLang's own code decodes
        rows = zip(recv_obj.rids, recv_obj.decode_ids, recv_obj.finished_reasons, strict=False)
        for rid, ids, reason in rows:
            request = requests.get(rid)
            text: str | None
            try:
                if reason is None and type(request) is Request:
                    if len(ids) == 1:
                        token_id = ids[0]
                        text = request.step(token_id)
                        request.ids.append(token_id)
                        if request.late:
                            text = request.decided(text)
                    else:
                        text = request.feed(ids)
                    if text:
                        request.texts.append(text)
                else:
                    text = self._begin_or_end(original, manager, recv_obj, len(texts), request)
            except Exception as error:
                text = _after_error(original, manager, recv_obj, len(texts), request, error)
            if text is None:
                left.append(len(texts))
                text = ""
            texts.append(text)
        if left:
            found = original(manager, _rows(recv_obj, left))
            for row, text in zip(left, found, strict=False):
                texts[row] = text
        return texts

    def _begin_or_end(
        self, original: Original, manager: Any, recv_obj: Any, row: int, request: Any
    ) -> str | None:
        """Return the new text of a request that begins or ends.

        Returns None if SGLang is to decode it.
        """
        if type(request) is HandedOver:
            return _decoded_alone(original, manager, recv_obj, row)
        ids = recv_obj.decode_ids[row]
        if request is None:
            if recv_obj.decoded_texts[row]:
                say_once("SGLang's own detokenizer decodes requests that begin with a text")
                return None
            request, ids = self._begun(manager, recv_obj, row)
        elif type(request) is not Request:
            return None
        rid, reason = recv_obj.rids[row], recv_obj.finished_reasons[row]
        if reason is None:
            new: str = request.feed(ids)
            request.texts.append(new)
            manager.decode_status[rid] = request
            return new
        no_stop_trim = recv_obj.no_stop_trim[row]
        if ids:
            ids = manager.trim_matched_stop([*ids], reason, no_stop_trim)
        text = request.late + "".join(map(request.step, ids))
        if request.stream.held:
            text += request.stream.flush()
        given = "".join(request.texts)
        whole: str = manager.trim_matched_stop(given + text, reason, no_stop_trim)
        manager.decode_status.pop(rid, None)
        return whole[len(given) :]

    def _begun(self, manager: Any, recv_obj: Any, row: int) -> tuple[Request, Sequence[int]]:
        """Return the state of a new request, and its new ids."""
        ids, num_prompt_ids = recv_obj.decode_ids[row], recv_obj.read_offsets[row]
        if len(ids) < num_prompt_ids:
            # Not a new one: its state was dropped, and these ids have no prompt before them.
            say_once(
                "decode_status was full and dropped the state of a request that continues; "
                "SGLANG_DETOKENIZER_MAX_STATES sets its size"
            )
            num_prompt_ids = 0
        prompt_ids = manager._clamp_decode_ids(ids[:num_prompt_ids], manager.vocab_size)
        stream = self._stream_after(tuple(prompt_ids), recv_obj.skip_special_tokens[row])
        return Request(stream.fork(), prompt_ids), ids[num_prompt_ids:]

    def _begin(self, prompt_ids: tuple[int, ...], skip_special_tokens: bool) -> DecodeStream:
        return DecodeStream(self._decoder, prompt_ids, skip_special_tokens=skip_special_tokens)


# --- SGLang's own code ----------------------------------------------------------------------------


def _rows(recv_obj: Any, rows: Sequence[int]) -> SimpleNamespace:
    """Return some rows of a batch."""
    fields = {name: getattr(recv_obj, name) for name in FIELDS}
    return SimpleNamespace(
        **{name: [values[row] for row in rows] for name, values in fields.items()}
    )


def _after_error(
    original: Original, manager: Any, recv_obj: Any, row: int, request: Any, error: Exception
) -> str:
    """Return the new text of a request after an error, as SGLang decodes it.

    streamdec raised ``error`` when it decoded the request.
    """
    name = type(error).__name__
    say_once(f"SGLang's own detokenizer continues with a request after a {name}", exc_info=error)
    late = ""
    if isinstance(request, Request):
        late = request.late
        request.texts.append(late)
        try:
            status = _handed_over(request)
        except Exception as second:
            say_once(f"a request lost its context: {type(second).__name__}", exc_info=second)
            manager.decode_status.pop(recv_obj.rids[row], None)
        else:
            manager.decode_status[recv_obj.rids[row]] = status
    return late + _decoded_alone(original, manager, recv_obj, row)


def _handed_over(request: Request) -> HandedOver:
    """Return SGLang's state of a request, after the ids of ``request``."""
    stream, ids = request.stream, request.ids
    stream.reset()  # it may have read a part of the ids with which it failed
    texts = [stream.step(token_id) for token_id in ids[stream.num_prompt_tokens :]]
    read = stream.read_offset  # SGLang has to decode the tokens from here again
    given = "".join(request.texts)
    again = sum(map(len, texts[read - stream.num_prompt_tokens :]))
    return HandedOver(
        decoded_text=given[: len(given) - again],
        decode_ids=ids,
        surr_offset=max(read - _CONTEXT, 0),
        read_offset=read,
        sent_offset=len(given),
    )


def _decoded_alone(original: Original, manager: Any, recv_obj: Any, row: int) -> str:
    """Return the new text of one request, as SGLang decodes it; "" if that fails too."""
    rid = recv_obj.rids[row]
    try:
        return original(manager, _rows(recv_obj, [row]))[0]
    except Exception as error:
        say_once(f"a request gets no text: {type(error).__name__}", exc_info=error)
        if recv_obj.finished_reasons[row] is not None:
            manager.decode_status.pop(rid, None)
        return ""
    finally:
        status = manager.decode_status.get(rid)
        if type(status) is DecodeStatus:
            status.__class__ = HandedOver
