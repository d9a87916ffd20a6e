"""DecodeStream: token ids in, text out, one id at a time."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, SupportsIndex, final

from streamdec.core.byte_table import ByteTable
from streamdec.core.conditions import NO_CONDITIONS
from streamdec.core.decode_options import ByteFallbackMode, Options, UnknownIds
from streamdec.core.decoder import TokenDecoder
from streamdec.core.examining import end_unfollowed, release
from streamdec.core.step import feed_function, step_all, step_function
from streamdec.protocols import Decoder

__all__ = ["DecodeStream"]


@final
class DecodeStream(TokenDecoder):
    r"""Turn token ids into text as they arrive.

    The texts of all steps and of ``flush``, joined, equal ``tokenizer.decode`` of all ids. Only the
    bytes of an unfinished character are withheld, at most three (and, with
    ``byte_fallback="exact"``, an open run of byte tokens). Bytes that are not UTF-8 become one
    U+FFFD for each maximal part of a character (Unicode Standard, section 3.9, *U+FFFD Substitution
    of Maximal Subparts*).

    Args:
        tokenizer: a Tokenizer of streamdec, such as ``load_tokenizer`` returns, or any object with
            ``decode(ids, skip_special_tokens=...)`` (see :mod:`streamdec.protocols`). Only the
            former, and objects with ``rules``, take the exact and faster bytes route.
        prompt_token_ids: ids that came before, used as context and never output. Only the
            necessary ids at the end are read, and none is kept. Unknown ids raise no error.
        skip_special_tokens: leave special tokens out, as the tokenizer's own ``decode`` does.
        byte_fallback: for tokenizers with byte tokens such as ``<0xE4>``. ``"eager"`` outputs each
            character as soon as it is complete, and one U+FFFD for each invalid byte. ``"exact"``
            withholds a run of byte tokens until another token follows, and outputs what the
            ``tokenizers`` library does: one invalid byte turns the whole run into U+FFFD.
        unknown_ids: what to do with ids that the tokenizer does not have (padded vocabularies make
            them normal). ``"skip"`` outputs nothing and counts them, ``"error"`` raises
            TokenIdError, ``"replace"`` outputs U+FFFD. On the windowed route ``"replace"`` raises
            ValueError, ``"error"`` needs a tokenizer with ``piece``, and without ``piece`` unknown
            ids are not counted.
        clean_up_tokenization_spaces: apply the clean-up of ``transformers`` to the text: remove the
            space before punctuation and English contractions.
        spans: record where each token stands in the text, for ``take_spans()``. Raises ValueError
            with the clean-up, for a tokenizer that replaces text, and on the windowed route.

    Raises:
        ValueError: an option has an unknown value, or one that this tokenizer or another option
            does not allow.
        TypeError: a flag is not a bool, the prompt is not a list of ids, or the tokenizer has no
            ``decode``.
        TokenIdError: a prompt id (among those that are read) is not a token id.

    The first stream of a tokenizer compares the text of a few hundred ids with ``decode``. If they
    differ, it warns (StreamdecWarning), and all its streams use the windowed route.

    **Cost** does not grow with the stream. On the bytes route a token is computed once and then
    looked up; on the windowed route each step decodes at most 64 ids, more than once.

    **Memory.** A stream takes some 350 bytes, about 5 KB on the windowed route. All streams of a
    tokenizer share its table: some 350 bytes for each id that was decoded, and at most 13 MB.

    **Threads.** Use a stream in one thread at a time. Other streams may run in other threads.

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
        self._begin(tokenizer, options, NO_CONDITIONS, prompt_token_ids, spans=spans)

    if TYPE_CHECKING:

        def step(self, token_id: SupportsIndex) -> str:
            """Return the text that ``token_id`` completes."""

        def feed(self, token_ids: Iterable[SupportsIndex]) -> str:
            """Return the text that all of ``token_ids`` complete."""

    else:
        step = step_function(returns_text=True)
        feed = feed_function(returns_text=True)

    def step_batch(self, token_ids: Iterable[SupportsIndex]) -> list[str]:
        r"""Return a list of the text that each token completes; "" for no text.

        Args:
            token_ids: as for ``feed``. The result is that of a ``step`` for each.

        Raises what ``feed`` raises.

        >>> from streamdec import DecodeStream, MockTokenizer
        >>> stream = DecodeStream(MockTokenizer.from_tokens([b"caf", b"\xc3", b"\xa9"]))
        >>> stream.step_batch([0, 1, 2])
        ['caf', '', 'é']
        """
        return step_all(self.step, token_ids)

    def flush(self) -> str:
        """End the stream, and return the text that was held.

        An unfinished character becomes U+FFFD, one for each maximal part. A second ``flush``
        returns "". Raises RewriteError as ``step`` does.
        """
        return "" if self.finished else end_unfollowed(self, "length").text

    def release(self) -> str:
        r"""Return the text of the held bytes; the stream continues.

        Use it if more input is appended to the text while the stream runs. An unfinished character
        becomes U+FFFD, and an open run of byte tokens closes. Raises FinishedError after ``flush``.

        >>> from streamdec import DecodeStream, MockTokenizer
        >>> stream = DecodeStream(MockTokenizer.from_tokens([b"caf", b"\xc3", b"\xa9"]))
        >>> stream.step_batch([0, 1]), stream.release(), stream.step(0)
        (['caf', ''], '\ufffd', 'caf')
        """
        return release(self).text

    # --- bytes

    def step_bytes(self, token_id: SupportsIndex) -> bytes:
        r"""Do a ``step``, and return the raw bytes that ``token_id`` outputs.

        They include the bytes of unfinished characters, but none of the prompt, except those of an
        unfinished character in an open run with ``byte_fallback="exact"``. The clean-up does not
        apply.

        Raises what ``step`` raises, and ValueError on the windowed route.

        >>> from streamdec import DecodeStream, MockTokenizer
        >>> stream = DecodeStream(MockTokenizer.from_tokens([b"caf", b"\xc3", b"\xa9"]))
        >>> stream.step_bytes(0), stream.step_bytes(1), stream.flush_bytes()
        (b'caf', b'\xc3', b'')
        """
        table, state = self._bytes_table("step_bytes()"), self._row.state
        self.step(token_id)
        element = table.rule.elements[token_id.__index__()]
        return b"" if element is None else b"".join(table.rule.advance(state[0], element)[:2])

    def flush_bytes(self) -> bytes:
        """End the stream; return the bytes that ``step_bytes`` has not returned yet.

        Usually b"". Only bytes that wait for the next token are left, such as an open run under
        ``byte_fallback="exact"``. Raises ValueError on the windowed route.
        """
        table = self._bytes_table("flush_bytes()")
        data = b"" if self.finished else table.rule.release(self._row.state[0])[0]
        self.flush()
        return data

    def _bytes_table(self, what: str) -> ByteTable:
        if isinstance(self._table, ByteTable):
            return self._table
        raise ValueError(f"{what} needs the bytes route; this stream decodes over a window of text")
