"""``decode_rollouts`` turns generated token ids into a :class:`Rollout` per row.

The result equals that of a StopSequenceDecoder for each row. Large batches are decoded as a column
(:mod:`streamdec.bulk.stopped_rows`), if pyarrow is installed. A decoder decodes all other rows:
rows whose prompt changes their text, rows with ids that cannot be decoded, small batches, and
batches with ``spans``.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, field
from typing import Any, NamedTuple, SupportsIndex, Unpack

from streamdec.bulk._pyarrow import pyarrow
from streamdec.bulk.column import Column, column_of
from streamdec.bulk.stopped_rows import StoppedRow, StoppedRows, decoded_row
from streamdec.chunks import FinishReason, StopMatch, StopReason, TokenSpan
from streamdec.core.conditions import StopConditions, StopOptions, conditions_of
from streamdec.core.decode_options import ByteFallbackMode, Options, UnknownIds
from streamdec.core.shared_tables import table_for, tokenizer_for
from streamdec.core.stop_sequence_decoder import StopSequenceDecoder
from streamdec.core.token_ids import as_prompt, as_sequence
from streamdec.errors import MissingExtraError, StreamdecError
from streamdec.mistakes import not_conditions
from streamdec.protocols import Decoder

FEWEST_TOKENS = 2**13
"""A batch of fewer ids is decoded row by row, because making a column takes longer."""


@dataclass(frozen=True, slots=True)
class Rollout:
    r"""One row of a batch: its text, and its ids up to the stop.

    >>> from streamdec import MockTokenizer, StopConditions
    >>> from streamdec.bulk import decode_rollouts
    >>> tokenizer = MockTokenizer.from_tokens([b"Hi", b"!\nUs", b"er: no"])
    >>> rollout, = decode_rollouts([[0, 1, 2, 0, 0]], tokenizer, StopConditions("\nUser:"))
    >>> rollout.text, rollout.token_ids, rollout.finish_reason, rollout.stop_reason
    ('Hi!', [0, 1, 2], 'stop', '\nUser:')
    >>> rollout.token_ids[: rollout.match.tokens_before]
    [0]
    """

    text: str
    """The text, without the stop if it is hidden."""
    token_ids: list[int]
    """The ids up to and including the one that completed the stop.

    The ids of the stop are included, because the model generated them. If a stop begins or ends
    inside a token, the whole token is kept. Without a stop or a limit, these are all ids of the
    row. ``token_ids[:match.tokens_before]`` are the ids whose text is wholly before the stop."""
    finish_reason: FinishReason | None
    """``"stop"``, ``"length"`` for ``max_tokens``, or ``"error"``. None if the ids ended first, so
    that only the engine can give the reason."""
    match: StopMatch | None = None
    """The stop that ended the row, and its position; None without a stop."""
    logprobs: Any = None
    """The log probability of each of ``token_ids``; None without ``logprobs``."""
    per_token: Mapping[str, Any] = field(default_factory=dict)
    """The values of ``per_token`` for each of ``token_ids``, by name."""
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
    conditions: StopConditions | Sequence[StopConditions] | None = None,
    *,
    prompt_token_ids: Iterable[Iterable[SupportsIndex]] | None = None,
    mask: Iterable[Iterable[Any]] | None = None,
    logprobs: Iterable[Sequence[Any]] | None = None,
    per_token: Mapping[str, Iterable[Sequence[Any]]] | None = None,
    spans: bool = False,
    skip_special_tokens: bool = True,
    byte_fallback: ByteFallbackMode = "eager",
    unknown_ids: UnknownIds = "skip",
    clean_up_tokenization_spaces: bool = False,
    **stops: Unpack[StopOptions],
) -> list[Rollout]:
    r"""Decode generated ids, and cut each row and its per-token values at its stop.

    Each row equals the result of a StopSequenceDecoder, including its flush.

    Args:
        rows: the generated ids: lists, arrays or tensors; or one array or tensor of (rows, tokens);
            or a column of Arrow, pandas or Polars whose values are lists.
        tokenizer: the tokenizer.
        conditions: when a row ends; one for all rows, or one for each row. Or give the parts of
            one as ``stops``. Name the ``eos_token_ids`` of the model: without them, padding after
            the end is text.
        prompt_token_ids: the prompt of each row, without padding. Without prompts each row is
            decoded as the beginning of a text.
        mask: which ids belong to the row (1) and which are padding (0), with the shape of ``rows``.
            The padding is on the left, on the right, or on both sides.
        logprobs: the log probability of each id of ``rows``, including padding.
        per_token: other sequences with a value for each id of ``rows``, by name.
        spans: whether to compute the span of each token in its text.
        skip_special_tokens: as for StopSequenceDecoder.
        byte_fallback: as for StopSequenceDecoder.
        unknown_ids: as for StopSequenceDecoder.
        clean_up_tokenization_spaces: as for StopSequenceDecoder.
        **stops: the arguments of StopConditions, for all rows: ``stop="User:"``.

    Returns:
        A Rollout for each row. ``logprobs`` and ``per_token`` are sliced, not converted: a tensor
        gives a tensor for each row.

    Raises:
        TypeError: an argument has the wrong type, or ``conditions`` and ``stops`` are given.
        ValueError: ``mask``, ``logprobs``, ``per_token``, ``conditions`` or ``prompt_token_ids``
            do not fit ``rows``; a mask has padding inside a row, or values other than 0 and 1; the
            tokenizer does not support ``spans``.

    An id that cannot be decoded (-100, a float, an unknown id with ``unknown_ids="error"``), an
    invalid id in a prompt, and None instead of a row end only their own row: ``finish_reason`` is
    ``"error"``, and ``error`` says why.

    Rows have no ``sections``. Use ``iter_chunks(ids, tokenizer, sections=...)`` for the sections of
    one row.

    **Cost.** With pyarrow (``pip install 'streamdec[bulk]'``) about 0.1 µs a token, and a few
    tenths of a second once for each tokenizer. The cost is that of a StopSequenceDecoder without
    pyarrow, for fewer than 8,192 ids with the same conditions, with ``spans``, with decoding
    options other than ``skip_special_tokens``, and with ``stop_regex`` or ``ignore_stops_between``.

    >>> from streamdec import MockTokenizer, StopConditions
    >>> from streamdec.bulk import decode_rollouts
    >>> tokenizer = MockTokenizer.from_tokens([b"Hi", b" you", b"!", b"<end>"], special_ids=[3])
    >>> for rollout in decode_rollouts(
    ...     [[0, 2, 3, 3], [0, 1, 2, 0]],
    ...     tokenizer,
    ...     StopConditions(eos_token_ids=3),
    ...     logprobs=[[-0.1, -0.2, -0.3, 0.0], [-0.1, -0.5, -0.5, -0.2]],
    ... ):
    ...     print(rollout.text, rollout.token_ids, rollout.finish_reason, rollout.logprobs)
    Hi! [0, 2, 3] stop [-0.1, -0.2, -0.3]
    Hi you!Hi [0, 1, 2, 0] None [-0.1, -0.5, -0.5, -0.2]
    """
    if stops or not isinstance(conditions, (list, tuple)):
        conditions = conditions_of(conditions, stops)  # type: ignore[arg-type]
    options = Options(skip_special_tokens, byte_fallback, unknown_ids, clean_up_tokenization_spaces)
    its_rows = _rows("rows", rows)
    given = [_token_ids(row, place) for place, row in enumerate(its_rows)]
    parts = _parts(given, mask)
    beside = {name: _beside(name, each, given) for name, each in (per_token or {}).items()}
    chances = None if logprobs is None else _beside("logprobs", logprobs, given)
    ids = [row[part] for row, part in zip(given, parts, strict=True)]
    prompts = None
    if prompt_token_ids is not None:
        prompts = _as_many("prompt_token_ids", _rows("prompt_token_ids", prompt_token_ids), ids)
    found: dict[int, _Found] = {}
    for each, which in _by_conditions(conditions, ids).items():
        decoding = _Decoding(tokenizer, each, options, spans=spans)
        its = decoding.found(
            [ids[row] for row in which], prompts and [prompts[row] for row in which]
        )
        found.update(zip(which, its, strict=True))
    for place, row in enumerate(its_rows):
        if row is None:
            error = TypeError(f"row {place} is None; expected a list of token ids")
            found[place] = _Found(StoppedRow("", "error", None, 0), error, [] if spans else None)
    rollouts = []
    for place, token_ids in enumerate(ids):
        row, failed, its_spans = found[place]
        start = parts[place].start
        kept = slice(start, start + row.num_read)
        rollouts.append(
            Rollout(
                row.text,
                token_ids[: row.num_read],
                row.finish_reason,
                row.match,
                None if chances is None else chances[place][kept],
                {name: each[place][kept] for name, each in beside.items()},
                its_spans,
                failed,
            )
        )
    return rollouts


# --- decoding -------------------------------------------------------------------------------------


class _Found(NamedTuple):
    row: StoppedRow
    error: Exception | None = None
    spans: list[TokenSpan] | None = None


class _Decoding:
    """Decodes rows with the same conditions."""

    def __init__(
        self, tokenizer: Decoder, conditions: StopConditions, options: Options, *, spans: bool
    ) -> None:
        self._tokenizer: Decoder = tokenizer_for(tokenizer)
        self._conditions = conditions
        self._options = options
        self._wants_spans = spans
        self._decoder = self._new_decoder(())

    def _new_decoder(self, prompt: Iterable[SupportsIndex]) -> StopSequenceDecoder:
        wants, options = self._wants_spans, self._options._asdict()
        return StopSequenceDecoder(
            self._tokenizer, self._conditions, prompt, spans=wants, **options
        )

    def found(self, ids: list[list[Any]], prompts: list[Any] | None) -> list[_Found]:
        """Return the result of each row."""
        found: dict[int, _Found] = {}
        decoders: dict[int, StopSequenceDecoder] = {}
        alike = dict(enumerate(ids))
        for row, given in enumerate(prompts or ()):
            prompt = as_prompt(given)
            try:
                decoders[row] = self._new_decoder(prompt)
            except StreamdecError as error:
                spans: Any = [] if self._wants_spans else None
                found[row] = _Found(StoppedRow("", "error", None, 0), error, spans)
            if row in found or not self._begins_after(prompt):
                del alike[row]
        if sum(map(len, alike.values())) >= FEWEST_TOKENS:
            found.update(self._of_column(alike))
        for row, token_ids in enumerate(ids):
            if row not in found:
                found[row] = self._read(decoders.get(row, self._decoder), token_ids)
        return [found[row] for row in range(len(ids))]

    def _begins_after(self, prompt: Sequence[SupportsIndex]) -> bool:
        """Whether the text after ``prompt`` is the same as at the beginning of a text."""
        table = table_for(self._tokenizer, self._options)
        return table.route == "bytes" and table.prime(prompt) == table.prime(())

    # --- by a decoder

    def _read(self, decoder: StopSequenceDecoder, token_ids: list[Any]) -> _Found:
        decoder.reset()
        error: Any = None
        try:
            row = decoded_row(decoder, token_ids)
        except Exception as raised:  # noqa: BLE001 (it ends only this row)
            error = raised
            text = error.chunk.text if getattr(error, "chunk", None) else ""
            row = StoppedRow(text + _rest(decoder), "error", None, decoder.num_tokens)
        return _Found(row, error, decoder.take_spans() if self._wants_spans else None)

    # --- as a column

    def _of_column(self, rows: dict[int, list[Any]]) -> dict[int, _Found]:
        """Decode the rows that can be decoded as a column."""
        options = self._options
        if self._wants_spans or options != Options(options.skip_special_tokens):
            return {}
        try:
            stopped = StoppedRows(self._tokenizer, self._conditions, options)
            if not stopped.gathers:
                return {}
            which, column = _column(rows)
        except MissingExtraError:
            return {}
        return {row: _Found(each) for row, each in zip(which, stopped.read(column), strict=True)}


def _rest(decoder: StopSequenceDecoder) -> str:
    """Return the text that ``decoder`` withholds, after an error."""
    try:
        return decoder.flush("error").text
    except Exception:  # noqa: BLE001 (the row has its error already)
        return decoder.jailed


def _column(rows: dict[int, list[Any]]) -> tuple[list[int], Column]:
    """Return the rows whose values are all token ids, and their places."""
    column = _as_column([*rows.values()])
    if column is not None:
        return [*rows], column
    which = [row for row, token_ids in rows.items() if _as_column([token_ids]) is not None]
    column = _as_column([rows[row] for row in which])
    assert column is not None
    return which, column


def _as_column(rows: list[list[Any]]) -> Column | None:
    """Return ``rows`` as a column; None if a value is not a token id."""
    pa = pyarrow()
    try:
        return column_of(pa.array(rows) if rows else pa.nulls(0))
    except (pa.ArrowException, ArithmeticError, TypeError, ValueError):
        return None


# --- the arguments --------------------------------------------------------------------------------


def _rows(name: str, rows: Any) -> list[Any]:
    """Return ``rows`` as a list; an array or a tensor as a list of lists."""
    if getattr(rows, "is_nested", False):  # a tensor of rows of different lengths
        rows = rows.unbind()
    if hasattr(rows, "columns") or isinstance(rows, Mapping):
        kind = type(rows).__name__
        raise TypeError(f"{name} must be a list of rows, not a {kind}; pass one column of it")
    if hasattr(rows, "to_pylist"):  # an array of Arrow, or one of its columns
        rows = rows.to_pylist()
    if hasattr(rows, "iloc"):  # a column of pandas, where None, NaN and NA are missing rows
        rows = [row if there else None for row, there in zip(rows, rows.notna(), strict=True)]
    # One dimension of objects may be a column of lists.
    is_flat = getattr(rows, "ndim", 2) < 2 and str(rows.dtype) != "object"
    if is_flat or isinstance(rows, (str, bytes, bytearray, AbstractSet)):
        raise TypeError(f"{name} must be a list of rows or a 2-D array, not {rows!r:.60}")
    try:
        return list(rows)
    except TypeError:
        raise TypeError(f"{name} must be a list of rows or a 2-D array, not {rows!r:.60}") from None


def _token_ids(row: Any, place: int) -> list[Any]:
    """Return a row of ``rows`` as a list; None as a list without ids."""
    if row is None:
        return []
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
    found = _as_many(name, _rows(name, values), rows)
    for place, (each, row) in enumerate(zip(found, rows, strict=True)):
        if each is None and not row:
            found[place] = []
        elif each is None:
            told = f"{name} of row {place} is None; expected one value for each of its ids"
            raise TypeError(f"{told}, {len(row)}; if no row has any, leave {name} out")
        elif len(each) != len(row):
            raise ValueError(f"{name} of row {place} has {len(each)} values for {len(row)} ids")
    return found


def _parts(rows: list[list[Any]], mask: Any) -> list[slice]:
    """Return the part of each row that is not padding."""
    if mask is None:
        return [slice(0, len(row)) for row in rows]
    parts = []
    for place, row in enumerate(_beside("mask", mask, rows)):
        values = [*as_sequence(row)]
        wrong = [each for each in values if each not in (0, 1)]
        if wrong:
            raise ValueError(f"mask has {wrong[0]!r:.40} in row {place}; expected only 0 and 1")
        flags = [bool(each) for each in values]
        start = flags.index(True) if True in flags else 0
        part = slice(start, start + sum(flags))
        if not all(flags[part]):
            raise ValueError(
                f"mask has a 0 between the 1s of row {place}; expected the mask of the padding "
                "(an attention mask), not a loss mask"
            )
        parts.append(part)
    return parts


def _by_conditions(conditions: Any, rows: list[Any]) -> Mapping[StopConditions, Sequence[int]]:
    """Return the places of the rows for each of the different conditions."""
    if isinstance(conditions, StopConditions):
        return {conditions: range(len(rows))}
    if not isinstance(conditions, (list, tuple)) or not all(
        isinstance(each, StopConditions) for each in conditions
    ):
        raise not_conditions(conditions)
    found: dict[StopConditions, list[int]] = {}
    for place, each in enumerate(_as_many("conditions", [*conditions], rows)):
        found.setdefault(each, []).append(place)
    return found
