"""Token ids in, bytes out: what each token contributes in its place.

:class:`TokenBytes` is a table, filled lazily from the tokenizer (never from its file), and a small
state. Which state is needed depends on the rule by which the tokenizer's library joins tokens; each
rule has a machine of a few lines:

    rule                         machine         what must be remembered between two tokens
    RawBytes, ByteLevel,         FixedBytes      nothing
      Concatenation,
      ByteFallback (eager)
    Joined, Metaspace, WordPiece FirstThenLater  whether any token came
    BPESuffix                    WordSuffix      what the last token gives if another one follows
    CTC                          Collapse        the last token, and whether any text came
    ByteFallback (exact)         ExactRuns       the open run of byte tokens
    ByteFallback with Metaspace  RunsThenSpaces  the run, and whether any token came
    strip_left                   LeadingStrip    how many characters may still be removed

The rules were read off the ``tokenizers`` library (0.22 and 0.23), whose ``decode`` is the oracle of
the tests. A state is an immutable value, hashable, and goes to JSON and back by ``dump`` and ``load``.

Two policies exist for a run of byte-fallback tokens. *Eager*: its bytes go out as they come, and a bad
one is one U+FFFD (the SentencePiece library's rule). *Exact*: the run is withheld until it closes,
because one bad byte turns the whole of it into U+FFFD (the ``tokenizers`` library's rule); once it is
certainly broken each byte is a U+FFFD at once.
"""

from __future__ import annotations

import weakref
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Sequence
from os.path import commonprefix
from typing import Any, Literal, SupportsIndex

from streamdec.core import utf8
from streamdec.core.token_ids import MAX_TOKEN_ID, check_token_id
from streamdec.protocols import (
    CTC,
    BPESuffix,
    ByteFallback,
    ByteLevel,
    Concatenation,
    DecodingRule,
    Joined,
    Metaspace,
    RawBytes,
    TableDecoder,
    TextRules,
    WordPiece,
)

__all__ = ["ByteRuns", "TokenBytes", "compile_token_bytes"]

ByteRuns = Literal["eager", "exact"]

State = Any
"""What a machine remembers: None, a bool, an int, a str, bytes, or a tuple of these."""
Element = Any
"""A token prepared for its machine: what ``prepare`` made of its piece."""

REPLACEMENT_BYTES = utf8.REPLACEMENT.encode()


class _Elements(dict[int, Element]):
    """Token id → element, asked of the tokenizer on first use; None for a skipped token.

    An unknown id is a KeyError and leaves nothing behind: there are four billion of them.
    """

    __slots__ = ("_decoder", "_prepare", "_skip")

    def __init__(
        self, decoder: TableDecoder, prepare: Callable[[str | bytes], Element], skip: bool
    ) -> None:
        # Weak, because tables live as long as their tokenizer; whoever steps holds the tokenizer.
        self._decoder = weakref.ref(decoder)
        self._prepare = prepare
        self._skip = skip

    def __missing__(self, token_id: int) -> Element:
        decoder = self._decoder()
        assert decoder is not None, "a stream outlived its tokenizer"
        piece = decoder.piece(token_id)
        if piece is None:
            raise KeyError(token_id)
        skipped = self._skip and decoder.is_skipped(token_id)
        element = self[token_id] = None if skipped else self._prepare(piece)
        return element


class TokenBytes(ABC):
    """What each token contributes, given the state that the tokens before it left."""

    errors = utf8.PER_PART
    """How bytes that become no character are rendered."""
    start: State = None
    """Before any token."""
    rest: State = None
    """Where most streams are most of the time."""
    has_anchors = True
    """Whether the bytes that come out can be told apart by token."""

    def __init__(self, decoder: TableDecoder, *, skip_special_tokens: bool) -> None:
        self._elements = _Elements(decoder, self.prepare, skip_special_tokens)
        self.whole: dict[int, str] = {}
        """What is known of tokens that are whole characters at rest and leave it as it is."""

    def element(self, token_id: int) -> Element:
        """``token_id`` prepared, or None if it is skipped. KeyError: unknown id."""
        return self._elements[token_id]

    # --- the two verbs

    def step(self, state: State, token_id: int) -> tuple[bytes, State]:
        """The bytes that ``token_id`` brings out, and the state after it. KeyError: unknown id."""
        element = self._elements[token_id]
        return (b"", state) if element is None else self.advance(state, element)

    def flush(self, state: State) -> bytes:
        """The bytes that come out because nothing follows."""
        return b""

    # --- what a machine defines

    @abstractmethod
    def prepare(self, piece: str | bytes) -> Element:
        """A token's piece, made ready for ``advance`` once and for all."""

    @abstractmethod
    def advance(self, state: State, element: Element) -> tuple[bytes, State]:
        """The bytes that a contributing token brings out, and the state after it."""

    def replacement(self) -> Element:
        """An element that contributes one U+FFFD as it stands (for ``unknown_ids="replace"``)."""
        return self.prepare(utf8.REPLACEMENT)

    # --- what may be asked of a state

    def held(self, state: State) -> bytes:
        """Bytes received that have not come out, as far as they are known."""
        return b""

    def is_bounded(self, state: State) -> bool:
        """Whether such states are few enough to keep a cached row for each."""
        return True

    def waiting(self, state: State) -> int:
        """How many of the last contributing tokens have bytes that did not come out yet."""
        return 0

    def own(self, element: Element, data: bytes) -> int:
        """How many of the bytes that ``advance`` gave are the token's own, at their end.

        Those before are of the tokens that waited, in equal parts.
        """
        return len(data)

    # --- a prompt

    def synchronises(self, element: Element) -> bool:
        """Whether the state after ``element`` does not depend on what came before it."""
        return True

    def prime(
        self, token_ids: Sequence[SupportsIndex], *, show_unknown: bool
    ) -> tuple[State, bytes]:
        """The state after ``token_ids`` and the unfinished character they end in.

        Looks back only to the last token that settles the state. Unknown ids count as U+FFFD if
        ``show_unknown``, else as nothing.
        """
        elements: list[Element] = []
        for element in self.contributions(reversed(token_ids), show_unknown):
            elements.append(element)
            if self.synchronises(element):
                break
        state = self.start
        for element in reversed(elements):
            _, state = self.advance(state, element)
        return state, b""

    def contributions(
        self, token_ids: Iterable[SupportsIndex], show_unknown: bool
    ) -> Iterator[Element]:
        """The elements of those tokens that contribute one."""
        elements = self._elements
        for token_id in token_ids:
            # Looked up as it is first: a long prompt of skipped tokens is read to its end.
            if type(token_id) is not int or token_id < 0 or token_id > MAX_TOKEN_ID:
                token_id = check_token_id(token_id, what="prompt token")
            try:
                element = elements[token_id]
            except KeyError:
                element = self.replacement() if show_unknown else None
            if element is not None:
                yield element

    # --- JSON

    def dump(self, state: State) -> Any:
        """``state`` as JSON."""
        return state

    def load(self, data: Any) -> State:
        """The state that ``dump`` gave ``data`` for. ValueError if there is none."""
        if data is None:
            return None
        raise ValueError(f"expected null, got {data!r}")


def _expect(condition: bool, expected: str, data: object) -> None:
    if not condition:
        raise ValueError(f"expected {expected}, got {data!r:.80}")


# --- tokens whose bytes do not depend on their neighbours -------------------------------------------


def byte_alphabet() -> dict[int, int]:
    """Code point → byte of the alphabet in which byte-level BPE writes its tokens.

    From OpenAI's GPT-2 (``encoder.py``, ``bytes_to_unicode``): printable Latin-1 stands for itself, the
    other 68 bytes for U+0100 onwards, in order.
    """
    printable = [*range(0x21, 0x7F), *range(0xA1, 0xAD), *range(0xAE, 0x100)]
    others = [byte for byte in range(256) if byte not in printable]
    return {byte: byte for byte in printable} | {0x100 + n: byte for n, byte in enumerate(others)}


_BYTE_ALPHABET = {chr(letter): byte for letter, byte in byte_alphabet().items()}


def byte_level(piece: str | bytes) -> bytes:
    """A piece of the byte alphabet as its bytes; any other piece, whole, as UTF-8."""
    assert isinstance(piece, str)
    try:
        return bytes([_BYTE_ALPHABET[letter] for letter in piece])
    except KeyError:
        return piece.encode()


def text_bytes(piece: str | bytes) -> bytes:
    """A piece of text as UTF-8; bytes as they are."""
    return piece.encode() if isinstance(piece, str) else piece


def fallback_byte(piece: str) -> int | None:
    """The byte that a piece like ``<0xE4>`` stands for, or None.

    As the library parses it: six bytes, and the two digits as Rust's ``u8::from_str_radix`` reads
    them, so ``<0xe4>`` and even ``<0x+5>`` are bytes.
    """
    if len(piece) != 6 or not (piece.startswith("<0x") and piece.endswith(">") and piece.isascii()):
        return None
    digits = piece[3:5].removeprefix("+")
    return int(digits, 16) if digits and all(c in "0123456789abcdefABCDEF" for c in digits) else None


def fallback_bytes(piece: str | bytes) -> bytes:
    """A byte piece as its byte, any other piece as UTF-8."""
    assert isinstance(piece, str)
    byte = fallback_byte(piece)
    return piece.encode() if byte is None else bytes([byte])


class FixedBytes(TokenBytes):
    """Each token is always the same bytes."""

    def __init__(
        self,
        decoder: TableDecoder,
        to_bytes: Callable[[str | bytes], bytes],
        *,
        skip_special_tokens: bool,
        errors: str = utf8.PER_PART,
    ) -> None:
        self._to_bytes = to_bytes
        self.errors = errors
        super().__init__(decoder, skip_special_tokens=skip_special_tokens)

    def prepare(self, piece: str | bytes) -> bytes:
        return self._to_bytes(piece)

    def replacement(self) -> bytes:
        return REPLACEMENT_BYTES

    def advance(self, state: State, element: bytes) -> tuple[bytes, State]:
        return element, state

    def prime(
        self, token_ids: Sequence[SupportsIndex], *, show_unknown: bool
    ) -> tuple[State, bytes]:
        """An unfinished character is decided by the last three bytes."""
        tail = b""
        for element in self.contributions(reversed(token_ids), show_unknown):
            tail = element + tail
            if len(tail) >= 3:
                break
        return None, utf8.decode(tail, self.errors)[1]


# --- tokens whose text depends on being the first ---------------------------------------------------


class FirstThenLater(TokenBytes):
    """Each token has two forms: as the first one, and after another. State: whether any came."""

    start = False
    rest = True

    def __init__(
        self,
        decoder: TableDecoder,
        forms: Callable[[str], tuple[str, str]],
        *,
        skip_special_tokens: bool,
    ) -> None:
        self._forms = forms
        super().__init__(decoder, skip_special_tokens=skip_special_tokens)

    def prepare(self, piece: str | bytes) -> tuple[bytes, bytes]:
        assert isinstance(piece, str)
        first, later = self._forms(piece)
        return first.encode(), later.encode()

    def replacement(self) -> tuple[bytes, bytes]:
        return REPLACEMENT_BYTES, REPLACEMENT_BYTES

    def advance(self, state: bool, element: tuple[bytes, bytes]) -> tuple[bytes, bool]:
        return element[state], True

    def load(self, data: Any) -> bool:
        _expect(isinstance(data, bool), "true or false", data)
        return bool(data)


def joined_forms(rule: Joined, piece: str) -> tuple[str, str]:
    """A separator before each piece but the first."""
    return piece, rule.separator + piece


def metaspace_forms(rule: Metaspace, piece: str) -> tuple[str, str]:
    """Marks become spaces; in the first piece *all* of them vanish, if one was ever prepended."""
    later = piece.replace(rule.replacement, " ")
    return (piece.replace(rule.replacement, "") if rule.prepend else later), later


WORDPIECE_CLEANUP = (
    (" .", "."),
    (" ?", "?"),
    (" !", "!"),
    (" ,", ","),
    (" ' ", "'"),
    (" n't", "n't"),
    (" 'm", "'m"),
    (" do not", " don't"),
    (" 's", "'s"),
    (" 've", "'ve"),
    (" 're", "'re"),
)
"""The ``tokenizers`` library's clean-up, applied to each token alone (``decoders/wordpiece.rs``)."""


def cleaned(text: str) -> str:
    """One token's text after WORDPIECE_CLEANUP."""
    for pattern, content in WORDPIECE_CLEANUP:
        text = text.replace(pattern, content)
    return text


def wordpiece_forms(rule: WordPiece, piece: str) -> tuple[str, str]:
    """The first piece as it is; later ones lose the prefix or gain a space; both are cleaned up."""
    continues = piece.startswith(rule.prefix)
    later = piece[len(rule.prefix) :] if continues else " " + piece
    return (cleaned(piece), cleaned(later)) if rule.cleanup else (piece, later)


# --- tokens whose text depends on being the last ----------------------------------------------------


class WordSuffix(TokenBytes):
    """The suffix in a token is a space, but nothing if the token is the last.

    State: what of the last token is open, as (its end if another token follows, its end if none does).
    """

    start = ("", "")
    rest = (" ", "")

    def __init__(
        self, decoder: TableDecoder, suffix: str, *, skip_special_tokens: bool
    ) -> None:
        self._suffix = suffix
        super().__init__(decoder, skip_special_tokens=skip_special_tokens)

    def prepare(self, piece: str | bytes) -> tuple[bytes, tuple[str, str]]:
        assert isinstance(piece, str)
        followed, last = piece.replace(self._suffix, " "), piece.replace(self._suffix, "")
        common = commonprefix([followed, last])
        return common.encode(), (followed[len(common) :], last[len(common) :])

    def replacement(self) -> tuple[bytes, tuple[str, str]]:
        return REPLACEMENT_BYTES, ("", "")

    def advance(
        self, state: tuple[str, str], element: tuple[bytes, tuple[str, str]]
    ) -> tuple[bytes, tuple[str, str]]:
        common, open_end = element
        return state[0].encode() + common, open_end

    def flush(self, state: tuple[str, str]) -> bytes:
        return state[1].encode()

    def waiting(self, state: tuple[str, str]) -> int:
        return int(state != ("", ""))

    def own(self, element: tuple[bytes, tuple[str, str]], data: bytes) -> int:
        return len(element[0])

    def load(self, data: Any) -> tuple[str, str]:
        _expect(
            isinstance(data, list) and len(data) == 2 and all(isinstance(s, str) for s in data),
            "two strings",
            data,
        )
        return data[0], data[1]


# --- tokens that depend on the one before -----------------------------------------------------------


class Collapse(TokenBytes):
    """CTC: a token equal to the one before counts once. State: that token; whether any text came."""

    start = (None, False)
    rest = (None, True)

    def __init__(self, decoder: TableDecoder, rule: CTC, *, skip_special_tokens: bool) -> None:
        self._rule = rule
        super().__init__(decoder, skip_special_tokens=skip_special_tokens)

    def prepare(self, piece: str | bytes) -> tuple[str | None, bytes, bytes]:
        """The token itself, and its text as the first and as a later one."""
        assert isinstance(piece, str)
        rule = self._rule
        text = piece.replace(rule.pad, "")
        if rule.cleanup:
            text = cleaned(text).replace(rule.delimiter, " ")
        first, later = metaspace_forms(rule.metaspace, text) if rule.metaspace else (text, text)
        return piece, first.encode(), later.encode()

    def replacement(self) -> tuple[str | None, bytes, bytes]:
        return None, REPLACEMENT_BYTES, REPLACEMENT_BYTES

    def advance(
        self, state: tuple[str | None, bool], element: tuple[str | None, bytes, bytes]
    ) -> tuple[bytes, tuple[str | None, bool]]:
        before, came = state
        piece, first, later = element
        if piece is not None and piece == before:
            return b"", state
        # A token that is empty by now is not the first; one that only Metaspace empties is.
        return (later if came else first), (piece, came or bool(later))

    def synchronises(self, element: tuple[str | None, bytes, bytes]) -> bool:
        return bool(element[2])

    def load(self, data: Any) -> tuple[str | None, bool]:
        _expect(
            isinstance(data, list)
            and len(data) == 2
            and (data[0] is None or isinstance(data[0], str))
            and isinstance(data[1], bool),
            "a token or null, and true or false",
            data,
        )
        return data[0], data[1]


# --- runs of byte tokens, as the whole decode renders them -------------------------------------------

# An open run as a state: None (no run), BROKEN, or (links, length, unfinished character), the links
# being (links before, byte): appending is O(1), and older states stay what they were.
Run = Any
BROKEN = "broken"


def run_bytes(run: Run) -> bytes:
    """The bytes of an unbroken open run."""
    if run is None or run == BROKEN:
        return b""
    links, length, _ = run
    data = bytearray(length)
    while links is not None:
        length -= 1
        links, data[length] = links
    return bytes(data)


def run_step(run: Run, byte: int) -> tuple[bytes, Run]:
    """What one more byte brings out (U+FFFD for all once the run is broken), and the run."""
    if run == BROKEN:
        return REPLACEMENT_BYTES, BROKEN
    links, length, unfinished = run or (None, 0, b"")
    data = unfinished + bytes([byte])
    text, rest = utf8.decode(data, utf8.PER_BYTE)
    # A good character encodes to the bytes it came from; so does U+FFFD if it was spelled out.
    if text and text.encode() != data:
        return REPLACEMENT_BYTES * (length + 1), BROKEN
    return b"", ((links, byte), length + 1, rest)


def run_close(run: Run) -> bytes:
    """What a run becomes when something else, or nothing, follows."""
    if run is None or run == BROKEN:
        return b""
    _, length, unfinished = run
    return REPLACEMENT_BYTES * length if unfinished else run_bytes(run)


def dump_run(run: Run) -> str | None:
    """A run as JSON: null, "broken", or its bytes in hex."""
    return run if run is None or run == BROKEN else run_bytes(run).hex()


def load_run(data: Any) -> Run:
    """The run that ``dump_run`` gave ``data`` for."""
    if data is None or data == BROKEN:
        return data
    _expect(isinstance(data, str) and data != "", "null, 'broken' or hex", data)
    run: Run = None
    for byte in bytes.fromhex(data):
        _, run = run_step(run, byte)
    _expect(run != BROKEN, "the bytes of an unbroken run", data)
    return run


class ExactRuns(TokenBytes):
    """Byte fallback, a run withheld until it closes. State: the open run."""

    def prepare(self, piece: str | bytes) -> int | bytes:
        assert isinstance(piece, str)
        byte = fallback_byte(piece)
        return piece.encode() if byte is None else byte

    def replacement(self) -> bytes:
        return REPLACEMENT_BYTES

    def advance(self, state: Run, element: int | bytes) -> tuple[bytes, Run]:
        if isinstance(element, int):
            return run_step(state, element)
        return run_close(state) + element, None

    def flush(self, state: Run) -> bytes:
        return run_close(state)

    def held(self, state: Run) -> bytes:
        return run_bytes(state)

    def is_bounded(self, state: Run) -> bool:
        return state is None or state == BROKEN

    def waiting(self, state: Run) -> int:
        return 0 if state is None or state == BROKEN else int(state[1])

    def own(self, element: int | bytes, data: bytes) -> int:
        return min(len(data), 3) if isinstance(element, int) else len(element)

    def synchronises(self, element: int | bytes) -> bool:
        return not isinstance(element, int)

    def dump(self, state: Run) -> Any:
        return dump_run(state)

    def load(self, data: Any) -> Run:
        return load_run(data)


class RunsThenSpaces(TokenBytes):
    """Byte fallback whose runs and texts go through Metaspace one by one (ChatGLM3).

    State: what came, and the open run. What came: nothing, a first run of bytes that is still open
    (all of it counts as the first element), or more.
    """

    NOTHING, FIRST_RUN, MORE = range(3)
    start = (NOTHING, None)
    rest = (MORE, None)
    has_anchors = False

    def __init__(
        self,
        decoder: TableDecoder,
        rule: Metaspace,
        byte_runs: ByteRuns,
        *,
        skip_special_tokens: bool,
    ) -> None:
        self._rule = rule
        self._eager = byte_runs == "eager"
        super().__init__(decoder, skip_special_tokens=skip_special_tokens)

    def prepare(self, piece: str | bytes) -> int | str:
        assert isinstance(piece, str)
        byte = fallback_byte(piece)
        return piece if byte is None else byte

    def _spaced(self, text: str, came: int) -> bytes:
        return metaspace_forms(self._rule, text)[came == self.MORE].encode()

    def advance(self, state: tuple[int, Run], element: int | str) -> tuple[bytes, tuple[int, Run]]:
        came, run = state
        if isinstance(element, int):
            came = came or self.FIRST_RUN
            text, run = self._run_step(run, element)
            return self._spaced(text, came), (came, run)
        closed = self._spaced(self._run_close(run), came)
        came = self.MORE if came else self.NOTHING
        return closed + self._spaced(element, came), (self.MORE, None)

    def _run_step(self, run: Run, byte: int) -> tuple[str, Run]:
        if self._eager:
            text, rest = utf8.decode((run or b"") + bytes([byte]), utf8.PER_BYTE)
            return text, rest or None
        data, run = run_step(run, byte)
        return data.decode(), run

    def _run_close(self, run: Run) -> str:
        return utf8.flush(run or b"", utf8.PER_BYTE) if self._eager else run_close(run).decode()

    def flush(self, state: tuple[int, Run]) -> bytes:
        return self._spaced(self._run_close(state[1]), state[0])

    def held(self, state: tuple[int, Run]) -> bytes:
        return (state[1] or b"") if self._eager else run_bytes(state[1])

    def is_bounded(self, state: tuple[int, Run]) -> bool:
        return self._eager or state[1] is None or state[1] == BROKEN

    def synchronises(self, element: int | str) -> bool:
        return not isinstance(element, int)

    def dump(self, state: tuple[int, Run]) -> Any:
        run = (state[1] or b"").hex() or None if self._eager else dump_run(state[1])
        return [state[0], run]

    def load(self, data: Any) -> tuple[int, Run]:
        _expect(isinstance(data, list) and len(data) == 2, "a stage and a run", data)
        came, run = data
        _expect(type(came) is int and 0 <= came <= 2, "0, 1 or 2", came)
        _expect(came != self.NOTHING or run is None, "no run before any token", run)
        if not self._eager:
            return came, load_run(run)
        _expect(run is None or isinstance(run, str), "null or hex", run)
        unfinished = bytes.fromhex(run or "")
        _expect(
            utf8.decode(unfinished, utf8.PER_BYTE) == ("", unfinished), "a character's start", run
        )
        return came, unfinished or None


# --- the beginning of the text ----------------------------------------------------------------------

Stripping = tuple[State, int, bytes]
"""The state of a LeadingStrip."""


class LeadingStrip(TokenBytes):
    """Removes up to ``count`` times ``char`` from the very beginning of what ``inner`` gives.

    State: inner's; how many may still be removed; the bytes that may begin one more of them.
    """

    def __init__(self, inner: TokenBytes, char: bytes, count: int) -> None:
        self._inner = inner
        self._char = char
        self._count = count
        self._elements = inner._elements
        self.whole = {}
        self.errors = inner.errors
        self.start = (inner.start, count, b"")
        self.rest = (inner.rest, 0, b"")
        self.has_anchors = inner.has_anchors and len(char) == 1

    def prepare(self, piece: str | bytes) -> Element:
        return self._inner.prepare(piece)

    def replacement(self) -> Element:
        return self._inner.replacement()

    def advance(self, state: Stripping, element: Element) -> tuple[bytes, Stripping]:
        inner, left, begun = state
        data, inner = self._inner.advance(inner, element)
        if left:
            data, left, begun = self._strip(begun + data, left)
        return data, (inner, left, begun)

    def _strip(self, data: bytes, left: int) -> tuple[bytes, int, bytes]:
        while left and data.startswith(self._char):
            data, left = data[len(self._char) :], left - 1
        if left and self._char.startswith(data):
            return b"", left, data
        return data, 0, b""

    def flush(self, state: Stripping) -> bytes:
        inner, left, begun = state
        data, _, begun = self._strip(begun + self._inner.flush(inner), left)
        return data + begun

    def held(self, state: Stripping) -> bytes:
        return state[2] + self._inner.held(state[0])

    def is_bounded(self, state: Stripping) -> bool:
        return self._inner.is_bounded(state[0])

    def waiting(self, state: Stripping) -> int:
        return self._inner.waiting(state[0])

    def own(self, element: Element, data: bytes) -> int:
        return min(len(data), self._inner.own(element, data))

    def prime(
        self, token_ids: Sequence[SupportsIndex], *, show_unknown: bool
    ) -> tuple[State, bytes]:
        """The front of the prompt says what may still be removed, its end the rest."""
        state = self.start
        for element in self.contributions(token_ids, show_unknown):
            _, state = self.advance(state, element)
            if state[1] == 0:
                break
        else:
            return state, b""
        inner, tail = self._inner.prime(token_ids, show_unknown=show_unknown)
        return (inner, 0, b""), tail

    def dump(self, state: Stripping) -> Any:
        return [self._inner.dump(state[0]), state[1], state[2].hex()]

    def load(self, data: Any) -> Stripping:
        _expect(isinstance(data, list) and len(data) == 3, "a state, a count and hex", data)
        inner, left, begun = data[0], data[1], bytes.fromhex(data[2])
        _expect(type(left) is int and 0 <= left <= self._count, f"0 to {self._count}", left)
        _expect(
            begun == b"" or (left > 0 and begun != self._char and self._char.startswith(begun)),
            "the beginning of what is stripped",
            begun,
        )
        return self._inner.load(inner), left, begun


# --- choosing the machine ----------------------------------------------------------------------------


def compile_token_bytes(
    decoder: TableDecoder, *, skip_special_tokens: bool, byte_runs: ByteRuns
) -> TokenBytes | None:
    """The machine for ``decoder``'s rules; None if they cannot be followed byte by byte."""
    rules: TextRules | None = decoder.rules
    if rules is None:
        return None
    machine = _machine(decoder, rules.rule, skip_special_tokens, byte_runs)
    char, count = rules.strip_left
    return LeadingStrip(machine, char.encode(), count) if count else machine


def _machine(
    decoder: TableDecoder, rule: DecodingRule, skip: bool, byte_runs: ByteRuns
) -> TokenBytes:
    match rule:
        case RawBytes() | Concatenation():
            return FixedBytes(decoder, text_bytes, skip_special_tokens=skip)
        case ByteLevel():
            return FixedBytes(decoder, byte_level, skip_special_tokens=skip)
        case Joined():
            return FirstThenLater(
                decoder, lambda piece: joined_forms(rule, piece), skip_special_tokens=skip
            )
        case Metaspace():
            return FirstThenLater(
                decoder, lambda piece: metaspace_forms(rule, piece), skip_special_tokens=skip
            )
        case WordPiece():
            return FirstThenLater(
                decoder, lambda piece: wordpiece_forms(rule, piece), skip_special_tokens=skip
            )
        case BPESuffix():
            return WordSuffix(decoder, rule.suffix, skip_special_tokens=skip)
        case CTC():
            return Collapse(decoder, rule, skip_special_tokens=skip)
        case ByteFallback(metaspace=None):
            if byte_runs == "exact":
                return ExactRuns(decoder, skip_special_tokens=skip)
            return FixedBytes(
                decoder, fallback_bytes, skip_special_tokens=skip, errors=utf8.PER_BYTE
            )
        case ByteFallback(metaspace=metaspace):
            assert metaspace is not None
            return RunsThenSpaces(decoder, metaspace, byte_runs, skip_special_tokens=skip)
