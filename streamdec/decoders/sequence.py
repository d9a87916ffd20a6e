"""Sequence: a growing list of token ids with its text."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, Never, Self, SupportsIndex, cast, final

from streamdec.chunks import Chunk, FinishReason, Withheld
from streamdec.decoders import snapshots
from streamdec.decoders.copies import Copyable
from streamdec.decoders.decode_stream import DecodeStream
from streamdec.decoders.mistakes import check_restoring, unknown_decoder_option
from streamdec.errors import TokenIdError
from streamdec.protocols import Decoder, Encoder
from streamdec.tables.decode_options import ByteFallbackMode, Options, Route, UnknownIds
from streamdec.tables.token_ids import as_sequence

__all__ = ["Sequence"]

FIRST_LOOK_BACK = 64
"""How many tokens before a cut are stepped again to know its offsets, at first."""


@final
class Sequence(Copyable):
    """A list of token ids with its text; ids can be appended and cut off at the end.

    It is a DecodeStream that keeps all ids and the text of each. It has no ``flush``, so the bytes
    of an unfinished character stay withheld until more ids come or ``release`` is called.

    Args:
        tokenizer: what decodes (and, for ``append_text``, encodes).
        token_ids: the first ids; their text is part of ``text``.
        skip_special_tokens: as for DecodeStream, but False by default.
        byte_fallback: as for DecodeStream.
        unknown_ids: as for DecodeStream.
        clean_up_tokenization_spaces: as for DecodeStream.
        others: not accepted. The TypeError says what to write instead.

    Raises what DecodeStream raises, and for ``token_ids`` what ``append_tokens`` raises.

    **Memory** grows by some 25 bytes for each token: a reference to its id and one to its text.
    Equal texts are shared. **Cost** and **threads** are as for DecodeStream.

    >>> from streamdec import MockTokenizer, Sequence
    >>> sequence = Sequence(MockTokenizer(), [1])
    >>> sequence.append_text("world test")
    ' world test'
    >>> sequence.text, sequence.token_ids
    ('Hello world test', [1, 2, 3])
    >>> sequence.truncate(1)
    >>> sequence.text
    'Hello'
    """

    __slots__ = ("_characters_before", "_ids", "_releases", "_stream", "_texts", "_unknown_before")

    def __init__(
        self,
        tokenizer: Decoder,
        token_ids: Iterable[SupportsIndex] = (),
        *,
        skip_special_tokens: bool = False,
        byte_fallback: ByteFallbackMode = "eager",
        unknown_ids: UnknownIds = "skip",
        clean_up_tokenization_spaces: bool = False,
        **others: Never,
    ) -> None:
        if others:
            raise unknown_decoder_option("Sequence", others, "token_ids")
        self._stream = DecodeStream(
            tokenizer,
            skip_special_tokens=skip_special_tokens,
            byte_fallback=byte_fallback,
            unknown_ids=unknown_ids,
            clean_up_tokenization_spaces=clean_up_tokenization_spaces,
        )
        self._ids: list[int] = []
        self._texts: list[str] = []
        self._releases: list[int] = []
        """The numbers of tokens after which ``release`` was called."""
        self._characters_before = self._unknown_before = 0
        """The counts before ``_stream`` begins; after ``truncate`` it begins near the cut."""
        self.append_tokens(token_ids)

    # --- growing

    def append_token(self, token_id: SupportsIndex) -> str:
        """Append ``token_id``; return the text that it completes, or "".

        Raises what ``DecodeStream.step`` raises; the sequence is then as it was before.
        """
        try:
            text = self._stream.step(token_id)
        except TokenIdError as error:
            raise error.at(len(self._ids)) from None
        self._ids.append(token_id.__index__())
        self._texts.append(text)
        return text

    def append_tokens(self, token_ids: Iterable[SupportsIndex]) -> str:
        """Append ``token_ids``; return the text that they complete.

        ``token_ids`` is a list, an array or tensor of one dimension, or another ordered iterable.

        Raises what ``DecodeStream.step_batch`` raises. After an error the ids before the bad one
        are part of the sequence. ``error.chunk.text`` is their text, ``error.num_taken`` their
        number.
        """
        before = len(self._texts)
        try:
            for token_id in as_sequence(token_ids):
                self.append_token(token_id)
        except Exception as error:
            error.chunk = Chunk("".join(self._texts[before:]))  # type: ignore[attr-defined]
            error.num_taken = len(self._texts) - before  # type: ignore[attr-defined]
            raise
        return "".join(self._texts[before:])

    def append_text(self, text: str, *, add_special_tokens: bool = False) -> str:
        """Encode ``text`` and append its ids; return the text that they complete.

        ``text`` is encoded by itself, so the ids may differ from those of the whole text encoded at
        once. Names of special tokens in ``text`` become special tokens. ``add_special_tokens`` is
        as for ``encode``.

        Raises TypeError if the tokenizer has no ``encode``, what ``encode`` raises (EncodeError),
        and what ``append_tokens`` raises.
        """
        encode = getattr(self.tokenizer, "encode", None)
        if encode is None:
            raise TypeError(
                f"append_text() needs a tokenizer that encodes, not {self.tokenizer!r:.80}"
            )
        encoding = cast(Encoder, self.tokenizer).encode(text, add_special_tokens=add_special_tokens)
        return self.append_tokens(encoding.ids)

    # --- as a stream runs on it

    def step_chunk(self, token_id: SupportsIndex) -> Chunk:
        """Append ``token_id``; return a chunk with the text that it completes."""
        return Chunk(self.append_token(token_id))

    def feed(self, token_ids: Iterable[SupportsIndex]) -> Chunk:
        """Append ``token_ids``; return a chunk with the text that they complete."""
        return Chunk(self.append_tokens(token_ids))

    def end(self, finish_reason: FinishReason = "length") -> Chunk:
        """Return an empty chunk with ``finish_reason``: a sequence can always grow."""
        return Chunk("", finish_reason)

    def release(self) -> str:
        r"""Return the text of the held bytes, and add it to ``text``.

        See ``DecodeStream.release``. ``truncate`` to a place before the release undoes it.

        >>> from streamdec import MockTokenizer, Sequence
        >>> sequence = Sequence(MockTokenizer.from_tokens([b"caf", b"\xc3", b"\xa9"]), [0, 1])
        >>> sequence.release(), sequence.append_token(0), sequence.text
        ('\ufffd', 'caf', 'caf\ufffdcaf')
        """
        text = self._stream.release()
        if self._ids and self._releases[-1:] != [len(self._ids)]:
            self._releases.append(len(self._ids))
        if text:
            self._texts[-1] += text
        return text

    # --- cutting back

    def truncate(self, num_tokens: int) -> None:
        r"""Cut the sequence back to its first ``num_tokens`` ids.

        For speculative decoding, where drafted tokens are removed again. Decodes some tokens before
        the cut again, mostly 64; on the windowed route, all ``num_tokens``.

        Raises ValueError if the sequence has fewer ids or ``num_tokens`` is negative, and TypeError
        if it is not an int. Then nothing is cut.

        >>> from streamdec import MockTokenizer, Sequence
        >>> sequence = Sequence(MockTokenizer.from_tokens([b"caf", b"\xc3", b"\xa9"]), [0, 1, 2])
        >>> sequence.truncate(2)
        >>> sequence.text, sequence.held, sequence.append_token(2)
        ('caf', b'\xc3', 'é')
        """
        if type(num_tokens) is not int:
            raise TypeError(f"num_tokens must be an int, not {num_tokens!r:.40}")
        if not 0 <= num_tokens <= len(self._ids):
            raise ValueError(
                f"num_tokens must be from 0 to the number of tokens ({len(self._ids)}), "
                f"not {num_tokens}"
            )
        if num_tokens == len(self._ids):
            return
        stream = self._stream_after(num_tokens)
        characters = self.num_characters - sum(map(len, self._texts[num_tokens:]))
        unknown = self.unknown_tokens - sum(not stream.knows(i) for i in self._ids[num_tokens:])
        self._characters_before = characters - stream.num_characters
        self._unknown_before = unknown - stream.unknown_tokens
        del self._ids[num_tokens:], self._texts[num_tokens:]
        self._releases = [place for place in self._releases if place <= num_tokens]
        self._stream = stream

    def _stream_after(self, num_tokens: int) -> DecodeStream:
        """A stream after ``num_tokens`` tokens.

        It is primed with ids before the cut, and then stepped up to the cut.
        """
        # A window remembers how it came to where it is: only the whole way gives the same one.
        look_back = FIRST_LOOK_BACK if self.route == "bytes" else num_tokens
        while True:
            start = max(num_tokens - look_back, 0)
            stream = DecodeStream(self.tokenizer, self._ids[:start], **self._stream.options)
            for place in self._releases:
                if start < place <= num_tokens:
                    stream.step_batch(self._ids[start + stream.num_tokens : place])
                    stream.release()
            stream.step_batch(self._ids[start + stream.num_tokens : num_tokens])
            # What the offsets were at ``start`` is not known, so both must lie after it.
            if start == 0 or stream.prefix_offset > start:
                return stream
            look_back *= 4

    # --- what it is

    @property
    def tokenizer(self) -> Decoder:
        """The tokenizer of the sequence."""
        return self._stream.tokenizer

    @property
    def text(self) -> str:
        """The text that the ids have decided; an unfinished character is not part of it.

        Joined on each access, so it costs time in proportion to its length.
        """
        return "".join(self._texts)

    @property
    def token_ids(self) -> list[int]:
        """The ids (a copy)."""
        return self._ids.copy()

    @property
    def held(self) -> bytes:
        """The bytes that wait for the end of their character (or run)."""
        return self._stream.held

    @property
    def pending_text(self) -> str:
        """The text of the held bytes if no token follows, mostly U+FFFD."""
        return self._stream.pending_text

    @property
    def jailed(self) -> str:
        """A sequence has no stops: ""."""
        return ""

    @property
    def holds(self) -> bool:
        """Whether bytes of an unfinished character are held."""
        return self._stream.holds

    withholds = holds

    @property
    def finished(self) -> bool:
        """A sequence has no end: False."""
        return False

    @property
    def num_tokens(self) -> int:
        """How many ids the sequence has."""
        return len(self._ids)

    @property
    def num_characters(self) -> int:
        """How many code points were output."""
        return self._characters_before + self._stream.num_characters

    @property
    def unknown_tokens(self) -> int:
        """How many ids the tokenizer does not have; 0 without ``piece``."""
        return self._unknown_before + self._stream.unknown_tokens

    @property
    def stream(self) -> DecodeStream:
        """A copy of the DecodeStream that decodes the sequence."""
        return self._stream.fork()

    @property
    def withheld(self) -> Withheld:
        """How many bytes are held, and how many tokens ago the first of them came."""
        return self._stream.withheld

    @property
    def prefix_offset(self) -> int:
        """Where the text that ended at ``read_offset`` began, in tokens."""
        return self._stream.prefix_offset

    @property
    def read_offset(self) -> int:
        """The number of tokens, from the beginning, whose text was output."""
        return self._stream.read_offset

    @property
    def route(self) -> Route:
        """``"bytes"`` or ``"window"``, as of DecodeStream."""
        return self._stream.route

    def __len__(self) -> int:
        return len(self._ids)

    def __repr__(self) -> str:
        return f"<Sequence {len(self._ids)} tokens, {self.text[-40:]!r}>"

    # --- copies

    def fork(self) -> Self:
        """Return an independent copy of the sequence.

        This takes time in proportion to the length of the sequence.
        """
        other = object.__new__(type(self))
        other._stream = self._stream.fork()
        other._ids = self._ids.copy()
        other._texts = self._texts.copy()
        other._releases = self._releases.copy()
        other._characters_before = self._characters_before
        other._unknown_before = self._unknown_before
        return other

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self).restore, (self.tokenizer, self.snapshot())

    def snapshot(self) -> dict[str, Any]:
        """Return the sequence as JSON for ``restore``: a dict with its ids and options."""
        fields = {"token_ids": self._ids.copy(), "releases": self._releases.copy()}
        return snapshots.dump(
            "sequence",
            self.tokenizer,
            self.route,
            Options(**self._stream.options),
            fields,
        )

    @classmethod
    def restore(
        cls, tokenizer: Decoder, snapshot: Mapping[str, Any], *others: Never, **expected: object
    ) -> Self:
        """Return the sequence that ``snapshot()`` described; its ids are decoded again.

        Arguments and errors are as for ``DecodeStream.restore``.

        >>> from streamdec import MockTokenizer, Sequence
        >>> sequence = Sequence(MockTokenizer(), [1, 2])
        >>> Sequence.restore(MockTokenizer(), sequence.snapshot()).text
        'Hello world'
        """
        check_restoring(cls.__name__, snapshot, others, expected)
        options, fields = snapshots.load("sequence", tokenizer, snapshot, expected)
        with snapshots.reading(fields):
            sequence = cls(tokenizer, **options._asdict())
            fields.check_route(sequence.route)
            token_ids = snapshots.token_ids(fields.take("token_ids", []))
            releases = snapshots.places(fields.take("releases", []), len(token_ids))
            for place in releases:
                sequence.append_tokens(token_ids[len(sequence) : place])
                sequence.release()
            sequence.append_tokens(token_ids[len(sequence) :])
        return sequence
