"""The base class of all backends: encodings, offsets, batches and async calls.

In: a backend's ``_ids`` (text to ids), ``_decode``, ``piece`` and ``rules``. Out: the methods of
:class:`~streamdec.protocols.Tokenizer`. It documents those that each backend implements.
"""

from __future__ import annotations

import re
from abc import ABC, abstractmethod
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from functools import partial
from itertools import accumulate, pairwise
from operator import length_hint
from time import perf_counter
from typing import Any, ClassVar, TypeVar

from streamdec import hooks
from streamdec.encoding import Encoding, Special, SpecialTokens
from streamdec.errors import EncodeError
from streamdec.hooks import Operation, suppressed, type_of
from streamdec.locks import cached_property
from streamdec.tokenizers._chat import ChatTokenizer
from streamdec.tokenizers._common import any_of, bytes_of, refuse_special, sample_of
from streamdec.tokenizers._threads import cores, in_thread, in_threads
from streamdec.tokenizers.tokenizer_report import TokenizerReport

Span = tuple[int, int]
Ids = Sequence[int] | bytes
"""The ids of a text, or four bytes for each, little-endian."""
T = TypeVar("T")


class BaseTokenizer(ChatTokenizer, ABC):
    """The base class of backends, which add ``_ids`` and the methods of the protocol."""

    tokenizer_type: ClassVar[str]
    """Its name in metrics: the library that decodes."""

    name: str
    """Its path or name, for messages."""

    report: TokenizerReport
    """How it was loaded. Only a :class:`~streamdec.tokenizers.HybridTokenizer` and a tokenizer of
    ``load_tokenizer`` have this attribute."""

    inline_chars: int = 2_048
    """Async calls encode texts of up to this many code points on the event loop, because a thread
    would cost more."""

    @property
    def _added(self) -> tuple[Sequence[int], Sequence[int]]:
        """The ids that ``add_special_tokens`` puts before and after a text."""
        return (), ()

    def _ids(self, text: str, special: Special) -> Sequence[int]:
        """Return the ids of ``text``, which has no lone surrogate and no forbidden token."""
        raise NotImplementedError

    def _all_ids(
        self, texts: Sequence[str], special: Special, *, add_special_tokens: bool
    ) -> Sequence[Ids]:
        """Return the ids of each text with the tokens around it."""
        if special == "forbid":
            for text in texts:
                refuse_special(text, self._any_special)
        before, after = self._added if add_special_tokens else ((), ())
        found = [self._ids(text, special) for text in texts]
        return [[*before, *ids, *after] for ids in found] if before or after else found

    @abstractmethod
    def _decode(self, token_ids: Sequence[int], skip_special_tokens: bool) -> str:
        """Return the text of ``token_ids``, which are not checked."""

    def _library_encode(self) -> tuple[str, Callable[[str], Sequence[int]]]:
        """Return the name and the encode function of the library, for comparisons."""
        raise EncodeError(f"{self!r} has no library that encodes")

    # --- special tokens ---------------------------------------------------------------------------

    @property
    def _skipped_ids(self) -> Collection[int]:
        """The ids that ``decode`` leaves out with ``skip_special_tokens``."""
        raise NotImplementedError

    def is_skipped(self, token_id: int) -> bool:
        """Return whether ``decode`` leaves out ``token_id`` with ``skip_special_tokens``."""
        return token_id in self._skipped_ids

    def _special_texts(self) -> Iterable[tuple[str, int]]:
        """Return the text and the id of each token that may be skipped, ids ascending."""
        for token_id in sorted(self._skipped_ids):
            piece = self.piece(token_id) or ""
            if isinstance(piece, bytes):
                piece = piece.decode(errors="surrogateescape")
            yield piece, token_id

    @cached_property
    def _any_special(self) -> re.Pattern[str] | None:
        return any_of(self._ids_by_special_text)

    @cached_property
    def _ids_by_special_text(self) -> dict[str, list[int]]:
        by_text: dict[str, list[int]] = {}
        for text, token_id in self._special_texts():
            by_text.setdefault(text, []).append(token_id)
        return by_text

    def skipped_ids(self, texts: Iterable[str]) -> dict[str, tuple[int, ...]]:
        """Return the texts of skipped special tokens among ``texts``, with their ids."""
        ids, found = self._ids_by_special_text, {}
        for text in ids.keys() & texts:
            skipped = tuple(filter(self.is_skipped, ids[text]))
            if skipped:
                found[text] = skipped
        return found

    @property
    def _role_texts(self) -> Mapping[str, str | None]:
        """The token of each role, such as ``eos_token``."""
        return {}

    @cached_property
    def special_tokens(self) -> SpecialTokens:
        """The special tokens, with the roles that the tokenizer's files give them."""
        roles = {role: text for role, text in self._role_texts.items() if text is not None}
        others = (text for text in self._special_names() if text not in roles.values())
        return SpecialTokens(**roles, additional_special_tokens=tuple(dict.fromkeys(others)))

    def _special_names(self) -> Iterable[str]:
        """Return the texts of the special tokens, in the order of their ids."""
        return (text for text, _ in self._special_texts())

    # --- the vocabulary ---------------------------------------------------------------------------

    _names: dict[int, str]
    """The name of each token, ids ascending. Backends that ask a library do without."""

    @cached_property
    def _ids_by_name(self) -> dict[str, int]:
        """The lowest id of each name."""
        return {name: i for i, name in reversed(self._names.items())}

    def id_to_token(self, token_id: int) -> str | None:
        """Return the name of ``token_id``; None if unknown."""
        return self._names.get(token_id)

    def token_to_id(self, token: str) -> int | None:
        """Return the lowest id of the token called ``token``; None if unknown."""
        return self._ids_by_name.get(token)

    @property
    def vocab_size(self) -> int:
        """One more than the highest id."""
        return next(reversed(self._names), -1) + 1

    def token_bytes(self, token_id: int) -> bytes | None:
        """Return the bytes of ``token_id`` inside a text; None if there is no token.

        Without ``rules``, they are the UTF-8 of its decoded text.
        """
        piece, rules = self.piece(token_id), self.rules
        if piece is None:
            return None
        return self._decode([token_id], False).encode() if rules is None else bytes_of(rules, piece)

    def _byte_ids(self) -> Iterable[int]:
        """Return the ids of tokens of one byte."""
        return ()

    def sample_ids(self) -> list[int]:
        """Return a few hundred ids, special and byte tokens among them, as a sample."""
        sample = sample_of(sorted(self._skipped_ids), self._byte_ids(), self.vocab_size)
        return [token_id for token_id in sample if self.piece(token_id) is not None]

    # --- encoding ---------------------------------------------------------------------------------

    def encode(
        self, text: str, *, add_special_tokens: bool = False, special: Special = "parse"
    ) -> Encoding:
        r"""Encode ``text``.

        Args:
            text: The text, which is never truncated and never padded.
            add_special_tokens: Whether to add the tokens with which the model begins and ends a
                text. Chat templates contain them already.
            special: How special tokens that ``text`` spells are encoded: ``"parse"`` gives their
                ids, ``"text"`` encodes their letters, ``"forbid"`` raises.

        Returns:
            An :class:`~streamdec.tokenizers.Encoding`, which holds the text and the tokenizer.

        Raises :class:`~streamdec.errors.EncodeError` for a lone surrogate and for a forbidden
        special token; ValueError for another ``special``; TypeError if ``text`` is not a str;
        :class:`~streamdec.errors.TokenizerLibraryError` if the library fails.

        >>> from streamdec import MockTokenizer
        >>> tokenizer = MockTokenizer.from_tokens([b"caf", b"\xc3", b"\xa9"])
        >>> encoding = tokenizer.encode("café")
        >>> encoding.ids, encoding.offsets
        ((0, 1, 2), ((0, 3), (3, 4), (3, 4)))
        """
        options: dict[str, Any] = {"add_special_tokens": add_special_tokens, "special": special}
        [encoding] = self._encodings("encode", [text], options)
        return encoding

    def encode_batch(
        self, texts: Sequence[str], *, add_special_tokens: bool = False, special: Special = "parse"
    ) -> list[Encoding]:
        """Encode each of ``texts`` as :meth:`encode` does, in order.

        ``add_special_tokens`` and ``special`` apply to all of them. If one text cannot be encoded,
        its error is raised, with its index in ``texts``. Raises TypeError if ``texts`` is a str.
        """
        options: dict[str, Any] = {"add_special_tokens": add_special_tokens, "special": special}
        return self._encoded_from(0, _listed(texts), options)

    def _encoded_from(
        self, first: int, texts: list[str], options: dict[str, Any]
    ) -> list[Encoding]:
        """Encode ``texts``, whose indices begin at ``first``."""
        try:
            return self._encodings("encode_batch", texts, options)
        except (EncodeError, TypeError):
            with suppressed:
                for index, text in enumerate(texts, first):
                    try:
                        self.encode(text, **options)
                    except (EncodeError, TypeError) as error:
                        raise type(error)(f"texts[{index}]: {error}") from error
            raise

    def _encodings(
        self, operation: Operation, texts: list[str], options: dict[str, Any]
    ) -> list[Encoding]:
        """Check and encode ``texts``; hooks receive the call."""

        def count(found: Sequence[Ids] | None) -> tuple[int, int, int]:
            sizes = (len(ids) // 4 if isinstance(ids, bytes) else len(ids) for ids in found or ())
            return len(texts), sum(sizes), sum(map(_chars, texts))

        report = getattr(self, "report", None)
        by = type_of(self) if report is None else report.active
        all_ids = _measured(by, operation, partial(self._checked_ids, texts, **options), count)
        pairs = zip(all_ids, texts, strict=True)
        return [Encoding(ids, text, self, **options) for ids, text in pairs]

    def _checked_ids(
        self, texts: Sequence[str], special: Special, *, add_special_tokens: bool
    ) -> Sequence[Ids]:
        for text in texts:
            check_text(special, text)
        return self._all_ids(texts, special, add_special_tokens=add_special_tokens)

    async def aencode(
        self, text: str, *, add_special_tokens: bool = False, special: Special = "parse"
    ) -> Encoding:
        """Encode as :meth:`encode` does, but encode a long text in a thread.

        The thread keeps the event loop free. Texts of up to ``inline_chars`` code points are
        encoded at once. ``text``, ``add_special_tokens``, ``special`` and errors are as for
        :meth:`encode`. A cancelled task waits for its thread, which cannot be stopped.
        """
        call = partial(self.encode, text, add_special_tokens=add_special_tokens, special=special)
        return call() if _chars(text) <= self.inline_chars else await in_thread(call)

    async def aencode_batch(
        self, texts: Sequence[str], *, add_special_tokens: bool = False, special: Special = "parse"
    ) -> list[Encoding]:
        """Encode as :meth:`encode_batch` does; long ``texts`` are divided among threads.

        There is one thread for each processor that this process may use. ``add_special_tokens``,
        ``special`` and errors are as for :meth:`encode_batch`.
        """
        options: dict[str, Any] = {"add_special_tokens": add_special_tokens, "special": special}
        texts = _listed(texts)
        if sum(map(_chars, texts)) <= self.inline_chars:
            return self._encoded_from(0, texts, options)
        # Four parts for each thread, so that parts with long texts do not delay the others.
        size = -(-len(texts) // (4 * cores()))
        results = await in_threads(
            [
                partial(self._encoded_from, start, texts[start : start + size], options)
                for start in range(0, len(texts), size)
            ]
        )
        return [encoding for result in results for encoding in result]

    # --- where each token is ----------------------------------------------------------------------

    def byte_offsets_of(self, encoding: Encoding) -> list[Span]:
        r"""Return each token's start and end in the UTF-8 of the text of ``encoding``.

        ``encoding.byte_offsets`` is the cached result. An added token has an empty span.

        Raises :class:`~streamdec.errors.EncodeError` if the encoding has no text, or if the tokens
        do not spell it because it was normalized.
        """
        if encoding.text is None:
            raise EncodeError(
                "the encoding has no text, so it has no offsets; use an Encoding that encode() "
                "returned"
            )
        before, after = map(len, self._added) if encoding.add_special_tokens else (0, 0)
        ids = encoding.ids[before : len(encoding) - after]
        data = [self.token_bytes(token_id) or b"" for token_id in ids]
        # A space that was put before the text belongs to no token.
        joined, text = b"".join(data), encoding.text.encode()
        shift = 1 if joined == b" " + text else 0
        if joined[shift:] != text:
            raise EncodeError("the tokens do not spell the text: it was normalized")
        ends = accumulate(map(len, data), initial=0)
        places = [max(place - shift, 0) for place in ends]
        return [(0, 0)] * before + [*pairwise(places)] + [(len(text), len(text))] * after

    def offsets_of(self, encoding: Encoding) -> list[Span]:
        """Return each token's start and end in the text of ``encoding``, in code points.

        ``encoding.offsets`` is the cached result. A token with a part of a character spans the
        whole character. Raises what :meth:`byte_offsets_of` raises.
        """
        return character_spans(encoding.text or "", self.byte_offsets_of(encoding))

    # --- decoding ---------------------------------------------------------------------------------

    def decode(self, token_ids: Sequence[int], *, skip_special_tokens: bool = True) -> str:
        """Return the text, as :meth:`streamdec.protocols.Decoder.decode` describes."""
        if not _is_measured():
            return self._decode(token_ids, skip_special_tokens)
        size = length_hint(token_ids)  # 0 for an iterator without a length
        call = partial(self._decode, token_ids, skip_special_tokens)
        return _measured(type_of(self), "decode", call, lambda text: (1, size, len(text or "")))

    def decode_batch(
        self, batch: Sequence[Sequence[int]], *, skip_special_tokens: bool = True
    ) -> list[str]:
        """Decode each list of ids in ``batch`` as :meth:`decode` does.

        :func:`streamdec.bulk.decode_arrow` decodes columns of a dataset faster.
        ``skip_special_tokens`` leaves special tokens out. Raises what :meth:`decode` raises; a
        note on the error names the row.
        """
        texts = []
        for row, ids in enumerate(batch):
            try:
                texts.append(self.decode(ids, skip_special_tokens=skip_special_tokens))
            except Exception as error:
                error.add_note(f"in row {row} of the batch")
                raise
        return texts


def _is_measured() -> bool:
    """Return whether calls are reported to hooks now."""
    return bool(hooks.installed) and not suppressed.is_entered


def _measured(
    by: str,
    operation: Operation,
    call: Callable[[], T],
    count: Callable[[T | None], tuple[int, int, int]],
) -> T:
    """Return ``call()``, and report it to hooks as an operation of ``by``.

    ``count`` gives the numbers of texts, tokens and characters. Its argument is the result, or None
    if the call failed.
    """
    if not _is_measured():
        return call()
    found, failed, started = None, None, perf_counter()
    try:
        found = call()
    except Exception as error:
        failed = type(error).__name__
        raise
    finally:
        seconds = perf_counter() - started
        event = hooks.Call(by, operation, seconds, *count(found), failed)
        hooks.tell(hooks.installed, "called", event)
    return found


def character_spans(text: str, spans: Sequence[Span]) -> list[Span]:
    """Convert spans of bytes to spans of the characters that they touch."""
    if text.isascii():
        return list(spans)
    # For each byte the index of its character; for the end the number of them.
    of_byte = [i for i, char in enumerate(text) for _ in char.encode()] + [len(text)]
    return [(of_byte[a], of_byte[b - 1] + 1 if b > a else of_byte[a]) for a, b in spans]


def byte_spans(text: str, spans: Iterable[Span]) -> list[Span]:
    """Convert spans of characters to spans of their bytes in UTF-8."""
    places = [0, *accumulate(len(letter.encode()) for letter in text)]
    return [(places[start], places[end]) for start, end in spans]


def _listed(texts: Iterable[str]) -> list[str]:
    if isinstance(texts, (str, bytes)):
        raise TypeError(f"texts must be a list of strings, got one {type(texts).__name__}")
    return list(texts)


def _chars(text: object) -> int:
    """Return the length of ``text``; 0 for other types, which fail without a thread."""
    return len(text) if isinstance(text, str) else 0


def check_text(special: str, text: str) -> None:
    """Raise for a text or a ``special`` that no backend accepts."""
    if special not in ("parse", "text", "forbid"):
        raise ValueError(f"special must be 'parse', 'text' or 'forbid', not {special!r:.40}")
    if not isinstance(text, str):
        raise TypeError(f"a text must be a str, not {type(text).__name__}")
    if text.isascii():
        return
    try:
        text.encode()
    except UnicodeEncodeError as error:
        where = f"U+{ord(text[error.start]):04X} at index {error.start}"
        raise EncodeError(f"a lone surrogate cannot be encoded: {where}") from error
