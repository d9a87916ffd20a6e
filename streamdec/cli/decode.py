"""``streamdec decode``: token ids in, text out, line by line and live.

What is written is flushed before the next input is waited for, so text appears as ids arrive.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Iterator
from io import BufferedReader
from typing import Any, BinaryIO, Protocol, TypeVar

import click

from streamdec.cli.decoding import decoding_options, input_format_option
from streamdec.cli.id_input import (
    detect_format,
    numbered_lines,
    numbered_words,
    parse_id,
    parse_row,
    without_bom,
)
from streamdec.cli.loading import Loader, loading_options, tokenizer_option
from streamdec.cli.progress import Progress, say
from streamdec.cli.rows import SOME_INPUT_WAS_BAD, Complaints, chunks_of, json_line
from streamdec.cli.stops import RAN_OUT, cause_of_end, stop_options
from streamdec.core.stop_sequence_decoder import StopSequenceDecoder
from streamdec.core.stops.conditions import StopConditions
from streamdec.protocols import Tokenizer

__all__ = ["decode"]

Line = TypeVar("Line")


@click.command()
@tokenizer_option
@loading_options
@input_format_option
@click.option(
    "--output",
    type=click.Choice(["text", "jsonl"]),
    default="text",
    show_default=True,
    help="Text and a newline, or an object with 'line', 'text' and the row's other fields.",
)
@decoding_options
@stop_options
@click.argument("source", metavar="[FILE]", type=click.File("rb"), default="-")
def decode(
    tokenizer: str,
    input_format: str,
    output: str,
    source: BufferedReader,
    load: Loader,
    conditions: StopConditions,
    **options: Any,
) -> None:
    """Turn the token ids in FILE (or stdin, "-") into text.

    FILE is JSONL, each line a list of ids or an object with 'token_ids'; or one stream of ids,
    integers with white space or commas between. A bad line (or id, in a stream of ids) is named on
    stderr and left out, and the exit status is then 1.

    --stop and the options after it say where a text ends: the text of each row; or the stream of
    ids, and the command with it, which reads no further. With --output jsonl the row, or the last
    object of the stream, then has 'finish_reason' ("stop"; "length" for --max-tokens; null if the
    ids ended first) and 'stop_reason' (the stop's text or id); a row also has 'unread_tokens', how
    many ids came after its end.

    \b
    Examples:
      streamdec decode --tokenizer ./model answers.jsonl
      echo "72 9 15" | streamdec decode --tokenizer ./model/tokenizer.json
      engine | streamdec decode --tokenizer ./model --stop '\\nUser:' --eos-id 2
    """
    # Nothing is encoded here, so nothing is built for it.
    loaded = load(tokenizer, fast="off")
    out = sys.stdout.buffer
    source_name = click.format_filename(getattr(source, "name", "<stdin>"))
    complaints = Complaints(source_name)
    found, chunks = detect_format(without_bom(chunks_of(source, out)))
    job = _Job(loaded, conditions, options, _OUTPUTS[output](out), complaints)
    with Progress.beside_output() as progress:
        cause = job.run(found if input_format == "auto" else input_format, chunks, progress)
    out.flush()
    if cause is not None and output == "text":
        say(f"{source_name}: ended by {cause}; nothing after it is read")
    if complaints.count:
        click.get_current_context().exit(SOME_INPUT_WAS_BAD)


# --- ids to text ----------------------------------------------------------------------------------


class _Job:
    """One file of ids on its way to one output."""

    def __init__(
        self,
        tokenizer: Tokenizer,
        conditions: StopConditions,
        options: dict[str, Any],
        output: _Output,
        complaints: Complaints,
    ) -> None:
        self._tokenizer = tokenizer
        self._conditions = conditions
        self._options = options
        self._output = output
        self._complaints = complaints

    def run(self, input_format: str, chunks: Iterable[bytes], progress: Progress) -> str | None:
        """Decode ``chunks`` of a file in ``input_format``; what ended it before its end, if any."""
        if input_format == "jsonl":
            self._decode_rows(_told(numbered_lines(chunks), progress))
            return None
        return self._decode_stream(_told(numbered_words(chunks), progress))

    def _decode_rows(self, lines: Iterable[tuple[int, bytes]]) -> None:
        for number, line in lines:
            with self._complaints.about(number):
                token_ids, fields = parse_row(line)
                stream = self._new_stream()
                chunk = stream.step_batch(token_ids)
                text = chunk.text + stream.flush(RAN_OUT).text
                end = self._end(stream, unread_tokens=chunk.unread_tokens)
                self._output.row(number, text, fields, end)

    def _decode_stream(self, lines: Iterable[tuple[int, list[bytes]]]) -> str | None:
        stream, number = self._new_stream(), 1
        for number, words in lines:
            self._output.piece(number, self._step_words(stream, number, words))
            if stream.finished:
                break
        cause = cause_of_end(stream) if stream.finished else None
        if stream.num_tokens:
            text = stream.flush(RAN_OUT).text
            self._output.last_piece(number, text, self._end(stream))
        return cause

    def _step_words(self, stream: StopSequenceDecoder, number: int, words: list[bytes]) -> str:
        """The text of the ``words`` that are ids; each of the others is a complaint."""
        texts = []
        for word in words:
            with self._complaints.about(number):
                chunk = stream.step(parse_id(word))
                texts.append(chunk.text)
                if chunk.finish_reason is not None:
                    break
        return "".join(texts)

    def _new_stream(self) -> StopSequenceDecoder:
        return StopSequenceDecoder(self._tokenizer, self._conditions, **self._options)

    def _end(self, stream: StopSequenceDecoder, **more: Any) -> dict[str, Any]:
        """Why ``stream`` ended, and ``more`` about it: fields for those who asked for stops."""
        if self._conditions == StopConditions():
            return {}
        reason, match = stream.finish_reason, stream.match
        return {
            "finish_reason": None if reason == RAN_OUT else reason,
            "stop_reason": match and match.stop,
            **more,
        }


def _told(lines: Iterable[tuple[int, Line]], progress: Progress) -> Iterator[tuple[int, Line]]:
    for number, line in lines:
        yield number, line
        progress(f"line {number:,}")


# --- text to output -------------------------------------------------------------------------------


class _Output(Protocol):
    """Takes whole rows, or the pieces of one stream."""

    def row(self, line: int, text: str, fields: dict[str, Any], end: dict[str, Any]) -> None:
        """Write the whole text of ``line``, which had other ``fields``; ``end``: why it ended."""
        ...

    def piece(self, line: int, text: str) -> None:
        """Write what the ids of ``line`` added to the stream."""
        ...

    def last_piece(self, line: int, text: str, end: dict[str, Any]) -> None:
        """Write what the end of the stream released, and end it; ``end``: why."""
        ...


class _TextOutput:
    """Text as UTF-8; a newline after each row, and after the stream."""

    def __init__(self, out: BinaryIO) -> None:
        self._out = out

    def row(self, line: int, text: str, fields: dict[str, Any], end: dict[str, Any]) -> None:
        self._out.write(f"{text}\n".encode())

    def piece(self, line: int, text: str) -> None:
        self._out.write(text.encode())

    def last_piece(self, line: int, text: str, end: dict[str, Any]) -> None:
        self._out.write(f"{text}\n".encode())


class _JsonlOutput:
    """An object for each row; of a stream, for each line (or part of one) that brought out text.

    Its last object, which may bring out none, has the end.
    """

    def __init__(self, out: BinaryIO) -> None:
        self._out = out

    def row(self, line: int, text: str, fields: dict[str, Any], end: dict[str, Any]) -> None:
        ours = {"line": line, "text": text, **end}
        self._out.write(json_line(ours | fields | ours))

    def piece(self, line: int, text: str) -> None:
        if text:
            self.row(line, text, {}, {})

    def last_piece(self, line: int, text: str, end: dict[str, Any]) -> None:
        if text or end:
            self.row(line, text, {}, end)


_OUTPUTS: dict[str, Callable[[BinaryIO], _Output]] = {"text": _TextOutput, "jsonl": _JsonlOutput}
