"""``streamdec verify``: whether the fast way gives what the slow way gives, on one's own rows.

Of token ids: that a stream of them, cut anyhow, has the text of the whole decode. With ``--encode``
of texts: that both encoders of a tokenizer.json give the same ids.
"""

from __future__ import annotations

import random
import shlex
import sys
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import asdict
from functools import partial
from io import BufferedReader
from pathlib import Path
from typing import Any, Literal, NamedTuple

import click

from streamdec.backends import comparison
from streamdec.backends._fastokens import FastEncoder
from streamdec.backends.hybrid import HybridTokenizer
from streamdec.backends.report import LoadedTokenizer
from streamdec.cli.id_input import without_bom
from streamdec.cli.loading import (
    Loader,
    loading_options,
    say_what_encodes,
    spelled,
    tokenizer_argument,
)
from streamdec.cli.progress import Progress, say, wipe
from streamdec.cli.row_input import IdsOrText, RowFormat, detect_rows, numbered_rows
from streamdec.cli.rows import SOME_INPUT_WAS_BAD, Complaints, chunks_of, counted, json_line
from streamdec.cli.streaming import Difference, Streaming
from streamdec.cli.text_input import field_option, numbered_texts, text_of
from streamdec.core.tables import route_of
from streamdec.errors import UnsupportedFormatError

__all__ = ["verify"]

MOST_SHOWN = 20
"""Rows whose differences are shown in full; of more their line and what it was."""
_IDS_SHOWN = 24
_IDS_TO_TRACE = 400


@click.command()
@click.option(
    "--encode",
    "of_encoders",
    is_flag=True,
    help="Compare the ids of texts by both encoders of a tokenizer.json, and stream nothing.",
)
@click.option(
    "--input-format",
    type=click.Choice(["auto", "jsonl", "ids", "text", "lines"]),
    default="auto",
    show_default=True,
    help="What FILE holds: JSONL, one stream of ids, one text, a text in each line; auto asks the "
    "first line that is not blank.",
)
@field_option
@click.option(
    "--line",
    type=click.IntRange(min=1),
    metavar="N",
    help="Verify the row in line N alone.",
)
@click.option(
    "--seed",
    type=click.IntRange(min=0),
    default=0,
    show_default=True,
    metavar="N",
    help="Another number cuts the rows elsewhere; the same one cuts them alike.",
)
@click.option(
    "--output",
    type=click.Choice(["text", "jsonl"]),
    default="text",
    show_default=True,
    help="Differences for people, or an object for each, and at last one that counts.",
)
@loading_options
@tokenizer_argument("tokenizer")
@click.argument("source", metavar="[FILE]", type=click.File("rb"), default="-")
def verify(
    tokenizer: str,
    of_encoders: bool,
    input_format: RowFormat | Literal["auto"],
    field: str,
    line: int | None,
    seed: int,
    output: str,
    source: BufferedReader,
    load: Loader,
) -> None:
    """Compare what is streamed with the whole decode, for each row of FILE (or stdin, "-").

    A row is a list of token ids, as 'streamdec decode' takes them, or a text, which is encoded
    first, with special tokens added. It is streamed one by one, in random batches, restored from
    snapshots at random places, with its beginning as the prompt, with stops and without, special
    tokens skipped and shown; with byte-fallback tokens under both rules for runs of bytes. The
    judge is the tokenizer's own decode. For each row that differs, the smallest part that still
    does is shown, and how to look at it.

    With --encode the ids of texts by fastokens are compared with those by huggingface: with special
    tokens added, without, and with those that a text spells as text. Both are compared even if
    fastokens is not used for this file; texts that huggingface encodes anyway are left out.

    The exit status is 1 if there is a difference or a bad row, which is named on stderr; 2 if there
    is no row.

    \b
    Examples:
      streamdec verify ./model answers.jsonl
      streamdec encode --tokenizer ./model prompt.txt | streamdec verify ./model --seed 7
      streamdec verify ./model --input-format lines prompts.txt --output jsonl
      streamdec verify --encode ./model prompts.txt
    """
    context = click.get_current_context()
    if of_encoders and input_format == "ids":
        raise click.UsageError("--encode compares the ids of texts; --input-format ids has none")
    loaded = load(tokenizer) if of_encoders else load(tokenizer, fast="off")
    name = click.format_filename(getattr(source, "name", "<stdin>"))
    complaints = Complaints(name)
    kind: _Encoders | _Streams
    if of_encoders:
        kind = _Encoders(loaded, tokenizer)
    else:
        kind = _Streams(loaded, seed, _Again.of(context, name, seed))
    chunks = without_bom(chunks_of(source, sys.stdout.buffer))
    if input_format == "auto":
        input_format, chunks = detect_rows(chunks)
        if input_format == "text":
            say(f"{name} is read as one text; --input-format says otherwise")
    rows = differing = 0
    with Progress() as progress:
        for number, row in kind.rows(chunks, input_format, field):
            if line is not None and number > line:
                break
            if line not in (None, number):
                continue
            rows += 1
            with complaints.about(number):
                told = kind.difference(number, row(), is_shown=differing < MOST_SHOWN)
                if told is not None:
                    differing += 1
                    wipe()
                    _write(told.facts if output == "jsonl" else told.text)
            progress(f"{counted(rows, 'row')}, {differing:,} differing")
    if not rows:
        which = "row" if line is None else f"row in line {line}"
        raise UnsupportedFormatError(f"{name}: there is no {which} to verify")
    counts = {**kind.counts, "differing": differing, "bad": complaints.count}
    _write({"verified": counts} if output == "jsonl" else kind.summary(differing))
    sys.stdout.buffer.flush()
    if differing or complaints.count:
        context.exit(SOME_INPUT_WAS_BAD)


def _write(told: str | dict[str, Any]) -> None:
    # As all commands write: UTF-8, wherever it goes; a path may hold what is none.
    line = json_line(told) if isinstance(told, dict) else f"{told}\n".encode(errors="replace")
    sys.stdout.buffer.write(line)
    sys.stdout.buffer.flush()


class _Told(NamedTuple):
    """What is said of a row that differs."""

    text: str
    facts: dict[str, Any]


# --- streams --------------------------------------------------------------------------------------


class _Again(NamedTuple):
    """The command line once more, for who wants to see a difference again."""

    load: str
    """The options of loading, and the tokenizer."""
    rows: str
    """How rows are read, and the file."""
    seed: int

    @classmethod
    def of(cls, context: click.Context, file: str, seed: int) -> _Again:
        """``file``: as it was named; what came from stdin is a file that nobody kept."""
        tokenizer = shlex.quote(context.params["tokenizer"])
        file = "FILE" if file in ("-", "<stdin>") else shlex.quote(file)
        rows = spelled(context, ("input_format", "field"))
        return cls(
            " ".join([*spelled(context), tokenizer]),
            " ".join([*rows, file]),
            seed,
        )

    def verify(self, line: int) -> str:
        """What verifies this row alone."""
        return f"streamdec verify --seed {self.seed} --line {line} {self.load} {self.rows}"

    def trace(self, ids: Sequence[int], found: Difference) -> str:
        """What shows the ids one by one."""
        options = []
        if not found.options["skip_special_tokens"]:
            options.append("--keep-special-tokens")
        if found.options["byte_fallback"] != "eager":
            options.append(f"--byte-fallback {found.options['byte_fallback']}")
        if found.prompt:
            options.append(f"--prompt-ids {shlex.quote(' '.join(map(str, ids[: found.prompt])))}")
        if found.stop is not None:
            options.append(f"--stop {shlex.quote(_as_stop(found.stop))}")
        shown = " ".join(map(str, ids[found.prompt :]))
        return f'echo "{shown}" | ' + " ".join(["streamdec trace", *options, self.load])


class _Streams:
    """Rows of ids, or of texts that become ids."""

    def __init__(self, tokenizer: LoadedTokenizer, seed: int, again: _Again) -> None:
        self._tokenizer = tokenizer
        self._streaming = Streaming(tokenizer)
        self._seed = seed
        self._again = again
        self._rows = self._ids = 0

    rows = staticmethod(numbered_rows)

    def difference(self, number: int, row: list[Any] | str, *, is_shown: bool) -> _Told | None:
        """What is said if it differs."""
        if isinstance(row, str):
            row = list(self._tokenizer.encode(row, add_special_tokens=True).ids)
        # So a row is cut alike if it is verified alone.
        seed = f"{self._seed} {number}"
        found = self._streaming.difference(row, random.Random(seed))
        self._rows += 1
        self._ids += len(row)
        if found is None:
            return None
        facts = {"line": number, "seed": self._seed, **asdict(found)}
        heading = f"line {number}: {found.how} ({_listed(found.options)})"
        if not is_shown:
            return _Told(heading, facts)
        ids, smaller = self._streaming.smallest(row, found, seed)
        facts["token_ids"] = ids
        return _Told("\n".join([heading, *self._lines(number, row, found, ids, smaller)]), facts)

    def _lines(
        self,
        number: int,
        row: Sequence[int],
        found: Difference,
        ids: Sequence[int],
        smaller: Difference,
    ) -> Iterator[str]:
        yield f"  where     {self._place(row, found)}"
        if found.error:
            yield f"  raised    {found.error}"
        else:
            yield f"  came      {found.given!a}"
            yield f"  decode()  {found.expected!a}"
        yield f"  again     {self._again.verify(number)}"
        if len(ids) <= _IDS_TO_TRACE:
            yield f"  look      {self._again.trace(ids, smaller)}"

    def _place(self, row: Sequence[int], found: Difference) -> str:
        index = found.token_index
        if index is not None:
            piece = self._tokenizer.id_to_token(row[index])
            token = f"token {index} ({row[index]} {piece!a})"
        else:
            token = "some token" if found.error else "the end of the stream"
        place = "" if found.position is None else f", character {found.position}"
        stop = "" if found.stop is None else f", with the stop {found.stop!a}"
        prompt = f", after {found.prompt} ids as the prompt" if found.prompt else ""
        return f"{token}{place}{prompt}{stop}"

    @property
    def counts(self) -> dict[str, Any]:
        """What was verified, beside rows."""
        return {
            "rows": self._rows,
            "ids": self._ids,
            "ways": self._streaming.ways,
            "seed": self._seed,
            "unjudged": self._streaming.unjudged,
        }

    def summary(self, differing: int) -> str:
        """What came of it."""
        told = (
            f"{counted(self._rows, 'row')} of {counted(self._ids, 'id')}, streamed in "
            f"{self._streaming.ways} ways (seed {self._seed}): "
            f"{differing:,} with other text than the whole decode"
        )
        if route_of(self._tokenizer) == "window":
            told += (
                "\nthe tokenizer streams over a window of its decode, which is the whole decode "
                "only where 64 ids of context are enough for it"
            )
        if self._streaming.unjudged:
            told += (
                f"\n{counted(self._streaming.unjudged, 'row')} with runs of bytes that are no "
                'UTF-8, where "eager" has other text by design: its ways were compared with each '
                "other"
            )
        return told


def _listed(options: Any) -> str:
    return ", ".join(f"{name}={value}" for name, value in options.items())


def _as_stop(stop: str) -> str:
    """``stop`` as --stop takes it."""
    escaped = stop.replace("\\", "\\\\").replace("\n", "\\n").replace("\t", "\\t")
    return "".join(c if c.isprintable() else _escape(c) for c in escaped)


def _escape(character: str) -> str:
    units = character.encode("utf-16-be").hex()
    return "".join(f"\\u{units[start : start + 4]}" for start in range(0, len(units), 4))


# --- encoders -------------------------------------------------------------------------------------


class _Encoders:
    """Texts, encoded in both ways."""

    def __init__(self, tokenizer: LoadedTokenizer, name: str) -> None:
        if not isinstance(tokenizer, HybridTokenizer):
            found = tokenizer.report.format
            raise UnsupportedFormatError(
                f"{name!r} has one encoder only (its format is {found}): only a tokenizer.json "
                "has two to compare"
            )
        tokenizer.wait()
        say_what_encodes(tokenizer)
        self._tokenizer = tokenizer
        encoder = tokenizer.fast_encoder or _encoder_of(tokenizer)
        self._comparison = comparison.Comparison(tokenizer, encoder)
        self._compared = self._left_out = 0

    def rows(
        self, chunks: Iterable[bytes], row_format: RowFormat, field: str
    ) -> Iterator[tuple[int, IdsOrText]]:
        """The texts of a file, one after another."""
        text_format = "text" if row_format == "ids" else row_format
        for number, row in numbered_texts(chunks, text_format, field):
            yield number, partial(text_of, row)

    def difference(
        self,
        number: int,
        row: list[Any] | str,
        *,
        is_shown: bool,
    ) -> _Told | None:
        """What is said if its ids differ."""
        assert isinstance(row, str), "numbered_texts gives texts"
        guarded = self._tokenizer.report.guarded
        if guarded and guarded in row:
            self._left_out += 1
            return None
        found = self._comparison.difference(row)
        self._compared += 1
        if found is None:
            return None
        return _Told(_described(number, found, self._tokenizer), {"line": number, **asdict(found)})

    @property
    def counts(self) -> dict[str, Any]:
        """What was verified, beside rows."""
        return {"rows": self._compared, "left_out": self._left_out}

    def summary(self, differing: int) -> str:
        """What came of it."""
        told = f"{self._compared} texts compared, {differing} with other ids"
        left = f"; {self._left_out} left out, which huggingface encodes"
        return told + (left if self._left_out else "")


def _encoder_of(loaded: HybridTokenizer) -> FastEncoder:
    """The fast encoder of a file with which it is not trusted."""
    from streamdec.loading.content import content_of

    return FastEncoder(content_of(Path(loaded.name)).decode("utf-8-sig"))


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
