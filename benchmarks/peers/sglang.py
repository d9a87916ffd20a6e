"""SGLang's detokenizer, and the two checks for stops in its scheduler.

Without its processes and sockets: the scheduler's request is passed directly to the detokenizer's
manager.
"""

from __future__ import annotations

from array import array
from collections.abc import Sequence
from itertools import count
from types import SimpleNamespace
from typing import Any, NamedTuple

from benchmarks.peers.kit import Kit
from benchmarks.peers.peer import Peer
from benchmarks.subjects import Subject

_DETOKENIZER = "sglang/srt/managers/detokenizer_manager.py"
_DECODING = (
    "DETOKENIZER_MAX_STATES",
    "DecodeStatus",
    "LimitedCapacityDict",
    "DetokenizerManager._clamp_decode_ids",
    "DetokenizerManager._decode_batch_token_id_output",
    "DetokenizerManager._grouped_batch_decode",
    "DetokenizerManager.trim_matched_stop",
)
_REQUEST = "sglang/srt/managers/schedule_batch.py"
_LOOKING = (
    "INIT_INCREMENTAL_DETOKENIZATION_OFFSET",
    "Req._check_str_based_finish",
    "Req._locate_str_stop_finished_len",
    "Req._stop_match_tail_len",
    "Req.check_match_stop_str_prefix",
    "Req.init_incremental_detokenize",
    "Req.output_ids_through_stop",
    "Req.tail_str",
)
_TOOLS = ("_is_chinese_char", "find_printable_text")
_LENGTH = {"type": "length"}


class Stream(NamedTuple):
    """The number of requests of one batch."""

    requests: list[Any]


class Sglang(Peer):
    """One request in the batch."""

    name = "SGLang, batch of 1"

    def __init__(self, kit: Kit, subject: Subject, stops: Sequence[str] = ()) -> None:
        tokenizer = self._tokenizer = kit.tokenizer(subject.path)
        self._request = kit.definitions("sglang", _REQUEST, _LOOKING)["Req"]
        self._parameters = _parameters(tokenizer, stops)
        self._manager = _manager(kit, tokenizer)
        self._numbers = count()

    def open(self) -> Stream:
        return Stream([self._open() for _ in range(self.streams)])

    def _open(self) -> Any:
        request = self._request()
        vars(request).update(
            rid=str(next(self._numbers)),
            sampling_params=self._parameters,
            tokenizer=self._tokenizer,
            origin_input_ids_unpadded=array("q"),
            output_ids=array("q"),
            decoded_text="",
            surr_offset=None,
            read_offset=None,
            finished_len=None,
            send_decode_id_offset=0,
        )
        return request

    def step(self, stream: Stream, token_id: int) -> str:
        return "".join(self._step(stream, token_id)[:1])

    def end(self, stream: Stream) -> str:
        raise NotImplementedError("an end after the last token")

    def last(self, stream: Stream, token_id: int) -> str:
        return "".join(self._step(stream, token_id, _LENGTH)[:1])

    def drive(self, stream: Stream, token_ids: Sequence[int]) -> None:
        for token_id in token_ids:
            self._step(stream, token_id)

    def _step(self, stream: Stream, token_id: int, reason: Any = None) -> list[str]:
        """Run one step of the engine: each request gets the token, the ready ones are decoded."""
        speaking = []
        for request in stream.requests:
            request.output_ids.append(token_id)
            request._check_str_based_finish(1)
            if reason or not request.check_match_stop_str_prefix():
                speaking.append(request)
        if not speaking:
            return []
        all_ids, offsets = [], []
        for request in speaking:
            ids, offset = request.init_incremental_detokenize()
            all_ids.append(ids[request.send_decode_id_offset :])
            request.send_decode_id_offset = len(ids)
            offsets.append(offset)
        size = len(speaking)
        batch = SimpleNamespace(
            rids=[request.rid for request in speaking],
            decoded_texts=[""] * size,
            decode_ids=all_ids,
            read_offsets=offsets,
            finished_reasons=[reason] * size,
            no_stop_trim=[False] * size,
            skip_special_tokens=[True] * size,
            spaces_between_special_tokens=[True] * size,
        )
        texts: list[str] = self._manager._decode_batch_token_id_output(batch)
        return texts


class SglangBatch(Sglang):
    """32 requests with the same ids: the time of one token of one request."""

    name = "SGLang, batch of 32"
    streams = 32


def _parameters(tokenizer: Any, stops: Sequence[str]) -> Any:
    """Return the parameters of a request. Lengths are counted in tokens."""
    sizes = (len(tokenizer.encode(stop, add_special_tokens=False)) for stop in stops)
    return SimpleNamespace(
        stop_strs=[*stops],
        stop_str_max_len=max(sizes, default=0),
        stop_regex_strs=[],
        stop_regex_max_len=0,
    )


def _manager(kit: Kit, tokenizer: Any) -> Any:
    """The detokenizer's manager, without its process."""
    tools = kit.definitions("sglang", "sglang/utils.py", _TOOLS)
    printable = tools["find_printable_text"]
    found = kit.definitions("sglang", _DETOKENIZER, _DECODING, find_printable_text=printable)
    manager = found["DetokenizerManager"]()
    vars(manager).update(
        tokenizer=tokenizer,
        vocab_size=len(tokenizer),
        decode_status=found["LimitedCapacityDict"](found["DETOKENIZER_MAX_STATES"]),
        disable_tokenizer_batch_decode=False,
        is_tool_call_parser_gpt_oss=False,
        tool_close_token_ids=frozenset(),
    )
    return manager
