r"""Decode flat token ids into texts by row, without Python code per token or row.

With most rules the bytes of a token depend only on whether it is the first or the last of its row.
The bytes of all tokens are then looked up at once in one Arrow array (``take``), and rows are
offsets into the result. Skipped and unknown ids are empty there. The bytes come from the table that
streams use (:mod:`streamdec.core.byte_table`), so both give the same text. Some rules need more:

    RawBytes, ByteLevel, Concatenation    nothing
    Joined, Metaspace, WordPiece          other bytes for the first token of a row
    BPESuffix                             other bytes for the last token of a row
    CTC                                   repeated tokens are left out
    ByteFallback                          nothing, if the row is valid UTF-8
    strip_left, replaces                  Arrow changes the texts afterwards

Only rows that are not valid UTF-8 are decoded one by one.
"""

from __future__ import annotations

import re
import weakref
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, Literal

from streamdec.bulk._pyarrow import compute, pyarrow
from streamdec.bulk.column import Column, integers
from streamdec.core import utf8
from streamdec.core.byte_table import ByteTable
from streamdec.core.decode_options import Options
from streamdec.core.rules.base import REPLACEMENT_BYTES
from streamdec.core.rules.contextual import metaspace_forms
from streamdec.core.shared_tables import table_for
from streamdec.protocols import (
    CTC,
    BPESuffix,
    ByteFallback,
    Decoder,
    DecodingRule,
    Joined,
    Metaspace,
    WordPiece,
)
from streamdec.tokenizers._common import MAX_ID

MOST_BYTES = 2**31 - 1
"""The most bytes of an Arrow array with 32-bit offsets."""
MOST_STRIPPED = 1000
"""The largest repeat count in a regular expression of Arrow."""

MARK, NOTHING, NEVER = b"\xff", b"\xfe", b"\xfd"
"""Bytes that valid UTF-8 never contains. The first marks the byte of a byte token. The second is a
text token without text, which still ends a run of bytes. The third stands for any of the three
after a mark."""

_LAST = rb"\xff[\x80-\xbf]"
_CHARACTERS = (
    rb"\xff[\x00-\x7f]",
    rb"\xff[\xc2-\xdf]" + _LAST,
    rb"\xff\xe0\xff[\xa0-\xbf]" + _LAST,
    rb"\xff[\xe1-\xec\xee\xef]" + _LAST * 2,
    rb"\xff\xed\xff[\x80-\x9f]" + _LAST,
    rb"\xff\xf0\xff[\x90-\xbf]" + _LAST * 2,
    rb"\xff[\xf1-\xf3]" + _LAST * 3,
    rb"\xff\xf4\xff[\x80-\x8f]" + _LAST * 2,
)
"""Well-formed characters (table 3-7 of the Unicode Standard), each byte marked."""
BAD_RUN = re.compile(
    rb"(?<!\xff.)(?!(?:%s)++(?!\xff))(?:\xff.)++" % b"|".join(_CHARACTERS), re.DOTALL
)
"""Matches each run of marked bytes that is not valid UTF-8."""

Edge = Literal["first", "last"]
Forms = tuple[bytes, bytes]
"""The bytes of a token in the middle of a row, and at its edge."""


class Gather:
    """A decoder of rows for one tokenizer, with tables of a few bytes for each id."""

    def __init__(self, decoder: Any, table: ByteTable, *, skip_special_tokens: bool) -> None:
        pa, rules = pyarrow(), decoder.rules
        self._decoder = _reference(decoder)
        self._skip = skip_special_tokens
        self._char, self._count = rules.strip_left
        self._replaces: Sequence[Any] = rules.replaces
        self._rule: DecodingRule = rules.rule
        self._size: int = decoder.vocab_size
        elements = [*map(table.element, range(self._size)), None]  # the last for all unknown ids
        forms = [_forms(self._rule, each) for each in elements]
        self._edge = _edge(self._rule) if any(usual != edge for usual, edge in forms) else None
        usual, at_edge = zip(*forms, strict=True)
        self._table = pa.array(usual + (at_edge if self._edge else ()), pa.binary())
        self._longest = max(map(len, usual + at_edge))
        self._counts = pa.array([each is not None for each in elements])
        self._sizes = pa.array(map(_size, usual), pa.int64())
        self._edge_sizes = pa.array(map(_size, at_edge), pa.int64())
        known = [table.knows(token_id) for token_id in range(self._size)]
        self._unknown = pa.array([*(not each for each in known), True])
        self._same: Any = None
        self._marked: Any = None
        if isinstance(self._rule, CTC):
            numbers: dict[str, int] = {}
            same = [numbers.setdefault(each[0], len(numbers)) if each else -1 for each in elements]
            self._same = pa.array(same, pa.int32())
            self._says = pa.array([bool(form) for form in usual])
        if self._rule == ByteFallback():
            marked = [_marked(each, form) for each, form in zip(elements, usual, strict=True)]
            self._marked = pa.array(marked, pa.binary())

    def texts(self, column: Column) -> Any:
        """Return the text of each row: a string array, or large_string if it is too long."""
        pa, pc = pyarrow(), compute()
        ids, offsets = self._clipped(column.values), column.offsets
        if self._edge or self._same is not None:
            ids, offsets = self._placed(ids, offsets)
        if not len(ids):
            return pa.array([""] * len(column), pa.string())
        rows = self._rows(self._table, ids, offsets)
        final: dict[int, str] = {}
        try:
            texts = rows.cast(_text_type(rows))
        except pa.ArrowInvalid:
            bad = self._repaired(rows, column)
            if self._is_decoded:
                final, bad = bad, dict.fromkeys(bad, "")
            data = pa.array([text.encode() for text in bad.values()], rows.type)
            texts = pc.replace_with_mask(rows, _mask(bad, rows), data).view(_text_type(rows))
        texts = self._finished(texts)
        if final:
            values = pa.array(final.values(), texts.type)
            texts = pc.replace_with_mask(texts, _mask(final, texts), values)
        return texts

    def ends(self, column: Column) -> memoryview | None:
        """Return the sums of the sizes of all texts: before each id, and after the last.

        A size is the number of UTF-8 bytes that an id adds to its row, before ``strip_left``. For
        rows with U+FFFD the sums are wrong. Returns None if the rule changes texts so that they are
        not known, or decides the text of a token later.
        """
        if self._same is not None or self._replaces or self._edge == "last":
            return None
        pa, pc = pyarrow(), compute()
        ids, zero = self._clipped(column.values), pa.array([0], pa.int64())
        sizes = pc.take(self._sizes, ids, boundscheck=False)
        if self._edge:
            counts = pc.take(self._counts, ids, boundscheck=False)
            total = pa.concat_arrays([zero, pc.cumulative_sum(counts.cast(pa.int64()))])
            lists = pa.LargeListArray.from_arrays(column.offsets, ids)
            before = total.take(column.offsets).take(pc.list_parent_indices(lists))
            first = pc.and_(counts, pc.equal(pc.subtract(total[1:], before), 1))
            sizes = pc.if_else(first, pc.take(self._edge_sizes, ids, boundscheck=False), sizes)
        return integers(pa.concat_arrays([zero, pc.cumulative_sum(sizes)]))

    @property
    def most_stripped(self) -> int:
        """How many bytes ``strip_left`` may remove from a row."""
        return len(str(self._char).encode()) * int(self._count)

    def unknown_places(self, column: Column) -> list[int]:
        """Return the indices in ``column.values`` of ids that the tokenizer lacks."""
        pc, ids = compute(), self._clipped(column.values)
        found = pc.indices_nonzero(pc.take(self._unknown, ids, boundscheck=False))
        return [*integers(found)]

    def _finished(self, texts: Any) -> Any:
        """Apply the rules for the whole text."""
        pc = compute()
        if isinstance(self._rule, ByteFallback) and self._rule.metaspace:
            # Characters of text tokens were removed before; a run of byte tokens may spell more.
            texts = pc.replace_substring(texts, self._rule.metaspace.replacement, " ")
        if self._count:
            pattern = rf"^(?:\x{{{ord(self._char):X}}}){{1,{self._count}}}"
            texts = pc.replace_substring_regex(texts, pattern, "", max_replacements=1)
        for each in self._replaces:
            texts = pc.replace_substring(texts, each.pattern, each.content)
        return texts

    # --- ids to bytes

    def _clipped(self, values: Any) -> Any:
        """Return ``values`` as indices into a table; ids above the table share one index."""
        pa, pc = pyarrow(), compute()
        if len(values) and pc.max(values).as_py() >= self._size:
            limit = pa.scalar(self._size, pa.int64())
            values = pc.min_element_wise(values.cast(pa.int64()), limit)
        return values.cast(pa.int32())

    def _rows(self, table: Any, ids: Any, offsets: Any) -> Any:
        """Return the joined bytes of ``ids`` in ``table`` for each row."""
        pa, pc = pyarrow(), compute()
        kind, offset_type = pa.binary(), pa.int32()
        if len(ids) * self._longest > MOST_BYTES:
            kind, offset_type = pa.large_binary(), pa.int64()
            table = table.cast(kind)
        taken = pc.take(table, ids, boundscheck=False)
        _, ends, data = taken.buffers()
        ends = pa.Array.from_buffers(offset_type, len(taken) + 1, [None, ends], offset=taken.offset)
        ends = pc.take(ends, offsets, boundscheck=False)
        return pa.Array.from_buffers(kind, len(offsets) - 1, [None, ends.buffers()[1], data])

    def _placed(self, ids: Any, offsets: Any) -> tuple[Any, Any]:
        """Return the ids that are decoded.

        An id at the edge of a row is replaced by the index of its bytes for the edge.
        """
        pc = compute()
        ids, offsets = _kept(ids, offsets, pc.take(self._counts, ids, boundscheck=False))
        if self._same is not None and len(ids):
            same = pc.take(self._same, ids, boundscheck=False)
            first = _at_edge(ids, offsets, "first")
            ids, offsets = _kept(ids, offsets, pc.or_(first, _changes(same, "first")))
            ids, offsets = _kept(ids, offsets, pc.take(self._says, ids, boundscheck=False))
        if self._edge and len(ids):
            moved = pc.add(ids, self._size + 1).cast(ids.type)
            ids = pc.if_else(_at_edge(ids, offsets, self._edge), moved, ids)
        return ids, offsets

    # --- rows that are not UTF-8

    @property
    def _is_decoded(self) -> bool:
        """Whether ``decode`` must decode rows that are not UTF-8.

        The rule's runs of bytes are then special.
        """
        return isinstance(self._rule, ByteFallback) and self._marked is None

    def _repaired(self, rows: Any, column: Column) -> dict[int, str]:
        """Return the text of all rows that are not valid UTF-8, before ``_finished``.

        If ``_is_decoded`` is true, the text is final.
        """
        if self._marked is None and not self._is_decoded:
            found = ((row, str(data, "utf-8", utf8.PER_PART)) for row, data in _slices(rows))
            # A U+FFFD can also come from a token whose text contains it. That text is correct as
            # well.
            return {row: text for row, text in found if utf8.REPLACEMENT in text}
        bad = [row for row, data in _slices(rows) if not _is_utf_8(data)]
        column = column.taken(bad)
        if self._is_decoded:
            decode = self._decoder().decode
            texts = [decode(ids, skip_special_tokens=self._skip) for ids in column.rows()]
        else:
            marked = self._rows(self._marked, self._clipped(column.values), column.offsets)
            runs = (BAD_RUN.sub(_spoilt, data) for _, data in _slices(marked))
            texts = [data.translate(None, MARK + NOTHING).decode() for data in runs]
        return dict(zip(bad, texts, strict=True))


def _spoilt(found: re.Match[bytes]) -> bytes:
    """Return a bad run as ``tokenizers`` renders it: each byte of the run is U+FFFD."""
    return REPLACEMENT_BYTES * (len(found[0]) // 2)


# --- arrays ---------------------------------------------------------------------------------------


def _text_type(rows: Any) -> Any:
    pa = pyarrow()
    return pa.string() if pa.types.is_binary(rows.type) else pa.large_string()


def _slices(rows: Any) -> Iterator[tuple[int, memoryview]]:
    """Return the bytes of each row of a binary array made by this module."""
    _, ends, data = rows.buffers()
    places = memoryview(ends).cast("i" if pyarrow().types.is_binary(rows.type) else "q")
    view = memoryview(data)
    for row in range(len(rows)):
        yield row, view[places[row] : places[row + 1]]


def _is_utf_8(data: memoryview) -> bool:
    try:
        str(data, "utf-8")
    except UnicodeDecodeError:
        return False
    return True


def _mask(which: Iterable[int], rows: Any) -> Any:
    """Return a boolean array: whether each row is in ``which``."""
    mask = bytearray(len(rows))
    for row in which:
        mask[row] = 1
    return pyarrow().array(mask, pyarrow().uint8()).cast(pyarrow().bool_())


def _kept(ids: Any, offsets: Any, mask: Any) -> tuple[Any, Any]:
    """Return the ids for which ``mask`` is true, and each row's start among them."""
    pa, pc = pyarrow(), compute()
    if pc.all(mask).as_py() in (True, None):
        return ids, offsets
    before = pa.concat_arrays([pa.array([0], pa.int64()), pc.cumulative_sum(mask.cast(pa.int64()))])
    return ids.filter(mask), before.take(offsets)


def _at_edge(ids: Any, offsets: Any, edge: Edge) -> Any:
    """Return which of ``ids`` are the first, or the last, of their rows."""
    lists = pyarrow().LargeListArray.from_arrays(offsets, ids)
    return _changes(compute().list_parent_indices(lists), edge)


def _changes(values: Any, edge: Edge) -> Any:
    """Return which values differ from the previous or the next one, by ``edge``.

    With ``"first"`` each value is compared with the previous one, and the first value always
    differs. With ``"last"`` it is compared with the next one, and the last value always differs.
    """
    pa, pc = pyarrow(), compute()
    inner = pc.not_equal(values[1:], values[:-1])
    end = pa.array([True])
    return pa.concat_arrays([end, inner] if edge == "first" else [inner, end])


# --- the bytes of a token -------------------------------------------------------------------------


def _edge(rule: DecodingRule) -> Edge | None:
    match rule:
        case Joined() | Metaspace() | WordPiece() | CTC() | ByteFallback():
            return "first"
        case BPESuffix():
            return "last"
        case _:
            return None


def _forms(rule: DecodingRule, element: Any) -> Forms:
    """Return the bytes of an element of the rules, inside a row and at its edge.

    The elements are those of :mod:`streamdec.core.rules.compile`.
    """
    if element is None:
        return b"", b""
    match rule:
        case Joined() | Metaspace() | WordPiece():
            first, later = element
            return later, first
        case CTC():
            _, first, later = element
            return later, first
        case BPESuffix():
            common, (followed, last) = element
            return common + followed.encode(), common + last.encode()
        case ByteFallback(metaspace=None):
            data = bytes([element]) if isinstance(element, int) else element or NOTHING
        case ByteFallback(metaspace=metaspace) if isinstance(element, bytes):
            assert metaspace is not None
            first, later = metaspace_forms(metaspace, element.decode())
            return later.encode() or NOTHING, first.encode()
        case ByteFallback():
            # A first run is one element, whose marks are lost: ``decode`` decodes such rows.
            return bytes([element]), MARK
        case _:
            data = element
    return data, data


def _size(form: bytes) -> int:
    """Return how many bytes of text a form is. NOTHING is no text."""
    return 0 if form == NOTHING else len(form)


def _marked(element: Any, form: bytes) -> bytes:
    """Return the bytes of a token, with a mark if it is a byte token."""
    if not isinstance(element, int):
        return form
    return MARK + (NEVER if form in (MARK, NOTHING) else form)


# --- one for each tokenizer -----------------------------------------------------------------------


def _reference(decoder: Any) -> Callable[[], Any]:
    """Return a weak reference to ``decoder``, so that its table is freed with it."""
    try:
        return weakref.ref(decoder)
    except TypeError:  # without weak references, the tokenizer is kept as long as its table
        return lambda: decoder


_gathers: weakref.WeakKeyDictionary[Any, dict[bool, Gather]] = weakref.WeakKeyDictionary()


def gather_for(tokenizer: Decoder, *, skip_special_tokens: bool) -> Gather | None:
    """Return the Gather of ``tokenizer``; None if its texts need its own ``decode``.

    It is built once, in one or two µs for each id of the vocabulary.
    """
    if getattr(tokenizer, "rules", None) is None or not hasattr(tokenizer, "vocab_size"):
        return None
    try:
        known = _gathers.setdefault(tokenizer, {})
    except TypeError:  # no weak references to it, or no hash
        known = {}
    if skip_special_tokens not in known:
        table = _table(tokenizer, skip_special_tokens)
        if table is None or tokenizer.rules.strip_left[1] > MOST_STRIPPED:  # type: ignore[attr-defined]
            return None
        if tokenizer.vocab_size > MAX_ID:  # its table would be too large
            return None
        made = Gather(tokenizer, table, skip_special_tokens=skip_special_tokens)
        known[skip_special_tokens] = made
    return known[skip_special_tokens]


def _table(tokenizer: Decoder, skip: bool) -> ByteTable | None:
    """Return the table of streams that agree with ``decode``; None without a table."""
    if not isinstance(table_for(tokenizer, Options(skip)), ByteTable):
        return None
    # ``decode`` of all backends renders runs of bytes as the tokenizers library does.
    table = table_for(tokenizer, Options(skip, "exact"))
    assert isinstance(table, ByteTable)
    return table
