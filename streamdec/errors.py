"""Every exception and warning of streamdec.

    StreamdecError
    ├── TokenIdError (ValueError)            not an id: negative or above 2**32 - 1
    │   ├── TokenIdTypeError (TypeError)     not an id: not an integer, or a bool
    │   └── UnknownTokenError                an id the tokenizer has not (unknown_ids="error")
    ├── FinishedError (RuntimeError)         a step after the end
    ├── RewriteError                         a windowed decode took back text that was given
    ├── SnapshotError (ValueError)           a snapshot that cannot be continued
    │   └── SnapshotMismatchError            … as it belongs to another tokenizer or options
    ├── SourceError (ValueError)             an engine's output that cannot be read
    ├── IdleTimeoutError (TimeoutError)      a source that gave nothing for too long
    ├── QueueClosedError (RuntimeError)       a put into a TokenQueue that has ended
    ├── QueueFullError (RuntimeError)         a put into a full TokenQueue, where it was not to wait
    ├── UnknownRequestError (KeyError)       a request that a pool does not have
    ├── TokenizerLoadError (ValueError)      a tokenizer file that cannot be read
    │   └── UnsupportedFormatError           … as its format is none that streamdec serves
    ├── EncodeError (ValueError)             a text that cannot be encoded, or must not be
    ├── TokenizerLibraryError (RuntimeError) the library under a tokenizer failed or panicked
    ├── StopRegexTimeoutError (TimeoutError) a stop regex that takes too long on this text
    ├── ChatTemplateError (ValueError)       a chat template that is missing, broken or says no
    ├── PreflightError (ValueError)          a path where no model can be looked for
    ├── TraceError (ValueError)              lines that are no trace, or a trace without ids
    └── MissingExtraError (ImportError)      an optional dependency that is not installed

    StreamdecWarning (UserWarning)           streamdec goes on, in another way than was hoped for

An error raised in the middle of several tokens leaves the machine in the state of the token before
the one that failed; the text decoded by the same call until then is ``error.chunk``, and
``error.num_taken`` how many of the call's tokens were.

Each class says when it is raised, what is left, and what to do; ``docs/reference/errors.md`` is
made of that.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Self

if TYPE_CHECKING:
    from streamdec.chunks import Chunk

__all__ = [
    "ChatTemplateError",
    "EncodeError",
    "FinishedError",
    "IdleTimeoutError",
    "MissingExtraError",
    "PreflightError",
    "QueueClosedError",
    "QueueFullError",
    "RewriteError",
    "SnapshotError",
    "SnapshotMismatchError",
    "SourceError",
    "StopRegexTimeoutError",
    "StreamdecError",
    "StreamdecWarning",
    "TokenIdError",
    "TokenIdTypeError",
    "TokenizerLibraryError",
    "TokenizerLoadError",
    "TraceError",
    "UnknownRequestError",
    "UnknownTokenError",
    "UnsupportedFormatError",
]


class StreamdecError(Exception):
    """The root of all errors of streamdec.

    When: never itself; ``except StreamdecError`` catches every other one.

    What is left: the machine, as it was before the token that failed. ``chunk`` is what the failing
    call had already decoded (None for a call of one token, and where the text was given out
    already), ``num_taken`` how many of that call's tokens it took; both survive pickling.

    What to do: give out ``chunk.text``, and see the class that was raised.

    >>> from streamdec import DecodeStream, MockTokenizer, StreamdecError
    >>> stream = DecodeStream(MockTokenizer())
    >>> try:
    ...     stream.step_batch([1, 2, -1, 3])
    ... except StreamdecError as error:
    ...     print(error.chunk.text, error.num_taken)
    Hello world 2
    """

    chunk: Chunk | None = None
    num_taken: int = 0


class TokenIdError(StreamdecError, ValueError):
    """A token id outside 0 … 2**32 - 1.

    When: by ``step``, ``step_batch``, ``append_token`` or a prompt that is given such a number,
    whatever ``unknown_ids`` says. From ``stream`` and ``iter_chunks`` it comes after all text that
    was certain before it; a ``DecoderPool`` has it in ``errors`` and ends that request alone.

    What is left: the machine, as it was before the token, with ``chunk`` and ``num_taken`` of the
    tokens before it in the same call. ``token_id`` is the object that was given, ``index`` its
    place among the generated tokens (None for one of a prompt), ``message`` the text.

    What to do: look where the number comes from; -1 and 2**32 are paddings and masks, which are to
    be cut off before. The stream can go on with the next id, or ``flush``.

    >>> from streamdec import DecodeStream, MockTokenizer, TokenIdError
    >>> stream = DecodeStream(MockTokenizer())
    >>> try:
    ...     stream.step(-1)
    ... except TokenIdError as error:
    ...     print(error.token_id, error.index)
    -1 0
    >>> stream.step(1)
    'Hello'
    """

    def __init__(self, message: str, token_id: object, index: int | None) -> None:
        super().__init__(message)
        self.token_id = token_id
        self.index = index

    def at(self, index: int) -> Self:
        """The same error of a token in another place: in the list that the caller has in mind."""
        message = self.args[0].replace(f"token {self.index}", f"token {index}", 1)
        return type(self)(message, self.token_id, index)

    def __reduce__(self) -> tuple[object, ...]:
        before = {"chunk": self.chunk, "num_taken": self.num_taken}
        return type(self), (self.args[0], self.token_id, self.index), before


class TokenIdTypeError(TokenIdError, TypeError):
    """A token id that is no integer, or is a ``bool``.

    When: as ``TokenIdError``, for anything that has no ``__index__``. NumPy's integers are welcome.

    What is left: as for ``TokenIdError``.

    What to do: give ids. ``True`` and 1.0 compare equal to 1, so they would otherwise be token 1.

    >>> from streamdec import DecodeStream, MockTokenizer, TokenIdTypeError
    >>> try:
    ...     DecodeStream(MockTokenizer()).step(True)
    ... except TokenIdTypeError as error:
    ...     print(error.token_id, error.index, isinstance(error, TypeError))
    True 0 True
    """


class UnknownTokenError(TokenIdError):
    """An id that the tokenizer does not have, where ``unknown_ids="error"`` was asked for.

    When: by a step. By default (``"skip"``) such an id gives no text, is counted in
    ``unknown_tokens`` and logged once: padded vocabularies make them normal.

    What is left: as for ``TokenIdError``.

    What to do: check that tokenizer and model belong together (``streamdec preflight``); or ask for
    ``"skip"``, or for ``"replace"``, which gives U+FFFD.

    >>> from streamdec import DecodeStream, MockTokenizer, UnknownTokenError
    >>> stream = DecodeStream(MockTokenizer(), unknown_ids="error")
    >>> try:
    ...     stream.step_batch([1, 77])
    ... except UnknownTokenError as error:
    ...     print(error.token_id, error.index, error.chunk.text)
    77 1 Hello
    """


class FinishedError(StreamdecError, RuntimeError):
    """A step after the end.

    When: a DecodeStream was flushed; a StopSequenceDecoder has a ``finish_reason`` (a stop, the
    limit, or ``flush``); a sample of an encoder of wire formats has ended. Ids of one
    ``step_batch`` behind its finish are no error: ``chunk.unread_tokens`` counts them.

    What is left: everything: ``finish_reason``, ``match``, ``snapshot()``. ``flush`` may be called
    again.

    What to do: stop at the first chunk with a ``finish_reason``, and cancel the engine;
    ``reset()`` begins again.

    >>> from streamdec import DecodeStream, MockTokenizer
    >>> stream = DecodeStream(MockTokenizer())
    >>> stream.flush()
    ''
    >>> stream.step(1)
    Traceback (most recent call last):
    ...
    streamdec.errors.FinishedError: the stream has ended (length); reset() begins again
    """


class RewriteError(StreamdecError):
    """The decode of a window changed text that had already been given.

    When: by a step, on the windowed route alone (``stream.route == "window"``): the tokenizer's own
    ``decode`` is not append-only. Nothing is ever taken back, so this is the end of the text.

    What is left: the stream, as it was before the token; it cannot go on beyond it.

    What to do: load the tokenizer by ``load_tokenizer``, which compiles most; or begin a new stream
    with the next ids.

    >>> from streamdec import DecodeStream, RewriteError
    >>> class Reverses:
    ...     def decode(self, token_ids, skip_special_tokens=True):
    ...         return "".join(map(chr, reversed(token_ids)))
    >>> stream = DecodeStream(Reverses())
    >>> try:
    ...     stream.step_batch([97, 98])
    ... except RewriteError as error:
    ...     print(stream.route, error.chunk.text)
    window a
    """


class SnapshotError(StreamdecError, ValueError):
    """A snapshot that is malformed, of an unknown format, or impossible for this tokenizer.

    When: by ``restore``, ``adopt`` and workers that take a snapshot over. All of it is checked, as
    it comes from outside.

    What is left: the snapshot, unchanged. No machine was made.

    What to do: if the format is not known, a newer release wrote it. If it is malformed, something
    on its way changed it: it is JSON, about 100 bytes, and goes as it is.

    >>> from streamdec import DecodeStream, MockTokenizer
    >>> DecodeStream.restore(MockTokenizer(), {"format": 99})
    Traceback (most recent call last):
    ...
    streamdec.errors.SnapshotError: snapshot format 99 is not known; this release reads 1
    """


class SnapshotMismatchError(SnapshotError):
    """A snapshot of another tokenizer, machine, route or option; the message says which.

    When: as ``SnapshotError``. Tokenizers are told apart by what they decode, not by their names.

    What is left: as for ``SnapshotError``.

    What to do: load the tokenizer that the snapshot was made with, and restore by the class that
    made it (``DecodeStream``, ``Sequence``, ``StopSequenceDecoder``).

    >>> from streamdec import DecodeStream, MockTokenizer, SnapshotMismatchError
    >>> snapshot = DecodeStream(MockTokenizer()).snapshot()
    >>> try:
    ...     DecodeStream.restore(MockTokenizer.from_tokens([b"another"]), snapshot)
    ... except SnapshotMismatchError as error:
    ...     print(str(error)[:40])
    the snapshot is of another tokenizer: it
    """


class SourceError(StreamdecError, ValueError):
    """An output of an engine that cannot be read, or an engine that cannot be closed cleanly.

    When: by ``stream`` and ``iter_chunks``, for something that is neither an id nor ids nor an
    output with ids in it, for a second sample, or for a ``cumulative`` output that took ids back.
    After the last chunk, for a generator that holds a task group across a ``yield`` (PEP 789).

    What is left: all text until then was output, and the source was closed.
    ``stream.snapshot()`` goes on from there, and ``stream.pending_text`` is what was withheld.

    What to do: say where the ids are, by ``ids=``; which sample is meant, by ``index=``; and
    ``cumulative=True`` only for engines that repeat all ids in each output. Run a generator that
    cannot be closed in a task of its own, which puts the ids into a TokenQueue.

    >>> from streamdec import MockTokenizer, SourceError, iter_chunks
    >>> chunks = iter_chunks([{"token_ids": [1]}, {"text": "?"}], MockTokenizer())
    >>> try:
    ...     for chunk in chunks:
    ...         print(chunk.text)
    ... except SourceError as error:
    ...     print(str(error)[:56])
    Hello
    no token ids in what the source gave, a dict of ['text']
    """


class IdleTimeoutError(StreamdecError, TimeoutError):
    """The source gave nothing for ``idle_timeout`` seconds, and was closed.

    When: by ``stream`` with ``idle_timeout=``. An end or an error that the engine made of being
    cancelled is the ``__cause__``.

    What is left: ``seconds``, and ``snapshot``: the machine as it was.

    What to do: ``restore`` the snapshot, and go on with another source; or ``flush`` what was
    withheld.

    >>> import anyio
    >>> from streamdec import IdleTimeoutError, MockTokenizer, stream
    >>> async def engine():
    ...     yield 1
    ...     await anyio.sleep_forever()
    >>> async def main():
    ...     try:
    ...         async for chunk in stream(engine(), MockTokenizer(), idle_timeout=0.01):
    ...             print(chunk.text)
    ...     except IdleTimeoutError as error:
    ...         print(error, error.snapshot["machine"])
    >>> anyio.run(main)
    Hello
    the source gave nothing for 0.01 seconds stop
    """

    def __init__(self, seconds: float, snapshot: dict[str, Any]) -> None:
        super().__init__(f"the source gave nothing for {seconds:g} seconds")
        self.seconds = seconds
        self.snapshot = snapshot

    def __reduce__(self) -> tuple[object, ...]:
        before = {"chunk": self.chunk, "num_taken": self.num_taken}
        return type(self), (self.seconds, self.snapshot), before


class QueueClosedError(StreamdecError, RuntimeError):
    """A put into a TokenQueue that was ended, or whose reader has closed it.

    When: by ``TokenQueue.put`` and ``send``, in the producer's thread or task.

    What is left: nothing of this put was taken; what was put before ``end`` is still read.

    What to do: stop producing: the stream had its stop, or nobody reads it any more.

    >>> from streamdec import TokenQueue
    >>> queue = TokenQueue()
    >>> queue.end()
    >>> queue.put(1)
    Traceback (most recent call last):
    ...
    streamdec.errors.QueueClosedError: nothing can be put into the queue: it was ended
    """


class QueueFullError(StreamdecError, RuntimeError):
    """A put into a full TokenQueue, where it was not to wait or could not.

    When: by ``TokenQueue.put`` with ``wait=False``, after ``timeout``, or in the thread of an event
    loop, which waiting would hold up.

    What is left: nothing of this put was taken; the queue is as before.

    What to do: ``await queue.send(ids)`` in a task, ``put`` without ``wait=False`` in a thread; or
    a greater ``maxsize``. Nothing is ever dropped to make room.

    >>> from streamdec import TokenQueue
    >>> queue = TokenQueue(maxsize=1)
    >>> queue.put(1)
    >>> queue.put(2, wait=False)
    Traceback (most recent call last):
    ...
    streamdec.errors.QueueFullError: the queue is full: 1 ids wait
    """


class UnknownRequestError(StreamdecError, KeyError):
    """A request id that a pool does not have: never added, or ended meanwhile.

    When: ``pool[request_id]``, ``finish`` and ``snapshot`` raise it. ``step`` raises nothing: there
    it is in ``pool.errors``, and the other requests have their chunks.

    What is left: the pool, as it was.

    What to do: ``pool.abort`` is quiet about requests that have ended; ``request_id in pool`` asks.

    >>> from streamdec import DecoderPool, MockTokenizer
    >>> DecoderPool(MockTokenizer()).finish("a")
    Traceback (most recent call last):
    ...
    streamdec.errors.UnknownRequestError: the pool has no request 'a'
    """

    def __str__(self) -> str:
        return f"the pool has no request {self.args[0]!r:.80}"


class TokenizerLoadError(StreamdecError, ValueError):
    """A tokenizer file that is not what it should be, or a name for which none is at hand.

    When: by ``load_tokenizer``, ``detect_format`` and the loaders of the backends. The message has
    the path, and the library's own words where it has some.

    What is left: nothing was loaded, and nothing downloaded unless ``allow_download`` said so.

    What to do: what the message says is missing. ``streamdec info PATH`` shows what was found.

    >>> from streamdec import TokenizerLoadError, load_tokenizer
    >>> try:
    ...     load_tokenizer("path/to/nothing")
    ... except TokenizerLoadError as error:
    ...     print(str(error)[:44])
    'path/to/nothing': No such file or directory
    """


class UnsupportedFormatError(TokenizerLoadError):
    """A file or folder in a format that is not served; the message says what was found.

    When: as ``TokenizerLoadError``: a folder without a tokenizer, or with several of one kind;
    weights; a packed GGUF.

    What is left: as for ``TokenizerLoadError``.

    What to do: name the file itself, or unpack it; formats that are served are in the message.

    >>> from streamdec import UnsupportedFormatError, load_tokenizer
    >>> try:
    ...     load_tokenizer("path/to/model/tokenizer_config.json")
    ... except UnsupportedFormatError as error:
    ...     print(str(error).partition("found ")[2].partition(",")[0])
    a tokenizer_config.json
    """


class EncodeError(StreamdecError, ValueError):
    """A text that cannot be encoded or must not be, or whose encoding cannot tell its offsets.

    When: by ``encode`` for a special token under ``special="forbid"``, for a lone surrogate, and by
    a tokenizer that only decodes (some GGUF files); by ``offsets`` where the text was normalized.

    What is left: the tokenizer, as it was; it decodes.

    What to do: ``special="text"`` takes special tokens of strangers as letters, ``"parse"`` as
    tokens.

    >>> from streamdec import MockTokenizer
    >>> MockTokenizer().encode("Hello <eos>", special="forbid")
    Traceback (most recent call last):
    ...
    streamdec.errors.EncodeError: the text has a special token, which is forbidden: '<eos>'
    """


class TokenizerLibraryError(StreamdecError, RuntimeError):
    """The library under a tokenizer raised or panicked.

    When: by whatever called it: loading, encoding, decoding, a step.

    What is left: the original is ``__cause__``. A machine is as it was before the token.

    What to do: report it to that library, with the text or the ids; if it came from a step, a
    trace has them (``streamdec trace``).

    >>> from streamdec import TokenizerLibraryError, load_tokenizer
    >>> try:
    ...     load_tokenizer("path/to/model").decode([-1])
    ... except TokenizerLibraryError as error:
    ...     print(repr(error.__cause__)[:13])
    OverflowError
    """


class StopRegexTimeoutError(StreamdecError, TimeoutError):
    """A stop regex that took too long on the text of one token.

    When: by a step or ``flush``, after half a second of work (all patterns together).

    What is left: ``pattern`` is which (and in ``message``); the stream is as it was before the
    token.

    What to do: rewrite it so that a text matches in few ways only: ``(a+)+b`` as ``a+b``.

    >>> from streamdec import (
    ...     MockTokenizer, StopConditions, StopRegexTimeoutError, StopSequenceDecoder
    ... )
    >>> tokenizer = MockTokenizer.from_tokens([b"a" * 60])
    >>> slow = StopConditions(stop_regex="(a|aa)+(a|aa)+b", max_match_length=64)
    >>> decoder = StopSequenceDecoder(tokenizer, slow)
    >>> try:
    ...     decoder.step(0)
    ... except StopRegexTimeoutError as error:
    ...     print(error.pattern, decoder.num_tokens)
    (a|aa)+(a|aa)+b 0
    """

    def __init__(self, message: str, pattern: str) -> None:
        super().__init__(message)
        self.pattern = pattern

    def __reduce__(self) -> tuple[object, ...]:
        before = {"chunk": self.chunk, "num_taken": self.num_taken}
        return type(self), (self.args[0], self.pattern), before


class ChatTemplateError(StreamdecError, ValueError):
    """A chat template that is missing or fails, or messages that it cannot be given.

    When: by ``apply_chat_template``, ``ChatTemplate`` and what looks for templates. What a template
    says by ``raise_exception`` is the whole ``message``.

    What is left: ``template`` is the name of the template, ``line`` the line in it from 1, ``code``
    the kind of failure, as in ``"CHAT_TEMPLATE_RESOURCE_LIMIT"``; None where they are not known.

    What to do: by ``code``: a resource limit is a hostile or runaway template, a syntax error a
    broken one; without a code it is mostly the messages (roles, their order, their content).

    >>> from streamdec import ChatTemplateError
    >>> from streamdec.chat import ChatTemplate
    >>> template = ChatTemplate("{% for i in range(1000000000) %}x{% endfor %}")
    >>> try:
    ...     template.render([{"role": "user", "content": "Hi"}])
    ... except ChatTemplateError as error:
    ...     print(error.line, error.code)
    1 CHAT_TEMPLATE_RESOURCE_LIMIT
    """

    def __init__(
        self,
        message: str,
        *,
        template: str | None = None,
        line: int | None = None,
        code: str | None = None,
    ) -> None:
        super().__init__(message)
        self.template = template
        self.line = line
        self.code = code

    def __reduce__(self) -> tuple[object, ...]:
        known = {"template": self.template, "line": self.line, "code": self.code}
        before = {"chunk": self.chunk, "num_taken": self.num_taken}
        return type(self), (self.args[0],), known | before


class PreflightError(StreamdecError, ValueError):
    """A path that is no folder, or a folder that cannot be opened.

    When: by ``streamdec.preflight``. What is wrong inside a folder is a finding, not an error.

    What is left: nothing was read.

    What to do: give the folder of the model, not a file in it; a repository of the Hub has to be in
    the local cache.

    >>> from streamdec.preflight import inspect
    >>> inspect("path/to/none")
    Traceback (most recent call last):
    ...
    streamdec.errors.PreflightError: 'path/to/none': a snapshot is a folder, and this is not there
    """


class TraceError(StreamdecError, ValueError):
    """Lines that are no trace, or a trace that cannot be played again.

    When: by ``Trace.from_lines`` and ``replay``; the message has the line.

    What is left: nothing was played.

    What to do: a redacted trace has no ids; to play one again, record it without redaction.

    >>> from streamdec.trace import Trace
    >>> Trace.from_lines([])
    Traceback (most recent call last):
    ...
    streamdec.errors.TraceError: no trace: the first line must be its header, the last its end
    """


class MissingExtraError(StreamdecError, ImportError):
    """An optional dependency that is not installed.

    When: where the library is first needed, never at ``import streamdec``.

    What is left: everything that does not need it.

    What to do: what the message says; it has the install line. It is an ``ImportError``, so
    ``except ImportError`` sees it.

    >>> import sys
    >>> from unittest import mock
    >>> from streamdec import MissingExtraError, load_tokenizer
    >>> with mock.patch.dict(sys.modules, tiktoken=None):  # as if it were not installed
    ...     try:
    ...         load_tokenizer("path/to/tekken.json")
    ...     except MissingExtraError as error:
    ...         print(error)
    this tokenizer needs the library tiktoken: pip install 'streamdec[tiktoken]'
    """


class StreamdecWarning(UserWarning):
    """streamdec goes on, in another way than was hoped for.

    When: while a tokenizer is loaded, the first stream of one is made, the first text is encoded by
    a GGUF file, or ``stop_conditions`` are read from a model's folder; never by a step.

    What is left: a tokenizer that works as the message says.

    What to do: read it once. ``warnings.filterwarnings("error", category=StreamdecWarning)`` makes
    an error of it, for a service that would rather not start.

    >>> import warnings
    >>> from tokenizers import Tokenizer
    >>> from streamdec import DecodeStream, StreamdecWarning
    >>> with warnings.catch_warnings():
    ...     warnings.simplefilter("error", StreamdecWarning)
    ...     try:
    ...         DecodeStream(Tokenizer.from_file("path/to/model/tokenizer.json"))
    ...     except StreamdecWarning as warning:
    ...         print(str(warning)[:60])
    a tokenizers.Tokenizer streams over a window of decode(); st
    """
