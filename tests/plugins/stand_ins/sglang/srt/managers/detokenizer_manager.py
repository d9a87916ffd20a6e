"""The process that turns ids into text, without its sockets.

Left out: gpt-oss's tool calls, decoding without batches, and words of Chinese characters.
"""

from __future__ import annotations

from collections import OrderedDict
from dataclasses import dataclass, field
from typing import Any


@dataclass
class DecodeStatus:
    decoded_text: str
    decode_ids: list[int]
    surr_offset: int
    read_offset: int
    sent_offset: int = 0
    decoded_text_len: int = field(init=False)
    decoded_text_chunks: list[str] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.decoded_text_len = len(self.decoded_text)

    def append_decoded_text(self, text: str) -> None:
        self.decoded_text_chunks.append(text)
        self.decoded_text_len += len(text)

    def get_decoded_text(self) -> str:
        return "".join([self.decoded_text, *self.decoded_text_chunks])


class LimitedCapacityDict(OrderedDict[Any, Any]):
    """A dict that drops its oldest entry when it is full."""

    def __init__(self, capacity: int, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.capacity = capacity

    def __setitem__(self, key: Any, value: Any) -> None:
        if len(self) >= self.capacity:
            self.popitem(last=False)
        super().__setitem__(key, value)


class DetokenizerManager:
    tokenizer: Any
    vocab_size: int | None
    decode_status: LimitedCapacityDict
    tool_close_token_ids: frozenset[int]

    def __init__(self, server_args: Any, port_args: Any) -> None:
        """Do nothing: the engine opens sockets here, and tests set the fields."""

    def trim_matched_stop(
        self, output: Any, finished_reason: dict[str, Any] | None, no_stop_trim: bool
    ) -> Any:
        matched = (finished_reason or {}).get("matched")
        if isinstance(matched, str) and isinstance(output, str) and matched in output:
            before, _, _ = output.partition(matched)
            return before + matched if no_stop_trim else before
        if isinstance(matched, int) and isinstance(output, list):
            is_kept = no_stop_trim or output[-1] in self.tool_close_token_ids
            return output if is_kept else output[:-1]
        return output

    @staticmethod
    def _clamp_decode_ids(ids: Any, vocab_size: int | None) -> list[int]:
        return [each if 0 <= each < (vocab_size or each + 1) else 0 for each in ids]

    def _decode_batch_token_id_output(self, recv_obj: Any) -> list[str]:
        return [_decoded(self, recv_obj, row) for row in range(len(recv_obj.rids))]


def _decoded(manager: DetokenizerManager, batch: Any, row: int) -> str:
    rid, reason, no_trim = batch.rids[row], batch.finished_reasons[row], batch.no_stop_trim[row]
    ids = manager._clamp_decode_ids(batch.decode_ids[row], manager.vocab_size)
    if rid in manager.decode_status:
        status = manager.decode_status[rid]
        status.decode_ids += ids
    else:
        status = DecodeStatus(batch.decoded_texts[row], ids, 0, batch.read_offsets[row])
        manager.decode_status[rid] = status
    recent = status.decode_ids[status.surr_offset :]
    context = recent[: status.read_offset - status.surr_offset]
    before, text = manager.tokenizer.batch_decode(
        [context, manager.trim_matched_stop(recent, reason, no_trim)],
        skip_special_tokens=batch.skip_special_tokens[row],
        spaces_between_special_tokens=batch.spaces_between_special_tokens[row],
    )
    new: str = text[len(before) :]
    sent = status.sent_offset
    if reason is not None:
        del manager.decode_status[rid]
        whole: str = manager.trim_matched_stop(status.get_decoded_text() + new, reason, no_trim)
        return whole[sent:]
    already = sent - status.decoded_text_len
    if new and not new.endswith("\ufffd"):
        status.append_decoded_text(new)
        status.surr_offset, status.read_offset = status.read_offset, len(status.decode_ids)
        status.sent_offset = status.decoded_text_len
    else:
        new = new[: new.rfind(" ") + 1]  # whole words
        status.sent_offset = status.decoded_text_len + len(new)
    return new[already:]
