"""``streamdec decode``: token ids in, text out, line by line and live.

What is written is flushed before the next input is waited for, so text appears as ids arrive.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Iterable, Iterator
from io import BufferedReader
from types import TracebackType
from typing import Any, BinaryIO, Protocol, Self

import click

from streamdec.cli.id_input import (
    BadInputError,
    detect_format,
    numbered_lines,
    numbered_words,
    parse_id,
    parse_row,
    without_bom,
)
from streamdec.core.decode_stream import DecodeStream
from streamdec.errors import StreamdecError
from streamdec.loading.factory import load_tokenizer
from streamdec.protocols import Tokenizer

__all__ = ["decode"]

CHUNK_BYTES = 65536
SOME_INPUT_WAS_BAD = 1


@click.command()
@click.option("--tokenizer", required=True, metavar="PATH", help="A tokenizer file or its folder.")
@click.option(
    "--input-format",
    type=click.Choice(["auto", "jsonl", "ids"]),
    default="auto",
    show_default=True,
    help="What FILE holds; auto asks the first line that is not blank.",
)
@click.option(
    "--output",
    type=click.Choice(["text", "jsonl"]),
    default="text",
    show_default=True,
    help="Text and a newline, or an object with 'line', 'text' and the row's other fields.",
)
@click.option(
    "--skip-special-tokens/--keep-special-tokens",
    default=True,
    help="Leave special tokens out (the default), or show them.",
)
@click.option(
    "--byte-runs",
    type=click.Choice(["eager", "exact"]),
    default="eager",
    show_default=True,
    help="Byte-fallback runs: characters as they complete, or as the whole decode has them.",
)
@click.option(
    "--unknown-ids",
    type=click.Choice(["skip", "error", "replace"]),
    default="skip",
    show_default=True,
    help="Ids that the tokenizer does not have.",
)
@click.argument("source", metavar="[FILE]", type=click.File("rb"), default="-")
def decode(
    tokenizer: str,
    input_format: str,
    output: str,
    source: BufferedReader,
    **options: Any,
) -> None:
    """Turn the token ids in FILE (or stdin, "-") into text.

    FILE is JSONL, each line a list of ids or an object with 'token_ids'; or one stream of ids,
    integers with white space or commas between. A bad line (or id, in a stream of ids) is named on
    stderr and left out, and the exit status is then 1.

    \b
    Examples:
      streamdec decode --tokenizer ./model answers.jsonl
      echo "72 9 15" | streamdec decode --tokenizer ./model/tokenizer.json
    """
    loaded = load_tokenizer(tokenizer)
    out = sys.stdout.buffer
    complaints = _Complaints(click.format_filename(getattr(source, "name", "<stdin>")))
    found, chunks = detect_format(without_bom(_chunks(source, out)))
    job = _Job(loaded, options, _OUTPUTS[output](out), complaints)
    job.run(found if input_format == "auto" else input_format, chunks)
    if complaints.lines:
        click.get_current_context().exit(SOME_INPUT_WAS_BAD)


def _chunks(source: BufferedReader, out: BinaryIO) -> Iterator[bytes]:
    """Yield what has arrived at ``source``; ``out`` is flushed before each wait for more."""
    while chunk := source.read1(CHUNK_BYTES):
        yield chunk
        out.flush()


# --- ids to text ----------------------------------------------------------------------------------


class _Job:
    """One file of ids on its way to one output."""

    def __init__(
        self,
        tokenizer: Tokenizer,
        options: dict[str, Any],
        output: _Output,
        complaints: _Complaints,
    ) -> None:
        self._tokenizer = tokenizer
        self._options = options
        self._output = output
        self._complaints = complaints

    def run(self, input_format: str, chunks: Iterable[bytes]) -> None:
        """Decode ``chunks`` of a file in ``input_format``."""
        if input_format == "jsonl":
            self._decode_rows(numbered_lines(chunks))
        else:
            self._decode_stream(numbered_words(chunks))

    def _decode_rows(self, lines: Iterable[tuple[int, bytes]]) -> None:
        for number, line in lines:
            with self._complaints.about(number):
                token_ids, fields = parse_row(line)
                self._output.row(number, self._whole_text(token_ids), fields)

    def _whole_text(self, token_ids: list[Any]) -> str:
        stream = self._new_stream()
        return "".join(stream.step_batch(token_ids)) + stream.flush()

    def _decode_stream(self, lines: Iterable[tuple[int, list[bytes]]]) -> None:
        stream, number = self._new_stream(), 1
        for number, words in lines:
            self._output.piece(number, self._step_words(stream, number, words))
        if stream.num_tokens:
            self._output.last_piece(number, stream.flush())

    def _step_words(self, stream: DecodeStream, number: int, words: list[bytes]) -> str:
        """The text of the ``words`` that are ids; each of the others is a complaint."""
        texts = []
        for word in words:
            with self._complaints.about(number):
                texts.append(stream.step(parse_id(word)))
        return "".join(texts)

    def _new_stream(self) -> DecodeStream:
        return DecodeStream(self._tokenizer, **self._options)


class _Complaints:
    """Says on stderr what is wrong with a line, once for each line, and counts these lines."""

    def __init__(self, source_name: str) -> None:
        self.lines = 0
        self._source_name = source_name
        self._line = self._last_named = 0

    def about(self, line: int) -> Self:
        """A context in which an error of the input is a complaint about ``line``."""
        self._line = line
        return self

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> bool:
        if not isinstance(error, BadInputError | StreamdecError):
            return False
        if self._line != self._last_named:
            self._last_named = self._line
            self.lines += 1
            click.echo(f"{self._source_name}: line {self._line}: {error}", err=True)
        return True


# --- text to output -------------------------------------------------------------------------------


class _Output(Protocol):
    """Takes whole rows, or the pieces of one stream."""

    def row(self, line: int, text: str, fields: dict[str, Any]) -> None:
        """Write the whole text of ``line``, which had other ``fields``."""
        ...

    def piece(self, line: int, text: str) -> None:
        """Write what the ids of ``line`` added to the stream."""
        ...

    def last_piece(self, line: int, text: str) -> None:
        """Write what the end of the stream released, and end it."""
        ...


class _TextOutput:
    """Text as UTF-8; a newline after each row, and after the stream."""

    def __init__(self, out: BinaryIO) -> None:
        self._out = out

    def row(self, line: int, text: str, fields: dict[str, Any]) -> None:
        self._out.write(f"{text}\n".encode())

    def piece(self, line: int, text: str) -> None:
        self._out.write(text.encode())

    def last_piece(self, line: int, text: str) -> None:
        self._out.write(f"{text}\n".encode())


class _JsonlOutput:
    """An object for each row; of a stream, for each line (or part of one) that brought out text."""

    def __init__(self, out: BinaryIO) -> None:
        self._out = out

    def row(self, line: int, text: str, fields: dict[str, Any]) -> None:
        ours = {"line": line, "text": text}
        self._out.write(_json_line(ours | fields | ours))

    def piece(self, line: int, text: str) -> None:
        if text:
            self.row(line, text, {})

    def last_piece(self, line: int, text: str) -> None:
        self.piece(line, text)


def _json_line(row: dict[str, Any]) -> bytes:
    """``row`` as UTF-8 JSON and a newline; escaped where a kept field holds a lone surrogate."""
    try:
        return json.dumps(row, ensure_ascii=False).encode() + b"\n"
    except UnicodeEncodeError:
        return json.dumps(row).encode() + b"\n"


_OUTPUTS: dict[str, Callable[[BinaryIO], _Output]] = {"text": _TextOutput, "jsonl": _JsonlOutput}
