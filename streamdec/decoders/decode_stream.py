"""DecodeStream: token ids in, text out, one id at a time."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, SupportsIndex

from streamdec.decoders.machine import Machine, note_taken
from streamdec.decoders.step import step_function
from streamdec.protocols import Decoder
from streamdec.stops.conditions import NO_CONDITIONS
from streamdec.tables.byte_table import ByteTable
from streamdec.tables.decode_options import ByteFallbackMode, Options, UnknownIds
from streamdec.tables.provenance import Contribution
from streamdec.tables.shared_tables import table_for
from streamdec.tables.token_ids import as_sequence

__all__ = ["DecodeStream"]


class DecodeStream(Machine):
    r"""Turns token ids into text as they come; the chunks joined are the full decode.

    Only unfinished characters are withheld: three bytes at most (and, with
    ``byte_fallback="exact"``, an open run of byte tokens). Bytes that are not UTF-8 become one
    U+FFFD for each maximal part of a character, as the Unicode Standard advises (section 3.9,
    *U+FFFD Substitution of Maximal Subparts*); those of byte-fallback tokens as ``byte_fallback``
    says.

    Args:
        tokenizer: what decodes; see :mod:`streamdec.protocols`. Any object with
            ``decode(ids, skip_special_tokens=...)`` will do; a backend makes it exact and fast.
        prompt_token_ids: ids that came before, used as context and never output. They are read from
            the end, only the necessary ones, and not kept. Unknown ids among them never raise.
        skip_special_tokens: leave special tokens out, as the tokenizer's own ``decode`` does.
        byte_fallback: for tokenizers with byte fallback. ``"eager"`` outputs characters as they
            complete and one U+FFFD for each bad byte; ``"exact"`` withholds an open run of byte
            tokens and renders it as the ``tokenizers`` library does, where one bad byte spoils the
            run.
        unknown_ids: what to do with ids that the tokenizer does not have (padded vocabularies make
            them normal). ``"skip"`` outputs nothing and counts them, ``"error"`` raises
            TokenIdError, ``"replace"`` outputs U+FFFD. The windowed route has ``"skip"``
            alone, without the count.
        clean_up_tokenization_spaces: apply the clean-up of ``transformers`` to the text.
        spans: record where each token stands in the text, for ``take_spans()``. Not together with
            the clean-up, nor on the windowed route.

    Raises:
        ValueError: an option has a value that does not exist, or that this tokenizer or another
            option does not allow.
        TypeError: a flag is not a bool, the prompt is not a list of ids, or the tokenizer has no
            ``decode``.
        TokenIdError: a prompt id (among those that are read) is not a token id.

    **Cost.** What a token does is computed once and then looked up (:mod:`streamdec.tables.table`).
    On the windowed route a step decodes windows of 64 ids at most. Either way its cost does not
    grow with the stream. The first stream of a tokenizer compares a few hundred ids with
    ``decode``; where they differ it warns (StreamdecWarning) and uses the windowed route.

    **Memory.** A stream takes some 350 bytes for any length; 1.5 KB on the windowed route.
    What was computed lives with the tokenizer and is shared by all its streams: some 350 bytes for
    each id of the vocabulary that was met, and at most 65,536 entries of 200 bytes for unfinished
    characters.

    **Threads.** One thread at a time; streams of one tokenizer may run in any number of threads.

    >>> from streamdec import DecodeStream, MockTokenizer
    >>> stream = DecodeStream(MockTokenizer.from_tokens([b"caf", b"\xc3", b"\xa9", b"!"]))
    >>> [stream.step(token_id) for token_id in (0, 1, 2, 3)]
    ['caf', '', 'é', '!']
    """

    __slots__ = ()

    _kind = "decode_stream"

    def __init__(
        self,
        tokenizer: Decoder,
        prompt_token_ids: Iterable[SupportsIndex] = (),
        *,
        skip_special_tokens: bool = True,
        byte_fallback: ByteFallbackMode = "eager",
        unknown_ids: UnknownIds = "skip",
        clean_up_tokenization_spaces: bool = False,
        spans: bool = False,
    ) -> None:
        options = Options(
            skip_special_tokens, byte_fallback, unknown_ids, clean_up_tokenization_spaces
        )
        table = table_for(tokenizer, options)
        self._begin(tokenizer, table, NO_CONDITIONS, prompt_token_ids, spans=spans)

    if TYPE_CHECKING:

        def step(self, token_id: SupportsIndex) -> str:
            """Return the text that ``token_id`` completes."""

    else:
        step = step_function(returns_text=True)

    def step_batch(self, token_ids: Iterable[SupportsIndex]) -> list[str]:
        r"""Return the text of each of ``token_ids``, one entry a token (which may be "").

        Args:
            token_ids: a list, an array or tensor of one dimension, or any other ordered iterable,
                which is read to its end first. The result is that of a ``step`` for each.

        Raises what ``step`` raises, and TypeError for what is not a list of ids; ``error.chunk`` is
        then the text of the tokens before, ``error.num_taken`` their number, and the stream is as
        it was after them.

        >>> from streamdec import DecodeStream, MockTokenizer, TokenIdError
        >>> stream = DecodeStream(MockTokenizer.from_tokens([b"caf", b"\xc3", b"\xa9"]))
        >>> try:
        ...     stream.step_batch([0, 1, "é"])
        ... except TokenIdError as error:
        ...     error.chunk.text, error.num_taken, stream.held
        ('caf', 2, b'\xc3')
        """
        texts: list[str] = []
        try:
            if type(token_ids) is list and len(token_ids) == 1:
                return [self.step(token_ids[0])]  # twice as fast as the loop
            step = self.step
            for token_id in as_sequence(token_ids):
                texts.append(step(token_id))  # noqa: PERF401 (an error needs those before it)
        except Exception as error:
            note_taken(error, texts)
            raise
        return texts

    def flush(self) -> str:
        """End the stream, and return the text that was withheld.

        An unfinished character becomes U+FFFD, one for each maximal part. A second ``flush``
        returns "". Raises RewriteError as ``step`` does.
        """
        return "" if self.finished else self.end().text

    def release(self) -> str:
        r"""Return the text of what is held; the stream continues.

        An unfinished character becomes U+FFFD, and an open run of byte tokens closes. For input
        that is appended to while the stream runs. Raises FinishedError after ``flush``.

        >>> from streamdec import DecodeStream, MockTokenizer
        >>> stream = DecodeStream(MockTokenizer.from_tokens([b"caf", b"\xc3", b"\xa9"]))
        >>> stream.step_batch([0, 1]), stream.release(), stream.step(0)
        (['caf', ''], '\ufffd', 'caf')
        """
        return self._release().text

    # --- bytes

    def step_bytes(self, token_id: SupportsIndex) -> bytes:
        r"""Do a ``step``, and return the raw bytes that ``token_id`` outputs.

        They include the bytes of unfinished characters. Bytes of the prompt are among them only
        under ``byte_fallback="exact"``, if the prompt ended in an open run: those of its unfinished
        character. Text replacements (clean-up) do not apply to bytes.

        Raises what ``step`` raises, and ValueError on the windowed route.

        >>> from streamdec import DecodeStream, MockTokenizer
        >>> stream = DecodeStream(MockTokenizer.from_tokens([b"caf", b"\xc3", b"\xa9"]))
        >>> stream.step_bytes(0), stream.step_bytes(1), stream.flush_bytes()
        (b'caf', b'\xc3', b'')
        """
        table = self._bytes_table("step_bytes()")
        state = table.state(self._row)
        self.step(token_id)
        return table.contribution(state, token_id.__index__()).data

    def flush_bytes(self) -> bytes:
        """Do a ``flush`` after ``step_bytes``, and return the bytes that ``step_bytes`` did not.

        Usually b"". Only bytes that wait for the next token are left, such as an open run under
        ``byte_fallback="exact"``. Raises ValueError on the windowed route.
        """
        table = self._bytes_table("flush_bytes()")
        data = b"" if self.finished else table.rule.flush(table.state(self._row)[0])
        self.flush()
        return data

    def contribution(self, token_id: int) -> Contribution:
        """Return the bytes that ``token_id`` would output now, and the tokens that they belong to.

        Raises ValueError on the windowed route.
        """
        table = self._bytes_table("contribution()")
        return table.contribution(table.state(self._row), token_id)

    @property
    def num_waiting(self) -> int:
        """How many of the last tokens still have bytes to output.

        Raises ValueError on the windowed route.
        """
        table = self._bytes_table("num_waiting")
        return table.rule.waiting(table.state(self._row)[0])

    def _bytes_table(self, what: str) -> ByteTable:
        if isinstance(self._table, ByteTable):
            return self._table
        raise ValueError(f"{what} needs the bytes route; this stream decodes over a window of text")
