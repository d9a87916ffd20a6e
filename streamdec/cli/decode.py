"""``streamdec decode``: decode token ids into text, line by line and live.

Output is flushed before each wait for more input, so text appears as ids arrive.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable, Iterator
from io import BufferedReader
from typing import Any, TypeVar

import click

from streamdec.cli.loading import Loader, loading_options, tokenizer_option
from streamdec.cli.progress import Progress, counted, say
from streamdec.cli.rows import (
    Input,
    InputFormat,
    column_option,
    input_format_option,
    numbered_words,
    prefix_option,
    source_argument,
)
from streamdec.cli.shared_options import check_options, decoding_options
from streamdec.cli.stop_options import RAN_OUT, cause_of_end, stop_options
from streamdec.core.byte_table import ByteTable
from streamdec.core.conditions import StopConditions
from streamdec.core.decode_options import Options
from streamdec.core.shared_tables import table_for
from streamdec.core.stop_sequence_decoder import StopSequenceDecoder
from streamdec.errors import TokenIdError
from streamdec.protocols import ByteFallback, Tokenizer

Line = TypeVar("Line")


@click.command()
@tokenizer_option
@loading_options
@input_format_option("ids")
@column_option("token_ids", "the token ids")
@click.option(
    "--output",
    type=click.Choice(["text", "jsonl"]),
    default="text",
    show_default=True,
    help="text: the text and a newline. jsonl: for each row an object with 'line' (its number, "
    "unless the row has this field), 'text' and the row's other fields; for plain ids, an object "
    "for each piece of text.",
)
@prefix_option
@decoding_options
@stop_options
@source_argument
def decode(
    tokenizer: str,
    input_format: InputFormat | None,
    column: str,
    output: str,
    prefix: str,
    source: BufferedReader,
    load: Loader,
    conditions: StopConditions,
    options: dict[str, Any],
) -> None:
    """Decode the token ids in FILE (or stdin, "-"): write their text.

    FILE contains the token ids of one text, with white space or commas between; or JSONL, each line
    a list of ids or an object with the field --column. A bad line, or a bad plain id, is named on
    stderr and left out. The exit status is then 1. After 20 messages, bad lines are only counted.

    With --output jsonl, the other fields of a row are copied exactly as they are written. A row
    that already has a field with the name of a new one is a bad line; see --prefix. If the ids are
    null, so is the text (an empty line in plain text). A last line on stderr counts ids that the
    tokenizer does not have; --unknown-ids error names them.

    --stop and the options after it say where a text ends. Each row of JSONL ends at its own stop.
    For plain ids, reading ends at the stop. With these options, --output jsonl adds two fields to
    each row, and to the last object of plain ids: 'finish_reason' ("stop"; "length" for
    --max-tokens; null if the ids ended first) and 'stop_reason' (the stop: its text, pattern or id;
    null for --eos-id). A row also has 'unread_tokens', the number of ids after its end.

    \b
    Examples:
      echo "72 9 15" | streamdec decode --tokenizer ./model/tokenizer.json
      streamdec decode --tokenizer ./model answers.jsonl
      engine | streamdec decode --tokenizer ./model --stop '\\nUser:' --eos-id 2
    """
    # This command does not encode, so it does not build the fast encoder.
    loaded = load(tokenizer, fast="off")
    check_options(loaded, options)
    given = Input(source, input_format, "ids")
    job = _Job(loaded, conditions, options, given, column, None if output == "text" else prefix)
    with Progress.beside_output() as progress:
        cause = job.run(progress)
    sys.stdout.buffer.flush()
    if cause is not None and output == "text":
        say(f"{given.name}: ended by {cause}; later ids are not read")
    if job.unknown_ids:
        had = "U+FFFD" if options["unknown_ids"] == "replace" else "no text"
        say(
            f"{given.name}: {counted(job.unknown_ids, 'unknown id')}, with {had}; to name them, "
            "pass --unknown-ids error"
        )
    given.complaints.exit_if_any()


# --- ids to text ----------------------------------------------------------------------------------


class _Job:
    """Decodes one file of ids into one output."""

    def __init__(
        self,
        tokenizer: Tokenizer,
        conditions: StopConditions,
        options: dict[str, Any],
        given: Input,
        column: str,
        prefix: str | None,
    ) -> None:
        """``prefix`` comes before the names of new fields; with None the output is text."""
        self._tokenizer = tokenizer
        self._conditions = conditions
        self._options = options
        self._given = given
        self._column = column
        self._is_text = prefix is None
        self._prefix = prefix or ""
        self._num_words = 0
        self.unknown_ids = 0
        """The ids, of the rows that were decoded, that the tokenizer does not have."""
        self._table = None if conditions != StopConditions() else _whole_rows(tokenizer, options)
        self._known: set[int] = set()
        """Ids of earlier rows that the tokenizer has."""
        self._out = sys.stdout.buffer

    def run(self, progress: Progress) -> str | None:
        """Decode the file; return the stop that ended its stream early, if there was one."""
        if self._given.format == "jsonl":
            self._decode_rows(_told(self._given.rows(), progress))
            return None
        return self._decode_stream(_told(numbered_words(self._given.chunks), progress))

    def _decode_rows(self, rows: Iterable[tuple[int, bytes]]) -> None:
        for number, row in rows:
            with self._given.complaints.about(number):
                token_ids = self._given.parse_row(row, self._column, list)
                if token_ids is None:
                    self._write(number, None, self._no_end(), row)
                    continue
                whole = self._whole_text(token_ids)
                if whole is not None:
                    self._write(number, whole, {}, row)
                    continue
                stream = self._new_stream()
                chunk = stream.feed(token_ids)
                text = chunk.text + stream.flush(RAN_OUT).text
                end = self._end(stream, unread_tokens=chunk.unread_tokens)
                self._write(number, text, end, row)
                self.unknown_ids += stream.unknown_tokens

    def _whole_text(self, token_ids: list[Any]) -> str | None:
        """Decode a row with the tokenizer's own ``decode``; None if a stream must do it.

        A stream names bad ids, logs unknown ones, and decodes bad runs of byte tokens differently.
        """
        if self._table is None or not {int}.issuperset(map(type, token_ids)):
            return None
        if not self._known.issuperset(token_ids):
            new = set(token_ids) - self._known
            if not all(map(self._table.knows, new)):
                return None
            self._known |= new
        skip = self._options["skip_special_tokens"]
        text = self._tokenizer.decode(token_ids, skip_special_tokens=skip)
        rules = self._tokenizer.rules
        has_runs = rules is not None and isinstance(rules.rule, ByteFallback)
        return None if has_runs and "\ufffd" in text else text

    def _decode_stream(self, lines: Iterable[tuple[int, list[bytes]]]) -> str | None:
        stream, number = self._new_stream(), 1
        for number, words in lines:
            self._write_piece(number, self._step_words(stream, number, words))
            if stream.finished:
                break
        self.unknown_ids = stream.unknown_tokens
        cause = cause_of_end(stream) if stream.finished else None
        if stream.num_tokens:
            text, end = stream.flush(RAN_OUT).text, self._end(stream)
            # Do not write an object without text, unless it has the end.
            if self._is_text or text or end:
                self._write(number, text, end)
        return cause

    def _step_words(self, stream: StopSequenceDecoder, number: int, words: list[bytes]) -> str:
        """Return the text of the ``words`` that are ids, and report the other words."""
        texts = []
        for word in words:
            place, self._num_words = self._num_words, self._num_words + 1
            with self._given.complaints.about(number):
                try:
                    chunk = stream.step(self._given.parse_id(word, place))
                except TokenIdError as error:
                    # The stream has not counted earlier bad ids.
                    raise error.at(place) from None
                texts.append(chunk.text)
                if chunk.finish_reason is not None:
                    break
        return "".join(texts)

    def _write_piece(self, line: int, text: str) -> None:
        """Write the new text of the ids of ``line``; the stream continues."""
        if self._is_text:
            self._out.write(text.encode())
        elif text:
            self._write(line, text, {})

    def _write(self, line: int, text: str | None, end: dict[str, Any], row: bytes = b"") -> None:
        """Write the text of a ``row``, or the rest of the stream of plain ids."""
        if self._is_text:
            self._out.write(f"{text or ''}\n".encode())
            return
        new = {"text": text, **end}
        self._out.write(self._given.output_line(line, row, self._column, new, self._prefix))

    def _new_stream(self) -> StopSequenceDecoder:
        return StopSequenceDecoder(self._tokenizer, self._conditions, **self._options)

    def _no_end(self) -> dict[str, Any]:
        """Return the fields for the end of a row without ids, if stops were given."""
        if self._conditions == StopConditions():
            return {}
        return dict.fromkeys(("finish_reason", "stop_reason", "unread_tokens"))

    def _end(self, stream: StopSequenceDecoder, **more: Any) -> dict[str, Any]:
        """Return the fields for the end of ``stream``, and ``more``, if stops were given."""
        if self._conditions == StopConditions():
            return {}
        reason, match = stream.finish_reason, stream.match
        return {
            "finish_reason": None if reason == RAN_OUT else reason,
            "stop_reason": match and match.stop,
            **more,
        }


def _whole_rows(tokenizer: Tokenizer, options: dict[str, Any]) -> ByteTable | None:
    """Return the table of ``tokenizer`` if its ``decode`` gives the text of a stream."""
    table = table_for(tokenizer, Options(**options))
    return table if isinstance(table, ByteTable) else None


def _told(lines: Iterable[tuple[int, Line]], progress: Progress) -> Iterator[tuple[int, Line]]:
    for number, line in lines:
        yield number, line
        progress(f"line {number:,}")
