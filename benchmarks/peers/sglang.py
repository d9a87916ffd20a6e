"""SGLang's detokenizer, and the two checks for stops in its scheduler.

Without its processes and sockets: the scheduler's request is passed directly to the detokenizer's
manager.
"""

from __future__ import annotations

from array import array
from collections.abc import Sequence
from itertools import count
from types import SimpleNamespace
from typing import Any

from benchmarks.peers.kit import Kit
from benchmarks.subjects import Subject

__all__ = ["Sglang"]

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


class Sglang:
    """One request in the batch, which is the stream."""

    name = "SGLang, batch of 1"

    def __init__(self, kit: Kit, subject: Subject, stops: Sequence[str] = ()) -> None:
        tokenizer = self._tokenizer = kit.tokenizer(subject.path)
        self._request = kit.definitions("sglang", _REQUEST, _LOOKING)["Req"]
        self._parameters = _parameters(tokenizer, stops)
        self._manager = _manager(kit, tokenizer)
        self._numbers = count()

    def open(self) -> Any:
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

    def step(self, stream: Any, token_id: int) -> str:
        return self._step(stream, token_id)

    def last(self, stream: Any, token_id: int) -> str:
        return self._step(stream, token_id, {"type": "length"})

    def _step(self, request: Any, token_id: int, reason: Any = None) -> str:
        """Run one step of the engine: the request gets the token, and is decoded if it is ready."""
        request.output_ids.append(token_id)
        request._check_str_based_finish(1)
        if not reason and request.check_match_stop_str_prefix():
            return ""
        ids, offset = request.init_incremental_detokenize()
        batch = SimpleNamespace(
            rids=[request.rid],
            decoded_texts=[""],
            decode_ids=[ids[request.send_decode_id_offset :]],
            read_offsets=[offset],
            finished_reasons=[reason],
            no_stop_trim=[False],
            skip_special_tokens=[True],
            spaces_between_special_tokens=[True],
        )
        request.send_decode_id_offset = len(ids)
        [text] = self._manager._decode_batch_token_id_output(batch)
        return str(text)


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
