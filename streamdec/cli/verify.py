"""``streamdec verify``: compare streams and encoders with their oracle.

The rows are the user's own. By default the command compares the text of streams of token ids with
the full decode. With ``--encode`` it compares the ids that both encoders of a tokenizer.json give
for a text.
"""

from __future__ import annotations

import random
import sys
from collections.abc import Iterator, Sequence
from io import BufferedReader
from itertools import islice
from pathlib import Path
from typing import Any

import click

from streamdec.backends.hybrid import HybridTokenizer
from streamdec.cli.loading import (
    Loader,
    loading_options,
    say_what_encodes,
    tokenizer_option,
)
from streamdec.cli.progress import Progress, counted, wipe
from streamdec.cli.rows import (
    Input,
    InputFormat,
    column_option,
    input_format_option,
    source_argument,
)
from streamdec.cli.statuses import NOT_ALL_IS_WELL
from streamdec.cli.verify_streams import WAYS, Difference, Streaming
from streamdec.core.shared_tables import route_of
from streamdec.errors import TokenizerLoadError
from streamdec.fastpath import comparison
from streamdec.fastpath._fastokens import FastEncoder
from streamdec.tokenizers._reading import read_bounded
from streamdec.tokenizers.tokenizer_report import LoadedTokenizer

MOST_SHOWN = 20
"""The number of rows whose differences are shown in full; later rows get one line each."""
IDS_AT_ONCE = 16_384
"""Plain ids are verified in parts of this size."""
_IDS_SHOWN = 24
_MOST_IDS = 400
"""The most ids of the smallest part that are shown."""


@click.command()
@tokenizer_option
@click.option(
    "--encode",
    "of_encoders",
    is_flag=True,
    help="Compare the ids that both encoders of a tokenizer.json give for texts.",
)
@input_format_option("ids", "text")
@column_option(None, "the row. The default is token_ids, or text with --encode")
@click.option(
    "--seed",
    type=click.IntRange(min=0),
    default=0,
    show_default=True,
    metavar="N",
    help="The seed of the random numbers: the same seed cuts a row in the same places.",
)
@loading_options
@source_argument
def verify(
    tokenizer: str,
    of_encoders: bool,
    input_format: InputFormat | None,
    column: str | None,
    seed: int,
    source: BufferedReader,
    load: Loader,
) -> None:
    """Compare streamed text with the full decode, for each row of FILE.

    Without FILE, or with "-", the rows are read from stdin. FILE contains token ids; or JSONL, each
    line a list of ids or an object with the field --column. Rows whose field is null are left out.

    Each row is streamed in several ways: id by id, in random batches, restored from snapshots at
    random places, and with its first ids as the prompt. Each way is tried with and without stops,
    and with special tokens skipped and shown. Tokenizers with byte-fallback tokens stream with both
    values of --byte-fallback. The oracle is the tokenizer's own decode. For each row that differs,
    the command shows the ids of the smallest part that still differs. Pass them to 'streamdec
    trace'. After 20 rows it shows only one line for each.

    With --encode, the ids from fastokens are compared with those from huggingface: with and without
    added special tokens, and with the text of special tokens as ordinary text. FILE is then one
    text; or JSONL, each line a string or an object with the field --column. Both are compared even
    if fastokens is not used for this tokenizer. Texts that always go to huggingface are left out.

    The exit status is 1 if there is a difference or a bad row, which is named on stderr; 2 if FILE
    has no row.

    \b
    Examples:
      streamdec verify --tokenizer ./model answers.jsonl
      streamdec verify --tokenizer ./model ids.txt --seed 7
      streamdec verify --encode --tokenizer ./model prompt.txt
    """
    if input_format == ("ids" if of_encoders else "text"):
        raise click.UsageError("only --encode reads texts; without it FILE has token ids")
    loaded = load(tokenizer) if of_encoders else load(tokenizer, fast="off")
    given = Input(source, input_format, "text" if of_encoders else "ids")
    kind: Any = _Encoders(loaded, tokenizer) if of_encoders else _Streams(loaded, seed)
    column = column or ("text" if of_encoders else "token_ids")
    rows = differing = 0
    with Progress() as progress:
        for number, row in _rows(given):
            rows += 1
            with given.complaints.about(number):
                value: Any = row
                if isinstance(row, bytes):
                    value = given.parse_row(row, column, str if of_encoders else list)
                if value is None:
                    continue
                told = kind.difference(number, value, is_shown=differing < MOST_SHOWN)
                if told is not None:
                    differing += 1
                    wipe()
                    _write(told)
            progress(f"{counted(rows, 'row')}, {differing:,} differing")
    if not rows and not given.complaints.count:
        raise TokenizerLoadError(f"{given.name}: no row to verify")
    _write(kind.summary(differing))
    given.complaints.exit_if_any()
    if differing:
        click.get_current_context().exit(NOT_ALL_IS_WELL)


def _rows(given: Input) -> Iterator[tuple[int, bytes | list[int]]]:
    """Yield the line of each row, and the row.

    Plain ids are yielded as they are, and other rows are to be parsed.
    """
    if given.format == "ids":
        ids = given.ids()
        while part := [*islice(ids, IDS_AT_ONCE)]:
            yield part[0][0], [token_id for _, _, token_id in part]
        return
    yield from ((number, row) for number, row in given.rows() if row)


def _write(told: str) -> None:
    # UTF-8 in every locale; the bytes of a path may be invalid.
    sys.stdout.buffer.write(f"{told}\n".encode(errors="replace"))
    sys.stdout.buffer.flush()


# --- streams --------------------------------------------------------------------------------------


class _Streams:
    """Streams rows of ids."""

    def __init__(self, tokenizer: LoadedTokenizer, seed: int) -> None:
        self._tokenizer = tokenizer
        self._streaming = Streaming(tokenizer)
        self._seed = seed
        self._rows = self._ids = 0

    def difference(self, number: int, row: list[Any], *, is_shown: bool) -> str | None:
        """Return the report if the row differs."""
        # A row is cut in the same places wherever it is.
        seed = f"{self._seed} {row}"
        found = self._streaming.difference(row, random.Random(seed))
        self._rows += 1
        self._ids += len(row)
        if found is None:
            return None
        options = ", ".join(f"{name}={value}" for name, value in found.options.items())
        heading = f"line {number}: {found.how} ({options})"
        return "\n".join([heading, *self._lines(row, found, seed)]) if is_shown else heading

    def _lines(self, row: Sequence[int], found: Difference, seed: str) -> Iterator[str]:
        stop = "" if found.stop is None else f", with the stop {found.stop!a}"
        prompt = f", after {found.prompt} ids as the prompt" if found.prompt else ""
        if found.error:
            yield f"  raised    {found.error}{prompt}{stop}"
        else:
            yield f"  where     character {found.position}{prompt}{stop}"
            yield f"  streamed  {found.given!a}"
            yield f"  decode()  {found.expected!a}"
        ids, smaller = self._streaming.smallest(row, found, seed)
        if len(ids) <= _MOST_IDS:
            yield f"  ids       {' '.join(map(str, ids))}"
            if smaller.prompt:
                yield f"            the first {smaller.prompt} are the prompt"

    def summary(self, differing: int) -> str:
        """Return the summary in words."""
        ways = WAYS * len(self._streaming.options)
        told = (
            f"{counted(self._rows, 'row')} of {counted(self._ids, 'id')}, streamed in {ways} ways "
            f"(seed {self._seed}): {differing:,} with other text than the full decode"
        )
        if route_of(self._tokenizer) == "window":
            told += (
                "\nThis tokenizer streams over a window of its decode. The text equals the full "
                "decode only if the text of a token depends on at most 64 ids before it."
            )
        if self._streaming.unjudged:
            told += (
                f"\n{counted(self._streaming.unjudged, 'row')} with bytes that are not UTF-8, "
                'where "eager" differs from decode() by design: its results were compared only '
                "with each other."
            )
        return told


# --- encoders -------------------------------------------------------------------------------------


class _Encoders:
    """Encodes texts with both encoders."""

    def __init__(self, tokenizer: LoadedTokenizer, name: str) -> None:
        if not isinstance(tokenizer, HybridTokenizer):
            found = tokenizer.report.format
            raise TokenizerLoadError(
                f"--encode compares the two encoders of a tokenizer.json; the format of {name!r} "
                f"is {found}"
            )
        tokenizer.wait()
        say_what_encodes(tokenizer)
        self._tokenizer = tokenizer
        encoder = tokenizer.fast_encoder
        if encoder is None:  # it is not used for this file
            encoder = FastEncoder(read_bounded(Path(tokenizer.name)).decode("utf-8-sig"))
        self._comparison = comparison.Comparison(tokenizer, encoder)
        self._compared = self._left_out = 0

    def difference(self, number: int, row: str, **_: bool) -> str | None:
        """Return the report if the ids differ."""
        guarded = self._tokenizer.report.guarded
        if guarded and guarded in row:
            self._left_out += 1
            return None
        found = self._comparison.difference(row)
        self._compared += 1
        return None if found is None else _described(number, found, self._tokenizer)

    def summary(self, differing: int) -> str:
        """Return the summary in words."""
        told = f"{counted(self._compared, 'text')} compared, {differing:,} with other ids"
        left = f"; {self._left_out:,} left out, which huggingface encodes"
        return told + (left if self._left_out else "")


def _described(number: int, found: comparison.Difference, tokenizer: HybridTokenizer) -> str:
    around = ("with" if found.add_special_tokens else "without") + " special tokens added"
    if found.special == "text":
        around = "special tokens as text"
    what = f"{found.text!a}, from character {found.position} on"
    lines = [
        f"line {number}: {what}, {around}",
        f"  fastokens    {_ids(found.fastokens, tokenizer)}",
    ]
    slow = found.huggingface
    lines.append(f"  huggingface  {'fails' if slow is None else _ids(slow, tokenizer)}")
    return "\n".join(lines)


def _ids(ids: Sequence[int], tokenizer: HybridTokenizer) -> str:
    shown = ", ".join(f"{i} {tokenizer.id_to_token(i)!a}" for i in ids[:_IDS_SHOWN])
    more = f", and {len(ids) - _IDS_SHOWN} more" if len(ids) > _IDS_SHOWN else ""
    return f"[{shown}{more}]"
