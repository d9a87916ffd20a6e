"""Sequence: a growing list of token ids with its text."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, Self, SupportsIndex, final

from streamdec.core import snapshots
from streamdec.core.decode_options import ByteFallbackMode, Route, UnknownIds
from streamdec.core.decode_stream import DecodeStream
from streamdec.core.shared_tables import tokenizer_for
from streamdec.core.step import step_all
from streamdec.core.token_ids import MAX_TOKEN_ID
from streamdec.protocols import Decoder

__all__ = ["Sequence"]

DISTANCE = 64
"""After so many tokens a copy of the stream is kept, from which ``truncate`` steps."""


@final
class Sequence:
    """A list of token ids with its text; ids can be appended and cut off at the end.

    It is a DecodeStream that keeps all ids and the text of each. It has no ``flush``, so the bytes
    of an unfinished character stay held until more ids come or ``release`` is called.

    Args:
        tokenizer: what decodes (and, for ``append_text``, encodes).
        token_ids: the first ids; their text is part of ``text``.
        skip_special_tokens: as for DecodeStream, but False by default.
        byte_fallback: as for DecodeStream.
        unknown_ids: as for DecodeStream.
        clean_up_tokenization_spaces: as for DecodeStream.

    Raises what DecodeStream raises, and for ``token_ids`` what ``feed`` raises.

    **Memory** grows by some 30 bytes for each token: a reference to its id and one to its text.
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

    __slots__ = ("_copies", "_ids", "_releases", "_stream", "_texts")

    def __init__(
        self,
        tokenizer: Decoder,
        token_ids: Iterable[SupportsIndex] = (),
        *,
        skip_special_tokens: bool = False,
        byte_fallback: ByteFallbackMode = "eager",
        unknown_ids: UnknownIds = "skip",
        clean_up_tokenization_spaces: bool = False,
    ) -> None:
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
        self._copies = [self._stream.fork()]
        """The stream after 0, DISTANCE, 2 * DISTANCE ... tokens."""
        self.feed(token_ids)

    # --- growing

    def append_token(self, token_id: SupportsIndex) -> str:
        """Append ``token_id``; return the text that it completes, or "".

        Raises what ``DecodeStream.step`` raises; the sequence is then as it was before.
        """
        text = self._stream.step(token_id)
        self._ids.append(token_id.__index__())
        self._texts.append(text)
        if not len(self._ids) % DISTANCE:
            self._copies.append(self._stream.fork())
        return text

    step = append_token

    def step_batch(self, token_ids: Iterable[SupportsIndex]) -> list[str]:
        """Append ``token_ids``; return a list of the text that each completes, or "".

        ``token_ids`` and errors are as for ``DecodeStream.feed``. After an error the ids before the
        bad one are part of the sequence.
        """
        return step_all(self.append_token, token_ids)

    def feed(self, token_ids: Iterable[SupportsIndex]) -> str:
        """Append ``token_ids``; return their text. Raises as ``step_batch``."""
        return "".join(self.step_batch(token_ids))

    def append_text(self, text: str, *, add_special_tokens: bool = False) -> str:
        """Encode ``text`` and append its ids; return the text that they complete.

        ``text`` is encoded by itself, so the ids may differ from those of the whole text encoded at
        once. Names of special tokens in ``text`` become special tokens. ``add_special_tokens`` is
        as for ``encode``.

        Raises TypeError if the tokenizer has no ``encode``, what ``encode`` raises (EncodeError),
        and what ``feed`` raises.
        """
        encode = getattr(self.tokenizer, "encode", None)
        if encode is None:
            raise TypeError(
                f"append_text() needs a tokenizer that encodes, not {self.tokenizer!r:.80}"
            )
        return self.feed(encode(text, add_special_tokens=add_special_tokens).ids)

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

        For speculative decoding, where drafted tokens are removed again. Decodes at most 63 tokens
        before the cut again.

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
            most = f"the number of tokens ({len(self._ids)})"
            raise ValueError(f"num_tokens must be from 0 to {most}, not {num_tokens}")
        if num_tokens == len(self._ids):
            return
        number = num_tokens // DISTANCE
        stream, taken = self._copies[number].fork(), number * DISTANCE
        releases = [place for place in self._releases if place <= num_tokens]
        for place in releases:
            if place >= taken:
                stream.step_batch(self._ids[taken:place])
                stream.release()
                taken = place
        stream.step_batch(self._ids[taken:num_tokens])
        del self._ids[num_tokens:], self._texts[num_tokens:], self._copies[number + 1 :]
        self._stream, self._releases = stream, releases

    # --- what it is

    @property
    def tokenizer(self) -> Decoder:
        """The tokenizer of the sequence."""
        return self._stream.tokenizer

    @property
    def text(self) -> str:
        """The text without that of held bytes, joined on each access."""
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
        return self._stream.num_characters

    @property
    def unknown_tokens(self) -> int:
        """How many ids the tokenizer does not have; 0 without ``piece``."""
        return self._stream.unknown_tokens

    @property
    def num_pending_tokens(self) -> int:
        """How many of the last tokens have bytes that are held."""
        return self._stream.num_pending_tokens

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
        """Return an independent copy, in time proportional to its length."""
        other = object.__new__(type(self))
        other._stream = self._stream.fork()
        for name in ("_copies", "_ids", "_releases", "_texts"):
            setattr(other, name, getattr(self, name).copy())
        return other

    __copy__ = fork

    def __deepcopy__(self, memo: dict[int, Any]) -> Self:
        return self.fork()

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self).restore, (self.tokenizer, self.snapshot())

    def snapshot(self) -> dict[str, Any]:
        """Return the sequence as JSON for ``restore``: a dict with its ids and options."""
        fields = {"token_ids": self._ids.copy(), "releases": self._releases.copy()}
        return snapshots.headed("sequence", self.tokenizer, self._stream._table, fields)

    @classmethod
    def restore(cls, tokenizer: Decoder, snapshot: Mapping[str, Any]) -> Self:
        """Return the sequence that ``snapshot()`` described; its ids are decoded again.

        Arguments and errors are as for ``DecodeStream.restore``.
        """
        tokenizer = tokenizer_for(tokenizer)
        table, fields = snapshots.load_head("sequence", tokenizer, snapshot)
        sequence = cls(tokenizer, **table.options._asdict())
        with snapshots.reading(fields, lambda: sequence):
            token_ids = snapshots.numbers(fields.get("token_ids", []), 0, MAX_TOKEN_ID)
            for place in snapshots.numbers(fields.get("releases", []), 1, len(token_ids)):
                sequence.feed(token_ids[len(sequence) : place])
                sequence.release()
            sequence.feed(token_ids[len(sequence) :])
        return sequence
