"""``streamdec verify``: compare the text of streams with ``decode``, row by row.

The oracle is the tokenizer's own ``decode``. With ``byte_fallback="eager"`` that text is different
by design where a run of byte tokens is not UTF-8. There the oracle is a stream that is stepped id
by id (guarantees 0 and 6 of ``docs/explanation/laws.md``).
"""

from __future__ import annotations

import json
import random
from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import chain, islice
from typing import Any, NamedTuple

import click

from streamdec.bench.entrants import first_stop
from streamdec.chunks import same_items
from streamdec.cli import shared
from streamdec.cli.inputs import Input, input_options
from streamdec.core.conditions import StopConditions
from streamdec.core.stop_sequence_decoder import StopSequenceDecoder
from streamdec.core.token_ids import check_token_id
from streamdec.errors import EncodeError, SourceError, TokenizerLibraryError
from streamdec.fastpath._probes import SAMPLE_TEXTS
from streamdec.protocols import ByteFallback, Tokenizer
from streamdec.tokenizers._base import BaseTokenizer

_MOST_SHOWN = 5
"""The number of rows whose differences are shown in full; later rows get one line each."""
_IDS_AT_ONCE = 16_384
"""Plain ids are verified in parts of this size."""
_MOST_IDS = 400
"""The most ids of the smallest part that are shown."""
_MOST_TRIALS = 2_000
"""The most streams that are compared to find that part."""
_LONGEST_STOP = 12
_MOST_RESTORED = 3
"""The most times that a stream is restored from a snapshot."""
_BATCHES = (1, 8, 64, 512)
"""Largest sizes of the random batches; each stream uses one of them."""
_IDS_SHOWN = 8
_SHOWN = 40
"""Characters of each text that are shown around a difference."""

Options = Mapping[str, Any]


@click.command()
@shared.tokenizer_argument()
@input_options("token_ids")
@click.option(
    "--encode",
    "is_encoding",
    is_flag=True,
    help="Compare encode with the tokenizer's own library instead. INPUT is not read.",
)
def verify(tokenizer: shared.Source, source: Input, *, is_encoding: bool) -> None:
    """Compare streamed text with the full decode, for each row.

    INPUT is as for 'streamdec decode'. Each row is streamed in random batches, and restored from
    snapshots between some of them; with and without a stop, and with special tokens skipped and
    shown. The oracle is the tokenizer's own decode. For each row that differs, the command shows
    the ids of the smallest part that still differs. Pass them to 'streamdec trace'.

    With --encode, packaged sample texts are encoded, with fastokens where it can be used, and by
    the tokenizer's own library. For each text with other ids, the command shows both.

    The exit status is 1 if there is a difference or a bad row; 2 if INPUT has no row.

    \b
    Examples:
      streamdec verify ./model answers.jsonl
      streamdec verify ./model --encode
    """
    if is_encoding:
        shared.exit_with(_verify_encoding(tokenizer))
        return
    loaded = tokenizer.load(fast="off", untrusted=True)
    rows = num_ids = differing = 0
    with shared.progress() as tell:
        for number, row in _rows(source):
            with source.reporting(number):
                given = source.parse(row, list) if isinstance(row, bytes) else row
                ids = [check_token_id(token_id, place) for place, token_id in enumerate(given)]
                rows, num_ids = rows + 1, num_ids + len(ids)
                # A row is cut in the same places each time, wherever it is.
                seed = str(ids)
                if found := next(_differences(loaded, ids, seed), None):
                    shared.write(f"line {number}: {found.how}\n")
                    if differing < _MOST_SHOWN:
                        _show_in_full(loaded, ids, seed, found)
                    differing += 1
            tell(f"{shared.counted(rows, 'row')}, {differing:,} differing")
    if not rows:
        source.exit_if_bad()
        raise SourceError(f"{source.name}: no row to verify")
    message = f"{shared.counted(rows, 'row')} of {shared.counted(num_ids, 'id')} streamed"
    shared.write(f"{message}: {differing:,} with other text than the full decode\n")
    shared.exit_with(int(differing > 0))
    source.exit_if_bad()


def _verify_encoding(tokenizer: shared.Source) -> int:
    """Compare the ids of sample texts, and return the exit status."""
    loaded = tokenizer.load(fast="now", untrusted=True)
    packaged = [shared.packaged_text(name) for name in ("bench_text.txt", "demo_text.txt")]
    texts = [*SAMPLE_TEXTS, *packaged, *"".join(packaged).split("\n\n")]
    assert isinstance(loaded, BaseTokenizer)
    library, encode = loaded._library_encode()  # noqa: SLF001
    rows, failed = [], []
    for text in texts:
        try:
            rows.append((text, list(loaded.encode(text).ids), list(encode(text))))
        except (EncodeError, TokenizerLibraryError) as error:
            failed.append(error)
    if not rows:
        raise failed[0]
    differing = [row for row in rows if row[1] != row[2]]
    for text, ours, theirs in differing[:_MOST_SHOWN]:
        at = same_items(ours, theirs)
        shown = slice(at, at + _IDS_SHOWN)
        shared.write(f"text {text[:_SHOWN]!a}: from token {at}\n")
        shared.write(f"  encode()  {ours[shown]}\n  {library:9} {theirs[shown]}\n")
    message = f"{shared.counted(len(rows), 'text')} encoded by {loaded.report.active}"
    shared.write(f"{message}: {len(differing):,} with other ids than those of {library}\n")
    if failed:
        shared.write(f"{shared.counted(len(failed), 'text')} cannot be encoded: {failed[0]}\n")
    return int(bool(differing))


def _rows(source: Input) -> Iterator[tuple[int, bytes | list[int]]]:
    """Yield the line of each row, and the row: its ids, or JSON to be parsed."""
    if source.is_jsonl:
        yield from source.rows()
        return
    ids = chain.from_iterable(source.ids())
    while part := [*islice(ids, _IDS_AT_ONCE)]:
        yield 1, part


class _Difference(NamedTuple):
    """A difference between the text of a stream and the expected text."""

    how: str
    """The options and the stop of the stream."""
    given: str
    """The streamed text around the difference, or the exception that was raised."""
    expected: str
    """The expected text around it."""


def _show_in_full(tokenizer: Tokenizer, ids: Sequence[int], seed: str, found: _Difference) -> None:
    def differs(part: Sequence[int]) -> bool:
        return any(_differences(tokenizer, part, seed))

    shared.write(f"  streamed  {found.given!a}\n  decode()  {found.expected!a}\n")
    start, size = smallest(ids, differs)
    if size <= _MOST_IDS:
        shared.write(f"  ids       {' '.join(map(str, ids[start : start + size]))}\n")


def _differences(tokenizer: Tokenizer, ids: Sequence[int], seed: str) -> Iterator[_Difference]:
    """Stream ``ids`` in all ways, and yield the differences from the expected text.

    Raises TokenizerLibraryError if the tokenizer's own library cannot decode the row.
    """
    chance = random.Random(seed)
    has_runs = tokenizer.rules is not None and isinstance(tokenizer.rules.rule, ByteFallback)
    for byte_fallback in ("exact", "eager") if has_runs else ("eager",):
        for skip in (True, False):
            options: Options = {"skip_special_tokens": skip, "byte_fallback": byte_fallback}
            # Some decoders panic without ids.
            expected = tokenizer.decode(ids, skip_special_tokens=skip) if ids else ""
            if has_runs and byte_fallback == "eager" and "\ufffd" in expected:
                stream = StopSequenceDecoder(tokenizer, StopConditions(), **options)
                texts = [stream.step(token_id).text for token_id in ids]
                expected = "".join([*texts, stream.flush().text])
            for stop in (None, _stop_in(expected, chance)):
                # A stop string that is the text of a special token also stops at its id.
                if stop not in tokenizer.special_tokens.all:
                    found = _compared(tokenizer, ids, options, stop, expected, chance)
                    yield from [] if found is None else [found]


def _compared(
    tokenizer: Tokenizer,
    ids: Sequence[int],
    options: Options,
    stop: str | None,
    expected: str,
    chance: random.Random,
) -> _Difference | None:
    how = ", ".join(f"{name}={value}" for name, value in options.items())
    if stop is not None:
        how += f", with the stop {stop!a}"
        expected = expected[: first_stop(expected, [stop])]
    try:
        stream = StopSequenceDecoder(tokenizer, StopConditions(stop or ()), **options)
        given = _streamed(tokenizer, stream, ids, chance)
    except Exception as error:  # noqa: BLE001 (any exception is a difference)
        return _Difference(how, f"{type(error).__name__}: {error}", "no error")
    if given == expected:
        return None
    at = same_items(given, expected)
    shown = slice(max(at - _SHOWN // 2, 0), at + _SHOWN // 2)
    return _Difference(how, given[shown], expected[shown])


def _streamed(
    tokenizer: Tokenizer, stream: StopSequenceDecoder, ids: Sequence[int], chance: random.Random
) -> str:
    """Return the text of ``stream``, which is restored between some batches."""
    batches = [*_batches(ids, chance)]
    moves = {chance.randrange(len(batches)) for _ in range(_MOST_RESTORED) if batches}
    texts = []
    for place, batch in enumerate(batches):
        if place in moves:
            snapshot = json.loads(json.dumps(stream.snapshot()))
            stream = StopSequenceDecoder.restore(tokenizer, snapshot)
        texts.append(stream.feed(batch).text)
        if stream.finished:
            return "".join(texts)
    return "".join([*texts, stream.flush().text])


def _stop_in(text: str, chance: random.Random) -> str:
    """Return a stop that is in ``text``, or of which a prefix is in ``text``."""
    start = chance.randint(0, max(len(text) - 1, 0))
    stop = text[start : start + chance.randint(1, _LONGEST_STOP)] or "\n"
    return stop + "\x00" if chance.random() < 0.25 else stop


def _batches(ids: Sequence[int], chance: random.Random) -> Iterator[Sequence[int]]:
    most, start = chance.choice(_BATCHES), 0
    while start < len(ids):
        size = chance.randint(1, most)
        yield ids[start : start + size]
        start += size


def smallest(ids: Sequence[int], differs: Callable[[Sequence[int]], bool]) -> tuple[int, int]:
    """Return the start and length of a small part of ``ids`` that still ``differs``.

    It is shortened from both ends, in large steps and then smaller ones, until nothing can be
    removed. The search ends after 2,000 trials. The part is contiguous.

    >>> from streamdec.cli.verify import smallest
    >>> smallest([5, 1, 2, 7, 3, 9], lambda part: 2 in part and 3 in part)
    (2, 3)
    """
    trials = 0

    def does(start: int, end: int) -> bool:
        nonlocal trials
        trials += 1
        return trials <= _MOST_TRIALS and differs(ids[start:end])

    start, end = 0, len(ids)
    step = max((end - start) // 2, 1)
    while step:
        if step < end - start and does(start + step, end):
            start += step
        elif step < end - start and does(start, end - step):
            end -= step
        else:
            step //= 2
    return start, end - start
