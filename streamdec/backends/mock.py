"""Tokenizers for tests: eight words, or any table of bytes.

In: nothing, or the bytes of each token. Out: a :class:`~streamdec.protocols.Tokenizer` that needs
no file. Its ``decode`` is an oracle of the tests, so it does not use streamdec's decoder
(:func:`streamdec.backends._decoder_chain.whole_decoder`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Self

from streamdec.backends._decoder_chain import as_bytes, whole_decoder
from streamdec.encoding import Special
from streamdec.errors import EncodeError
from streamdec.locks import cached_property
from streamdec.protocols import ByteFallback, DecodingRule, Joined, RawBytes, TextRules
from streamdec.tokenizers._base import BaseTokenizer
from streamdec.tokenizers._common import checked_ids, fingerprint_of

__all__ = ["MockTokenizer"]

Piece = str | bytes

_WORDS = {"Hello": 1, "world": 2, "test": 3, "token": 4, " ": 5, ".": 6}
_SPECIAL_WORDS = {"<eos>": 999, "<bos>": 1000}
_ALL_WORDS = {**_WORDS, **_SPECIAL_WORDS}
_SAMPLE = 512
_NAMED: dict[str, DecodingRule] = {"byte_level": RawBytes(), "byte_fallback": ByteFallback()}


class MockTokenizer(BaseTokenizer):
    """A tokenizer of eight words, for tests and examples. It needs no file.

    The words are Hello 1, world 2, test 3, token 4, a space 5, a full stop 6, and the special
    tokens <eos> 999 and <bos> 1000. ``encode`` splits at white space and drops unknown words.
    ``decode`` joins words with a space. :meth:`from_tokens` makes a tokenizer of any bytes.

    >>> from streamdec import MockTokenizer
    >>> tokenizer = MockTokenizer()
    >>> tokenizer.encode("Hello wide world").ids
    (1, 2)
    >>> tokenizer.decode([1000, 1, 2, 999])
    'Hello world'
    """

    tokenizer_type = "mock"

    def __init__(self) -> None:
        self._names = {i: word for word, i in _ALL_WORDS.items()}
        self._pieces: Mapping[int, Piece] = self._names
        self._special_ids = frozenset(_SPECIAL_WORDS.values())
        self._rules = TextRules(Joined(" "))
        self.name: str = type(self._rules.rule).__name__
        self._tokens: Sequence[bytes] | None = None

    @classmethod
    def from_tokens(
        cls,
        tokens: Sequence[bytes],
        special_ids: Iterable[int] = (),
        decoder: str | DecodingRule | TextRules = "byte_level",
    ) -> Self:
        r"""Return a tokenizer whose ids are the indexes of ``tokens``, which may repeat.

        ``decode`` omits ``special_ids`` when special tokens are skipped. ``encode`` takes the
        longest token at each place. ``decoder`` is

        * ``"byte_level"``: all bytes are joined and decoded at once, as in tiktoken and GPT-2;
        * ``"byte_fallback"``: a token of one byte from 0x80 up is a byte piece such as ``<0xE4>``,
          other tokens are text, as in Llama 2;
        * a rule of :mod:`streamdec.protocols`, or its ``TextRules``: each token is the UTF-8 of a
          piece (for ``RawBytes``, any bytes).

        Raises ValueError for an unknown decoder, for a special id that is not an index, and for a
        token that must be UTF-8 and is not. Raises TypeError for a token that is not bytes.

        >>> from streamdec import MockTokenizer
        >>> tokenizer = MockTokenizer.from_tokens([b"caf", b"\xc3", b"\xa9"])
        >>> tokenizer.decode([0, 1, 2])
        'café'
        """
        self = cls()
        self._rules = _rules_of(decoder)
        self.name = type(self._rules.rule).__name__
        has_bytes = decoder == "byte_fallback"
        self._pieces = {
            i: _spelled(token, i, self._rules, has_bytes) for i, token in enumerate(tokens)
        }
        pieces = ((i, as_bytes(piece)) for i, piece in self._pieces.items())
        self._names = {i: piece.decode("utf-8", "backslashreplace") for i, piece in pieces}
        self._special_ids = frozenset(special_ids)
        if strange := self._special_ids - self._pieces.keys():
            raise ValueError(
                f"special_ids must be indexes of tokens, from 0 to {len(tokens) - 1}, got "
                f"{sorted(strange)}"
            )
        self._tokens = tuple(tokens)
        return self

    def __repr__(self) -> str:
        return f"<{type(self).__name__}: {len(self._pieces)} tokens, {self.name}>"

    def __getstate__(self) -> dict[str, object]:
        """Pickle only the arguments, without the computed tables."""
        given = ("name", "_pieces", "_names", "_special_ids", "_rules", "_tokens")
        return {name: getattr(self, name) for name in given}

    # --- decoding ---------------------------------------------------------------------------------

    def _decode(self, token_ids: Iterable[int], skip_special_tokens: bool) -> str:
        left_out = self._special_ids if skip_special_tokens else frozenset()
        known, ids = self._pieces, checked_ids(token_ids)
        return self._whole([known[i] for i in ids if i in known and i not in left_out])

    @cached_property
    def _whole(self) -> Callable[[Sequence[Piece]], str]:
        return whole_decoder(self._rules)

    @property
    def rules(self) -> TextRules:
        return self._rules

    def piece(self, token_id: int) -> Piece | None:
        return self._pieces.get(token_id)

    @property
    def _skipped_ids(self) -> frozenset[int]:
        return self._special_ids

    @cached_property
    def fingerprint(self) -> str:
        ids = sorted(self._pieces)
        pieces = [as_bytes(self._pieces[i]) for i in ids]
        return fingerprint_of(self._rules, ids, pieces, sorted(self._special_ids))

    def sample_ids(self) -> list[int]:
        return sorted({*sorted(self._pieces)[:_SAMPLE], *sorted(self._special_ids)[:_SAMPLE]})

    # --- encoding ---------------------------------------------------------------------------------

    def _ids(self, text: str, special: Special) -> list[int]:
        """Return the known words; for a table of bytes, the longest token at each place.

        If several tokens are equal, the lowest id is used. Special and empty tokens are never used.
        Raises EncodeError if no token matches, even if another split of the text existed. Special
        tokens are never added, and with a table never parsed.
        """
        if self._tokens is None:
            known = _ALL_WORDS if special == "parse" else _WORDS
            return [known[word] for word in text.split() if word in known]
        return list(self._longest(text.encode()))

    def _longest(self, data: bytes) -> Iterator[int]:
        """Yield the id of the longest token at each place. Raises EncodeError."""
        most_bytes, start = max(map(len, self._id_of_bytes), default=0), 0
        while start < len(data):
            most = min(most_bytes, len(data) - start)
            ends = (start + length for length in range(most, 0, -1))
            end = next((end for end in ends if data[start:end] in self._id_of_bytes), None)
            if end is None:
                what = f"no token begins at byte {start}: {data[start : start + 16]!r}"
                raise EncodeError(what)
            yield self._id_of_bytes[data[start:end]]
            start = end

    @cached_property
    def _id_of_bytes(self) -> dict[bytes, int]:
        tokens = reversed([*enumerate(self._tokens or ())])
        return {data: i for i, data in tokens if data and i not in self._special_ids}

    # --- the vocabulary ---------------------------------------------------------------------------

    @property
    def _role_texts(self) -> Mapping[str, str]:
        is_table = self._tokens is not None
        return {} if is_table else {"bos_token": "<bos>", "eos_token": "<eos>"}


# --- a table of bytes -----------------------------------------------------------------------------


def _rules_of(decoder: str | DecodingRule | TextRules) -> TextRules:
    if isinstance(decoder, TextRules):
        return decoder
    if not isinstance(decoder, str):
        return TextRules(decoder)
    if decoder not in _NAMED:
        known = " or ".join(map(repr, _NAMED))
        raise ValueError(f"decoder must be {known}, a DecodingRule or TextRules, not {decoder!r}")
    return TextRules(_NAMED[decoder])


def _spelled(token: bytes, index: int, rules: TextRules, has_bytes: bool) -> Piece:
    """Return the piece of a token; with ``has_bytes``, single bytes are named."""
    if not isinstance(token, bytes):
        raise TypeError(f"token {index} must be bytes, such as b'Hi', got {token!r:.40}")
    if isinstance(rules.rule, RawBytes):
        return token
    if has_bytes and len(token) == 1 and token[0] >= 0x80:
        return f"<0x{token[0]:02X}>"
    try:
        return token.decode()
    except UnicodeDecodeError as error:
        raise ValueError(f"token {index} is not UTF-8: {token!r}") from error
