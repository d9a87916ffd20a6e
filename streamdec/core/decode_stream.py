"""DecodeStream: token ids in, text out, one id at a time."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, ClassVar, Self, SupportsIndex

from streamdec.chunks import Chunk, TokenSpan, Withheld
from streamdec.core import snapshots
from streamdec.core.byte_runs import ByteFallbackMode
from streamdec.core.counting import FIRST_TICK, TICKS, Tick
from streamdec.core.program import Options, Program, Route, UnknownIds
from streamdec.core.programs import AnyProgram, program_for
from streamdec.core.recorder import Recorder
from streamdec.core.rows import LoneRow, Row
from streamdec.core.token_ids import MAX_TOKEN_ID, as_sequence, check_token_id
from streamdec.core.unknown_ids import unknown_id, warn_once
from streamdec.errors import FinishedError
from streamdec.protocols import Decoder, provide_decode_stream

__all__ = ["DecodeStream"]


class DecodeStream:
    r"""Turns token ids into text as they come; the chunks joined are the whole decode.

    Withheld is only what must be: the bytes of an unfinished character, three at most (and, with
    ``byte_fallback="exact"``, an open run of byte tokens). Bytes that are no UTF-8 become one
    U+FFFD for each maximal part of a character, as the Unicode Standard advises (section 3.9,
    *U+FFFD Substitution of Maximal Subparts*); those of byte-fallback tokens as ``byte_fallback``
    says.

    Args:
        tokenizer: what decodes; see :mod:`streamdec.protocols`. Anything with
            ``decode(ids, skip_special_tokens=...)`` will do; a backend makes it exact and fast.
        prompt_token_ids: ids that came before. They are never given out; they say what is pending
            and that something precedes. Looked at from the end, only as far as needed; not kept.
            Unknown ones never raise.
        skip_special_tokens: leave special tokens out, as the tokenizer's own ``decode`` does.
        byte_fallback: for byte-fallback tokenizers. ``"eager"`` gives characters as they complete
            and one U+FFFD for each bad byte; ``"exact"`` withholds an open run of byte tokens and
            renders it as the ``tokenizers`` library does, where one bad byte spoils the run.
        unknown_ids: ids that the tokenizer does not have (padded vocabularies make them normal).
            ``"skip"`` gives nothing and counts them, ``"error"`` raises UnknownTokenError,
            ``"replace"`` gives U+FFFD. On the windowed route only ``"skip"`` can be had, and they
            are not counted.
        clean_up_tokenization_spaces: apply the clean-up of ``transformers`` to the text.
        keep_tokens: keep the generated ids in ``token_ids`` (memory then grows with the stream).
        spans: note where each token stands in the text, for ``take_spans()``. Not together with
            the clean-up, nor on the windowed route.

    Raises:
        ValueError: an option's value that is none, or that cannot be had with this tokenizer or
            with another option.
        TypeError: a flag that is no bool, a prompt that is no list of ids, or a tokenizer without
            ``decode``.
        TokenIdError: a prompt id (among those looked at) that is no token id.

    **Cost.** What a token does after what is withheld is worked out once and kept in a row, as a
    lazy DFA (RE2's, for one) keeps its states; from then on a step is one look-up. On the windowed
    route it decodes windows of 64 ids at most. Either way its cost does not grow with the stream.
    The first stream of a tokenizer compares a few hundred ids with ``decode``; where they differ it
    warns (StreamdecWarning) and takes the windowed route.

    **Memory.** A stream takes some 250 bytes, whatever its length; on the windowed route, where
    nothing is shared, 1.5 KB. With the tokenizer lives what was worked out, shared by all its
    streams: of each id that was met some 250 bytes (40 MB once it was a whole vocabulary of
    150,000), and, for each set of options, rows that are forgotten when they have 65,536 entries
    (of 100 to 210 bytes).

    **Threads.** Not for two at once; streams of one tokenizer may run in as many as there are.

    >>> from streamdec import DecodeStream, MockTokenizer
    >>> stream = DecodeStream(MockTokenizer.from_tokens([b"caf", b"\xc3", b"\xa9", b"!"]))
    >>> [stream.step(token_id) for token_id in (0, 1, 2, 3)]
    ['caf', '', 'é', '!']
    """

    __slots__ = (
        "__weakref__",
        "_counted",
        "_finished",
        "_num_prompt_tokens",
        "_primed",
        "_program",
        "_recorder",
        "_row",
        "_tick",
        "_unknown_tokens",
        "tokenizer",
    )

    _machine: ClassVar[str] = "decode_stream"
    _row: Any
    """A Row; () if the steps are recorded."""
    _tick: Tick

    def __init__(
        self,
        tokenizer: Decoder,
        prompt_token_ids: Iterable[SupportsIndex] = (),
        *,
        skip_special_tokens: bool = True,
        byte_fallback: ByteFallbackMode = "eager",
        unknown_ids: UnknownIds = "skip",
        clean_up_tokenization_spaces: bool = False,
        keep_tokens: bool = False,
        spans: bool = False,
    ) -> None:
        options = Options(
            skip_special_tokens, byte_fallback, unknown_ids, clean_up_tokenization_spaces
        )
        prompt = as_sequence(prompt_token_ids)
        self.tokenizer: Decoder = tokenizer
        """The tokenizer of the stream."""
        self._program: AnyProgram = program_for(tokenizer, options)
        self._primed = self._program.prime(prompt)
        self._num_prompt_tokens = len(prompt)
        self._recorder: Recorder | None = None
        if keep_tokens or spans:
            self._recorder = Recorder(self._program, self._primed, tokens=keep_tokens, spans=spans)
        self.reset()

    def reset(self) -> None:
        """Back to where the stream was after its prompt; at any time, also after ``flush``.

        Kept ids and untaken spans are forgotten.
        """
        if self._recorder:
            self._recorder.reset()
        self._go(self._program.first_row(self._primed))
        self._count(0)
        self._unknown_tokens = 0
        self._finished = False

    # --- the two verbs

    def step(self, token_id: SupportsIndex) -> str:
        r"""The text that ``token_id`` completes; "" while a character is unfinished.

        Raises:
            TokenIdError: not an integer from 0 to 2**32 - 1 (a bool is none; NumPy integers are).
            UnknownTokenError: unknown to the tokenizer, under ``unknown_ids="error"``.
            FinishedError: after ``flush``.
            RewriteError: the windowed route's tokenizer took back text.

        After an error the stream is as it was before the token.

        >>> from streamdec import DecodeStream, MockTokenizer, TokenIdError
        >>> stream = DecodeStream(MockTokenizer.from_tokens([b"caf", b"\xc3", b"\xa9"]))
        >>> stream.step(0)
        'caf'
        >>> try:
        ...     stream.step(-1)
        ... except TokenIdError as error:
        ...     error.index, stream.num_tokens
        (1, 1)
        """
        text: str
        row: Row | None
        try:
            # Lists count negative numbers from their end, and find 1 for True.
            if token_id > 1 or (type(token_id) is int and token_id >= 0):  # type: ignore[operator]
                text, row = self._row[token_id]
                if row is None:
                    self._tick = self._tick[0]
                    return text
                # Dicts find 2.0; each of their entries names a row.
                if type(token_id) is int:
                    self._tick = self._tick[0]
                    self._row = row
                    return text
        except Exception:  # noqa: BLE001 (the slow path names what is wrong, if anything is)
            pass
        return self._miss(token_id)

    def _miss(self, token_id: SupportsIndex) -> str:
        """The step, where the row does not have the token."""
        text: str
        if self._finished:
            raise FinishedError("the stream was flushed; reset() begins anew")
        if type(token_id) is not int or not 0 <= token_id <= MAX_TOKEN_ID:
            token_id = check_token_id(token_id, self.num_tokens)
        program, recorder = self._program, self._recorder
        before = self._row if recorder is None else recorder.row
        try:
            text, after = program.entry(before, token_id)
        except KeyError:
            text, after = self._unknown(token_id)
        if not self._tick:
            self._count(self.num_tokens + 1)
        else:
            self._tick = self._tick[0]
        if recorder is not None:
            recorder.token(program.memory(before), token_id)
        self._go(after)
        return text

    def _go(self, row: Row | None) -> None:
        """Moves to ``row``. A recording stream keeps it where the plain step does not find it."""
        row = self._program.dense if row is None else row
        if self._recorder is None:
            self._row = row
        else:
            self._recorder.row, self._row = row, ()

    def _count(self, num_tokens: int) -> None:
        """Makes ``num_tokens`` what it is: what was counted, and the ticks since."""
        self._counted = num_tokens
        self._tick = FIRST_TICK

    def _unknown(self, token_id: int) -> tuple[str, Row]:
        program = self._program
        if program.options.unknown_ids == "error":
            raise unknown_id(token_id, self.num_tokens)
        text, memory = program.unknown(self._memory)
        self._unknown_tokens += 1
        warn_once(self.tokenizer, token_id)
        return text, program.row(memory)

    def step_batch(self, token_ids: Iterable[SupportsIndex]) -> list[str]:
        r"""The text of each of ``token_ids``, one entry a token (which may be "").

        Takes a list, an array or tensor of one dimension, or any other ordered iterable, which is
        read to its end first; the same as a ``step`` for each.

        Raises what ``step`` raises, and TypeError for what is no list of ids; ``error.chunk`` then
        has the text of the tokens before, ``error.num_taken`` is how many they were, and the stream
        is as it was after them.

        >>> from streamdec import DecodeStream, MockTokenizer, TokenIdTypeError
        >>> stream = DecodeStream(MockTokenizer.from_tokens([b"caf", b"\xc3", b"\xa9"]))
        >>> try:
        ...     stream.step_batch([0, 1, "é"])
        ... except TokenIdTypeError as error:
        ...     error.chunk.text, error.num_taken, stream.held
        ('caf', 2, b'\xc3')
        """
        texts: list[str] = []
        try:
            for token_id in as_sequence(token_ids):
                texts.append(self.step(token_id))  # noqa: PERF401 (what came before an error counts)
        except Exception as error:
            error.chunk = Chunk("".join(texts))  # type: ignore[attr-defined]
            error.num_taken = len(texts)  # type: ignore[attr-defined]
            raise
        return texts

    def flush(self) -> str:
        """The text that comes out because nothing follows; afterwards only ``reset`` is left.

        An unfinished character becomes U+FFFD, one for each maximal part. A second ``flush`` gives
        "". Raises RewriteError as ``step`` does.
        """
        if self._finished:
            return ""
        if self._recorder:
            self._recorder.finish(self._memory)
        text, memory = self._program.flush(self._memory)
        self._finish(memory)
        return text

    def _finish(self, memory: Any) -> None:
        # A row that is in no program and knows no token: each step misses and is refused.
        self._go(LoneRow(memory))
        self._finished = True

    # --- bytes

    def step_bytes(self, token_id: SupportsIndex) -> bytes:
        r"""``step``, giving the raw bytes that ``token_id`` brings out, finished characters or not.

        Of a prompt's unfinished character only the generated bytes come. Text replacements
        (clean-up) do not apply to bytes.

        Raises what ``step`` raises, and ValueError on the windowed route.

        >>> from streamdec import DecodeStream, MockTokenizer
        >>> stream = DecodeStream(MockTokenizer.from_tokens([b"caf", b"\xc3", b"\xa9"]))
        >>> stream.step_bytes(0), stream.step_bytes(1), stream.flush_bytes()
        (b'caf', b'\xc3', b'')
        """
        program = self._bytes_program("step_bytes()")
        memory = self._memory
        self.step(token_id)
        return program.data(memory, token_id.__index__())

    def flush_bytes(self) -> bytes:
        """``flush`` after ``step_bytes``: the bytes that had not come out.

        b"" but for what waits for its neighbour (as in an open run under
        ``byte_fallback="exact"``).
        Raises ValueError on the windowed route.
        """
        program = self._bytes_program("flush_bytes()")
        data = b"" if self._finished else program.token_bytes.flush(self._memory[0])
        self.flush()
        return data

    def _bytes_program(self, what: str) -> Program:
        if isinstance(self._program, Program):
            return self._program
        raise ValueError(f"{what} needs the bytes route; this stream decodes over a window of text")

    # --- what may be asked

    @property
    def _memory(self) -> Any:
        return self._program.memory(self._row if self._recorder is None else self._recorder.row)

    @property
    def route(self) -> Route:
        """``"bytes"`` (exact, compiled) or ``"window"`` (over the tokenizer's own decode)."""
        return self._program.route

    @property
    def program(self) -> AnyProgram:
        """What the stream runs on, shared with all streams of its tokenizer and options.

        To be looked at, as in a debugger: what it is may change with any release.
        """
        return self._program

    @property
    def options(self) -> dict[str, Any]:
        """The options of its decoding, by name, as the constructor takes them (a new dict)."""
        return self._program.options._asdict()

    @property
    def held(self) -> bytes:
        """The bytes that wait for the end of their character (or run); b"" after ``flush``.

        At first those of the prompt's last character. On the windowed route, where nothing is known
        of bytes, what ``flush`` would give, as UTF-8.
        """
        return b"" if self._finished else self._program.held(self._memory)

    @property
    def withheld(self) -> Withheld:
        """How much is held, and how many tokens came since all text was out."""
        if self._finished:
            return Withheld()
        return self._program.withheld(self._row if self._recorder is None else self._recorder.row)

    @property
    def num_tokens(self) -> int:
        """How many tokens were given to ``step``, skipped and unknown ones included."""
        return self._counted + (self._tick[1] if self._tick else TICKS)

    @property
    def num_prompt_tokens(self) -> int:
        """How many tokens the prompt has."""
        return self._num_prompt_tokens

    @property
    def unknown_tokens(self) -> int:
        """How many of the generated ids the tokenizer does not have; 0 on the windowed route."""
        return self._unknown_tokens

    @property
    def read_offset(self) -> int:
        """How many tokens, the prompt's included, have their text wholly out."""
        return self._num_prompt_tokens + self.num_tokens - self._program.offsets(self._memory)[1]

    @property
    def prefix_offset(self) -> int:
        """Where the text that ended at ``read_offset`` began (after a prompt: 5 tokens earlier)."""
        return self.read_offset - self._program.offsets(self._memory)[0]

    @property
    def finished(self) -> bool:
        """Whether the stream was flushed."""
        return self._finished

    @property
    def token_ids(self) -> list[int]:
        """The generated ids (a copy). AttributeError unless ``keep_tokens=True`` was given."""
        if self._recorder is None or self._recorder.token_ids is None:
            raise AttributeError("token_ids are kept only with keep_tokens=True")
        return self._recorder.token_ids.copy()

    def take_spans(self) -> list[TokenSpan]:
        r"""The spans settled since the last call, in the order of the tokens.

        A span is settled when nothing that follows can change it: mostly with its token, else
        with the one that completes its character; at the latest by ``flush``. Until it is taken it
        is kept, so memory grows by some 240 bytes for each that is not; without any it is 3 KB.

        Raises ValueError unless ``spans=True`` was given.

        >>> from streamdec import DecodeStream, MockTokenizer
        >>> tokenizer = MockTokenizer.from_tokens([b"caf", b"\xc3", b"\xa9"])
        >>> stream = DecodeStream(tokenizer, spans=True)
        >>> stream.step_batch([0, 1, 2])
        ['caf', '', 'é']
        >>> [(span.token_index, span.start, span.end) for span in stream.take_spans()]
        [(0, 0, 3), (1, 3, 4), (2, 3, 4)]
        """
        if self._recorder is None or self._recorder.tracker is None:
            raise ValueError("spans are noted only with spans=True")
        return self._recorder.tracker.take()

    # --- copies

    def fork(self) -> Self:
        """A stream that goes on from here on its own: for several samples of one prompt.

        Costs 120 bytes, and what ``keep_tokens`` and ``spans`` have kept. ``copy.copy`` and
        ``copy.deepcopy`` do the same; the tokenizer is shared.
        """
        other = object.__new__(type(self))
        other.tokenizer = self.tokenizer
        other._program = self._program
        other._primed = self._primed
        other._num_prompt_tokens = self._num_prompt_tokens
        other._row = self._row
        other._counted, other._tick = self._counted, self._tick
        other._unknown_tokens = self._unknown_tokens
        other._finished = self._finished
        other._recorder = self._recorder and self._recorder.fork(self.num_tokens)
        return other

    __copy__ = fork

    def __deepcopy__(self, memo: dict[int, Any]) -> Self:
        return self.fork()

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self).restore, (self.tokenizer, self.snapshot())

    def snapshot(self) -> dict[str, Any]:
        r"""The stream as JSON (dicts, lists, text, numbers), for ``restore`` here or elsewhere.

        It has the tokenizer's fingerprint, the options, and what is withheld, not the text that was
        given: 100 to 300 bytes (500 on the windowed route), more with ``keep_tokens`` or
        ``spans``. The stream goes on. The format is kept readable by every later release.

        >>> from streamdec import DecodeStream, MockTokenizer
        >>> tokenizer = MockTokenizer.from_tokens([b"caf", b"\xc3", b"\xa9"])
        >>> stream = DecodeStream(tokenizer)
        >>> stream.step_batch([0, 1])
        ['caf', '']
        >>> DecodeStream.restore(tokenizer, stream.snapshot()).step(2)
        'é'
        """
        return snapshots.dump(
            self._machine,
            self.tokenizer,
            self._program,
            {
                "memory": self._program.dump(self._memory),
                "primed": self._program.dump(self._primed),
                "num_tokens": self.num_tokens,
                "num_prompt_tokens": self._num_prompt_tokens,
                "unknown_tokens": self._unknown_tokens,
                "finished": self._finished,
                "recorder": self._recorder and self._recorder.dump(),
            },
        )

    @classmethod
    def restore(cls, tokenizer: Decoder, snapshot: dict[str, Any], **expected: object) -> Self:
        """The stream that ``snapshot()`` described.

        Args:
            tokenizer: must decode as the one of the snapshot does.
            snapshot: as ``snapshot()`` gave it, possibly by way of JSON. It may come from anywhere:
                all of it is checked.
            expected: options that the snapshot must have been taken with.

        Raises:
            SnapshotMismatchError: of another tokenizer, machine, route or options.
            SnapshotError: no snapshot of a stream, or one that cannot be.
            TypeError: a name in ``expected`` that is no option.
        """
        options, fields = snapshots.load(cls._machine, tokenizer, snapshot, expected)
        stream = object.__new__(cls)
        stream.tokenizer = tokenizer
        with snapshots.reading(fields):
            stream._program = program_for(tokenizer, options)
            stream._restore(fields)
        return stream

    def _restore(self, fields: snapshots.Fields) -> None:
        program = self._program
        fields.check_route(program.route)
        self._primed = program.load(fields.take("primed", {}))
        self._num_prompt_tokens = fields.count("num_prompt_tokens")
        self._unknown_tokens = fields.count("unknown_tokens")
        self._count(fields.count("num_tokens"))
        if self._unknown_tokens > self.num_tokens:
            raise ValueError(f"{self._unknown_tokens} unknown tokens of {self.num_tokens}")
        recorder = fields.take("recorder", None)
        self._recorder = recorder and Recorder.load(
            program, self._primed, recorder, self.num_tokens
        )
        self._finished = False
        memory = program.load(fields.take("memory", {}))
        if sum(program.offsets(memory)) > self._num_prompt_tokens + self.num_tokens:
            raise ValueError("more tokens are withheld than there are")
        if self._recorder and not self._recorder.fits(memory):
            raise ValueError("the spans are of another stream")
        self._go(program.row(memory))
        if fields.flag("finished"):
            self._finish(memory)

    def __repr__(self) -> str:
        return (
            f"<{type(self).__name__} {self.num_tokens} tokens, route {self.route!r}, "
            f"held {self.held!r}{', finished' if self._finished else ''}>"
        )


provide_decode_stream(DecodeStream)
