r"""Decode a column of token ids, without Python code per token or row.

With most rules of language models the bytes of a token are always the same. The bytes of all tokens
are then looked up at once in one Arrow array (``take``), and rows are offsets into the result.
Skipped and unknown ids are empty there. The bytes come from the table that streams use
(:mod:`streamdec.core.byte_table`), so both give the same text. ``decode`` decodes rows that are not
UTF-8, and all rows of tokenizers with other rules.
"""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from streamdec.bulk.column import flat, sums
from streamdec.core.byte_table import ByteTable
from streamdec.core.decode_options import Options
from streamdec.core.shared_tables import table_for
from streamdec.core.token_ids import ByObject, warn_once
from streamdec.protocols import ByteFallback, ByteLevel, Concatenation, Decoder, RawBytes
from streamdec.tokenizers._common import MAX_ID

FIXED = (RawBytes, ByteLevel, Concatenation, ByteFallback)
"""The rules with which a token is always the same bytes. (ByteFallback: without ``metaspace``.)"""

MOST_STRIPPED = 1000
"""The largest repeat count in a regular expression of Arrow."""

INVALID = b"\xff"
"""A byte that UTF-8 never contains: ``decode`` must decode the row."""


class Gather:
    """A decoder of columns for one tokenizer, with tables of a few bytes for each id."""

    def __init__(self, tokenizer: Any, table: ByteTable) -> None:
        self._char, self._count = tokenizer.rules.strip_left
        self._replaces = tokenizer.rules.replaces
        self._size: int = tokenizer.vocab_size
        # A token without text ends a run of byte tokens: the bytes around it are no character.
        empty = INVALID if isinstance(tokenizer.rules.rule, ByteFallback) else b""
        known = map(table.rule.elements.__getitem__, range(self._size))
        data = [b"" if each is None else each or empty for each in (*known, None)]  # None: unknown
        self._bytes = pa.array(data, pa.large_binary())
        is_unknown = [not table.knows(token_id) for token_id in range(self._size)]
        self._is_unknown = pa.array([*is_unknown, True])

    @property
    def most_stripped(self) -> int | None:
        """How many bytes a text may lack at its start; None if others may differ."""
        return None if self._replaces else len(str(self._char).encode()) * int(self._count)

    def texts(self, column: pa.LargeListArray) -> tuple[Any, Any]:
        """Return the text of each row, and the sums of the sizes of the tokens.

        A text is null if ``decode`` must decode the row. A size is the number of bytes that a token
        adds to its row, before ``strip_left`` and ``replaces``. There is a sum before each token,
        and after the last.
        """
        ids, offsets = flat(column)
        taken = pc.take(self._bytes, self._clipped(ids), boundscheck=False)
        _, ends, data = taken.buffers()
        ends = pa.Array.from_buffers(pa.int64(), len(taken) + 1, [None, ends], offset=taken.offset)
        buffers = [None, pc.take(ends, offsets, boundscheck=False).buffers()[1], data]
        rows = pa.Array.from_buffers(pa.large_binary(), len(column), buffers)
        try:
            texts = rows.cast(pa.large_string())
        except pa.ArrowInvalid:
            texts = pa.array([_text(row) for row in rows.to_pylist()], pa.large_string())
        if self._count:
            pattern = rf"^(?:\x{{{ord(self._char):X}}}){{1,{self._count}}}"
            texts = pc.replace_substring_regex(texts, pattern, "", max_replacements=1)
        for each in self._replaces:
            texts = pc.replace_substring(texts, each.pattern, each.content)
        return texts, ends

    def unknown_tokens(self, column: pa.LargeListArray, tokenizer: Decoder) -> Any:
        """Return how many ids of each row the tokenizer does not have. Log the first one."""
        ids, offsets = flat(column)
        is_unknown = pc.take(self._is_unknown, self._clipped(ids), boundscheck=False)
        if not pc.any(is_unknown).as_py():
            return pa.array([0] * len(column), pa.int64())
        warn_once(tokenizer, ids[pc.index(is_unknown, True).as_py()].as_py())
        before = sums(is_unknown).take(offsets)
        return pc.subtract(before[1:], before[:-1])

    def _clipped(self, ids: Any) -> Any:
        """Return ``ids`` as indices of a table; those above the table share one index."""
        return pc.min_element_wise(ids, pa.scalar(self._size, pa.uint32()))


def _text(data: bytes) -> str | None:
    try:
        return data.decode()
    except UnicodeDecodeError:
        return None


_gathers: ByObject[dict[bool, Gather]] = ByObject()


def gather_for(tokenizer: Any, skip: bool) -> Gather | None:
    """Return the Gather of ``tokenizer``; None if ``decode`` must decode each row.

    It is built once, in one or two µs for each id of the vocabulary.
    """
    rules, size = getattr(tokenizer, "rules", None), getattr(tokenizer, "vocab_size", MAX_ID + 1)
    if rules is None or not isinstance(rules.rule, FIXED) or getattr(rules.rule, "metaspace", None):
        return None
    if size > MAX_ID or rules.strip_left[1] > MOST_STRIPPED:  # too large, for memory and for Arrow
        return None
    known = _gathers.get(id(tokenizer))
    if known is None:
        known = _gathers.keep(tokenizer, {})
    if skip not in known:
        table = table_for(tokenizer, Options(skip))
        if not isinstance(table, ByteTable):
            return None
        known[skip] = Gather(tokenizer, table)
    return known[skip]
