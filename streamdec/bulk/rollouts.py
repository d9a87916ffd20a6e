"""``decode_rollouts`` turns generated token ids into a :class:`Rollout` per row.

The result equals that of a StopSequenceDecoder for each row. Large batches are decoded as a column
(:mod:`streamdec.bulk.stopped_rows`), if pyarrow is installed. A decoder decodes all other rows:
rows whose prompt changes their text, small batches, batches with ids that cannot be decoded, and
batches with ``spans``.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, SupportsIndex, Unpack

from streamdec.bulk.row import StoppedRow, decoded_row
from streamdec.chunks import FinishReason, StopMatch, StopReason, TokenSpan
from streamdec.core.conditions import StopConditions, StopOptions, conditions_of
from streamdec.core.decode_options import Options, UnknownIds
from streamdec.core.shared_tables import table_for, tokenizer_for
from streamdec.core.stop_sequence_decoder import StopSequenceDecoder
from streamdec.core.token_ids import as_prompt, as_sequence
from streamdec.errors import StreamdecError
from streamdec.protocols import Decoder

FEWEST_TOKENS = 2**13
"""A batch of fewer ids is decoded row by row, because making a column takes longer."""


@dataclass(frozen=True, slots=True)
class Rollout:
    r"""One row of a batch: its text, and its ids up to the stop.

    >>> from streamdec import MockTokenizer
    >>> from streamdec.bulk import Rollout, decode_rollouts
    >>> tokenizer = MockTokenizer.from_tokens([b"Hi", b"!\nUs", b"er: no"])
    >>> decode_rollouts([[0, 1, 2, 0]], tokenizer, stop="\nUser:")[0].token_ids
    [0, 1, 2]
    """

    text: str
    """The text, without the stop if it is hidden."""
    token_ids: list[int]
    """The ids up to and including the one that completed the stop.

    If a stop begins or ends inside a token, the whole token is kept. Without a stop or a limit,
    these are all ids of the row. ``token_ids[:match.tokens_before]`` are the ids whose text is
    wholly before the stop."""
    finish_reason: FinishReason | None
    """``"stop"``, ``"length"`` for ``max_tokens``, or ``"error"``. None if the ids ended first."""
    match: StopMatch | None = None
    """The stop that ended the row, and its position; None without a stop."""
    logprobs: Any = None
    """The log probability of each of ``token_ids``; None without ``logprobs``."""
    spans: list[TokenSpan] | None = None
    """The span of each of ``token_ids`` in ``text``, with ``spans=True``."""
    error: Exception | None = None
    """Why the row could not be decoded to its end. ``text`` and ``token_ids`` then end before the
    id that failed."""

    @property
    def stop_reason(self) -> StopReason:
        """The stop string, pattern or id; None for end-of-sequence or no stop."""
        return None if self.match is None else self.match.stop


def decode_rollouts(
    rows: Iterable[Iterable[SupportsIndex]],
    tokenizer: Decoder,
    conditions: StopConditions | None = None,
    *,
    prompt_token_ids: Iterable[Iterable[SupportsIndex]] | None = None,
    mask: Iterable[Iterable[Any]] | None = None,
    logprobs: Iterable[Sequence[Any]] | None = None,
    spans: bool = False,
    skip_special_tokens: bool = True,
    unknown_ids: UnknownIds = "skip",
    **stops: Unpack[StopOptions],
) -> list[Rollout]:
    r"""Decode generated ids, and cut each row and its log probabilities at its stop.

    Each row equals the result of a StopSequenceDecoder, including its flush.

    Args:
        rows: the generated ids: lists, arrays or tensors; or one array or tensor of (rows, tokens);
            or a column of Arrow, pandas or Polars whose values are lists.
        tokenizer: the tokenizer.
        conditions: when a row ends. Or give the parts of it as ``stops``. Name the
            ``eos_token_ids`` of the model: without them, padding after the end is text.
        prompt_token_ids: the prompt of each row, without padding. Without prompts each row is
            decoded as the beginning of a text.
        mask: which ids belong to the row (1) and which are padding (0), with the shape of ``rows``.
            The padding is on the left, on the right, or on both sides.
        logprobs: the log probability of each id of ``rows``, including padding.
        spans: whether to compute the span of each token in its text.
        skip_special_tokens: as for StopSequenceDecoder.
        unknown_ids: as for StopSequenceDecoder.
        **stops: the arguments of StopConditions, for all rows: ``stop="User:"``.

    Returns:
        A Rollout for each row. ``logprobs`` are sliced, not converted: a tensor gives a tensor for
        each row.

    Raises:
        TypeError: an argument has the wrong type, or ``conditions`` and ``stops`` are given.
        ValueError: ``mask``, ``logprobs`` or ``prompt_token_ids`` do not fit ``rows``; a mask has
            padding inside a row, or values other than 0 and 1; the tokenizer does not support
            ``spans``.

    An id that cannot be decoded (-100, a float, an unknown id with ``unknown_ids="error"``), also
    in a prompt, ends only its own row: ``finish_reason`` is ``"error"``, and ``error`` says why.

    The cost is that of :func:`~streamdec.bulk.decode_arrow`, if pyarrow is installed. It is that of
    a StopSequenceDecoder for fewer than 8,192 ids, with ``spans`` or ``unknown_ids``, and if an id
    cannot be decoded.

    >>> from streamdec import MockTokenizer
    >>> from streamdec.bulk import decode_rollouts
    >>> tokenizer = MockTokenizer.from_tokens([b"Hi", b"!", b"<end>"], special_ids=[2])
    >>> rows, logprobs = [[0, 1, 2, 2], [0, 1]], [[-0.1, -0.2, -0.3, 0.0], [-0.1, -0.5]]
    >>> for each in decode_rollouts(rows, tokenizer, eos_token_ids=2, logprobs=logprobs):
    ...     print(each.text, each.token_ids, each.finish_reason, each.logprobs)
    Hi! [0, 1, 2] stop [-0.1, -0.2, -0.3]
    Hi! [0, 1] None [-0.1, -0.5]
    """
    conditions = conditions_of(conditions, stops)
    tokenizer = tokenizer_for(tokenizer)
    options = Options(skip_special_tokens, unknown_ids=unknown_ids)
    new_decoder = partial(
        StopSequenceDecoder, tokenizer, conditions, spans=spans, **options._asdict()
    )
    plain = new_decoder()
    given = [_token_ids(row, place) for place, row in enumerate(_rows(rows))]
    parts = _parts(given, mask)
    chances = None if logprobs is None else _beside("logprobs", logprobs, given)
    ids = [row[part] for row, part in zip(given, parts, strict=True)]
    prompts = None
    if prompt_token_ids is not None:
        prompts = [*map(as_prompt, _as_many("prompt_token_ids", _rows(prompt_token_ids), ids))]
    found: dict[int, Rollout] = {}
    if not spans and unknown_ids == "skip":
        found = _of_column(ids, prompts, tokenizer, conditions, options)
    rollouts = []
    for place, token_ids in enumerate(ids):
        rollout = found.get(place)
        if rollout is None:
            try:
                decoder = new_decoder(prompt_token_ids=prompts[place]) if prompts else plain
            except StreamdecError as error:
                rollout = Rollout("", [], "error", spans=[] if spans else None, error=error)
            else:
                rollout = _read(decoder, token_ids, spans=spans)
        if chances is not None:
            start = parts[place].start
            kept = chances[place][start : start + len(rollout.token_ids)]
            rollout = replace(rollout, logprobs=kept)
        rollouts.append(rollout)
    return rollouts


# --- decoding -------------------------------------------------------------------------------------


def _read(decoder: StopSequenceDecoder, token_ids: list[Any], *, spans: bool) -> Rollout:
    """Return a row that ``decoder`` decodes."""
    decoder.reset()
    error: Any = None
    try:
        row = decoded_row(decoder, token_ids)
    except Exception as raised:  # noqa: BLE001 (it ends only this row)
        error = raised
        text = error.chunk.text if getattr(error, "chunk", None) else ""
        row = StoppedRow(text + _rest(decoder), "error", None, decoder.num_tokens)
    return _rollout(row, token_ids, decoder.take_spans() if spans else None, error)


def _rest(decoder: StopSequenceDecoder) -> str:
    """Return the text that ``decoder`` withholds, after an error."""
    try:
        return decoder.flush("error").text
    except Exception:  # noqa: BLE001 (the row has its error already)
        return decoder.jailed


def _rollout(
    row: StoppedRow, token_ids: list[Any], spans: Any = None, error: Any = None
) -> Rollout:
    kept = token_ids[: row.num_read]
    return Rollout(row.text, kept, row.finish_reason, row.match, None, spans, error)


def _of_column(
    ids: list[list[Any]],
    prompts: list[Any] | None,
    tokenizer: Decoder,
    conditions: StopConditions,
    options: Options,
) -> dict[int, Rollout]:
    """Return rows by place that can be decoded as a column."""
    if sum(map(len, ids)) < FEWEST_TOKENS:
        return {}
    try:
        import pyarrow as pa  # an extra

        from streamdec.bulk.column import column_of
        from streamdec.bulk.stopped_rows import StoppedRows
    except ImportError:
        return {}
    skip = options.skip_special_tokens
    stopped, table = StoppedRows(tokenizer, conditions, skip), table_for(tokenizer, options)
    if stopped.gather is None:
        return {}
    rows = dict(enumerate(ids))
    try:
        for place, prompt in enumerate(prompts or ()):
            if table.prime(prompt) != table.prime(()):  # its text continues that of the prompt
                del rows[place]
        column = column_of(pa.array([*rows.values()]))
    except (pa.ArrowException, ArithmeticError, TypeError, ValueError):  # a bad id in some row
        return {}
    found = zip(rows.items(), stopped.rows(column), strict=True)
    return {place: _rollout(row, token_ids) for (place, token_ids), row in found}


# --- the arguments --------------------------------------------------------------------------------


def _rows(rows: Any) -> list[Any]:
    """Return ``rows`` as a list."""
    if getattr(rows, "is_nested", False):  # a tensor of rows of different lengths
        rows = rows.unbind()
    return rows.to_pylist() if hasattr(rows, "to_pylist") else list(rows)


def _token_ids(row: Any, place: int) -> list[Any]:
    """Return a row of ``rows`` as a list."""
    try:
        row = as_sequence(row)
    except TypeError as error:
        raise TypeError(f"row {place}: {error}") from None
    return row if type(row) is list else [*row]


def _as_many(name: str, values: list[Any], rows: list[Any]) -> list[Any]:
    """Return ``values``. Raises ValueError if there is not one for each row."""
    if len(values) != len(rows):
        raise ValueError(f"{name} has {len(values)} rows, and there are {len(rows)} rows of ids")
    return values


def _beside(name: str, values: Any, rows: list[list[Any]]) -> list[Any]:
    """Return ``values`` by row.

    Raises ValueError if a row does not have one for each id.
    """
    found = _as_many(name, _rows(values), rows)
    for place, (each, row) in enumerate(zip(found, rows, strict=True)):
        if each is None or len(each) != len(row):
            size = "None" if each is None else f"{len(each)} values"
            raise ValueError(f"{name} of row {place} has {size} for {len(row)} ids")
    return found


def _parts(rows: list[list[Any]], mask: Any) -> list[slice]:
    """Return the part of each row that is not padding."""
    if mask is None:
        return [slice(0, len(row)) for row in rows]
    parts = []
    for place, row in enumerate(_beside("mask", mask, rows)):
        flags = [*as_sequence(row)]
        start = flags.index(1) if 1 in flags else 0
        part = slice(start, start + flags.count(1))
        if flags.count(0) + flags.count(1) < len(flags) or not all(flags[part]):
            raise ValueError(
                f"mask of row {place}: expected 0s, then 1s, then 0s: the mask of the padding (an "
                "attention mask), not a loss mask"
            )
        parts.append(part)
    return parts
