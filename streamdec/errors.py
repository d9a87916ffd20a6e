"""Every exception and warning of streamdec.

    StreamdecError
    ├── TokenIdError (ValueError, TypeError)  fix the ids: one is invalid or unknown
    ├── FinishedError (RuntimeError)          stop: the stream or the queue has ended
    ├── RewriteError                          begin a new stream: decode() changed text
    ├── SnapshotError (ValueError)            use another snapshot, or its tokenizer
    ├── SourceError (ValueError)              change where ids come from: an engine, a file
    ├── QueueFullError (RuntimeError)         put again later: the queue is full
    ├── UnknownRequestError (KeyError)        the pool has no such request
    ├── TokenizerLoadError (ValueError)       pass another file, folder or name
    ├── EncodeError (ValueError)              change the text, or how it is encoded
    ├── TokenizerLibraryError (RuntimeError)  report it to the tokenizer's library
    ├── ChatTemplateError (ValueError)        change the messages or the template
    └── MissingExtraError (ImportError)       run the install line of the message

    StreamdecWarning (UserWarning)            read it: something works differently

A class exists where the caller does something else.
"""

from __future__ import annotations

import sys
import warnings
from types import FrameType
from typing import TYPE_CHECKING, Self

if TYPE_CHECKING:
    from streamdec.chunks import Chunk

__all__ = [
    "ChatTemplateError",
    "EncodeError",
    "FinishedError",
    "MissingExtraError",
    "QueueFullError",
    "RewriteError",
    "SnapshotError",
    "SourceError",
    "StreamdecError",
    "StreamdecWarning",
    "TokenIdError",
    "TokenizerLibraryError",
    "TokenizerLoadError",
    "UnknownRequestError",
]


class StreamdecError(Exception):
    """The base class of all errors of streamdec.

    When: never itself. ``except StreamdecError`` catches all others.

    State: the stream is as it was before the token that failed. ``chunk`` is a Chunk with the text
    of the earlier tokens of the call; None without such a text, or if it was output already.
    ``num_taken`` is their number.

    What to do: output ``chunk.text`` if ``chunk`` is not None. Then see the class that was raised.

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

    def __reduce__(self) -> tuple[object, ...]:
        """Pickle all fields of an error, for any constructor."""
        return _restored, (type(self), self.args), self.__dict__


def _restored(kind: type[StreamdecError], args: tuple[object, ...]) -> StreamdecError:
    error = kind.__new__(kind)
    error.args = args
    return error


class TokenIdError(StreamdecError, ValueError, TypeError):
    """A token id that is invalid, or that the tokenizer does not have.

    When: by a step or a prompt, for an id that is not an integer, is a bool, or is outside of 0 …
    2**32 - 1; and for an unknown id with ``unknown_ids="error"``. By ``decode`` of a tokenizer, but
    not for a bool or an unknown id. ``stream`` and ``iter_chunks`` raise it after the earlier text.
    A ``DecoderPool`` puts it into ``pool.errors``, and ends only that request.

    State: the stream, as for ``StreamdecError``. ``token_id`` is the object that was passed, and
    ``index`` its position among the generated tokens (None in a prompt). ``str(error)`` is the
    ``message``.

    What to do: remove padding and masks (-1, 2**32, ``True``). For an unknown id, run ``streamdec
    preflight``: tokenizer and model may not match. The stream can continue with the next id.

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
        """Return the same error with the ``index`` of the token in another list."""
        message = self.args[0].replace(f"token {self.index}", f"token {index}", 1)
        return type(self)(message, self.token_id, index)


class FinishedError(StreamdecError, RuntimeError):
    """A step after the end, or the use of a queue that has ended.

    When: by a step after ``flush`` or a chunk with a ``finish_reason``; by ``TokenQueue.put`` and
    ``send`` after the queue was ended or closed; by a stream on a closed queue; by an encoder such
    as ``ChatCompletionEncoder`` for a sample that has ended. Ids after the finish in one ``feed``
    are not an error: ``chunk.unread_tokens`` counts them.

    State: the stream or queue is unchanged. Ids that the queue took earlier are still read.

    What to do: stop at the first chunk with a ``finish_reason``, and cancel the engine. ``reset()``
    begins the stream again.

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
    """The tokenizer's decode changed text that was already output.

    When: by a step on the windowed route, if the tokenizer's ``decode`` is not append-only.

    State: the stream is as it was before the token. It cannot take this token.

    What to do: load the tokenizer with ``load_tokenizer``, because the bytes route never raises
    this. Or begin a new stream with the next ids.

    >>> from streamdec import DecodeStream
    >>> from streamdec.errors import RewriteError
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
    """A snapshot that is malformed, or belongs to another tokenizer.

    When: by ``restore`` of a decoder, and by ``DecoderPool.restore``. Tokenizers are compared by
    what they decode, not by their names.

    State: the snapshot, unchanged. No stream was made.

    What to do: if the message names a difference, load the same tokenizer, and restore with the
    same class and options. If the format is not known, use the release that wrote it. If it is
    malformed, find out what changed it.

    >>> from streamdec import DecodeStream, MockTokenizer
    >>> DecodeStream.restore(MockTokenizer(), {"format": 99})
    Traceback (most recent call last):
    ...
    streamdec.errors.SnapshotError: snapshot format 99 is not known; this release reads 1
    """


class SourceError(StreamdecError, ValueError):
    """An engine or a file of ids that cannot be read or closed.

    When: by ``stream`` and ``iter_chunks``, if an output of the engine has no ids or several
    samples, or a ``cumulative`` output lacks ids of the one before; after the last chunk, if the
    engine is a generator that holds a task group across a ``yield`` (PEP 789). By
    ``streamdec.bulk`` and ``streamdec.server``, for a file or an engine that cannot be read.

    State: all text until then was output, and the source was closed. ``stream.snapshot()`` still
    works, and ``stream.pending_text`` is the withheld text.

    What to do: select the ids with ``ids=``, and the sample with ``index=``. Use
    ``cumulative=True`` only for engines that repeat all ids in each output. Run a generator that
    cannot be closed in a task that puts its ids into a TokenQueue.

    >>> from streamdec import MockTokenizer, SourceError, iter_chunks
    >>> chunks = iter_chunks([{"token_ids": [1]}, {"text": "?"}], MockTokenizer())
    >>> try:
    ...     for chunk in chunks:
    ...         print(chunk.text)
    ... except SourceError as error:
    ...     print(str(error)[:60])
    Hello
    no token ids in a dict of ['text'], which the source yielded
    """


class QueueFullError(StreamdecError, RuntimeError):
    """A put into a full queue that could not wait, or a sink that is behind.

    When: by ``TokenQueue.put`` if the queue is full: with ``wait=False``, after ``timeout``
    seconds, or in the thread of an event loop. A ``DecoderPool`` has it in ``errors`` if more than
    65,536 code points wait for a sink.

    State: the queue, as it was. It took nothing from this put.

    What to do: in a task, ``await queue.send(ids)``. In a thread, call ``put`` without
    ``wait=False``. A full queue never drops ids.

    >>> from streamdec import TokenQueue
    >>> queue = TokenQueue(maxsize=1)
    >>> queue.put(1)
    >>> queue.put(2, wait=False)
    Traceback (most recent call last):
    ...
    streamdec.errors.QueueFullError: the queue is full: 1 ids wait
    """


class UnknownRequestError(StreamdecError, KeyError):
    """A request id that a pool does not have: never added, or ended.

    When: by ``pool[request_id]``, ``attach``, ``finish`` and ``fork``. ``step`` puts the error into
    ``pool.errors``, and returns the chunks of the other requests.

    State: the pool, as it was.

    What to do: check ``request_id in pool``. ``pool.abort`` ignores unknown requests.

    >>> from streamdec import DecoderPool, MockTokenizer
    >>> DecoderPool(MockTokenizer()).finish("a")
    Traceback (most recent call last):
    ...
    streamdec.errors.UnknownRequestError: the pool has no request 'a'
    """

    def __str__(self) -> str:
        return f"the pool has no request {self.args[0]!r:.80}"


class TokenizerLoadError(StreamdecError, ValueError):
    """A tokenizer or a model folder that cannot be found or read.

    When: by ``load_tokenizer``, ``detect_format``, the backends and ``streamdec.preflight``. The
    message has the path, what was found there, and the library's own message.

    State: nothing was loaded. Without ``allow_download=True``, nothing was downloaded.

    What to do: follow the message. ``streamdec info PATH`` shows what is in a file or folder.

    >>> from streamdec import TokenizerLoadError, load_tokenizer
    >>> try:
    ...     load_tokenizer("path/to/nothing")
    ... except TokenizerLoadError as error:
    ...     print(str(error)[:44])
    'path/to/nothing': No such file or directory
    """


class EncodeError(StreamdecError, ValueError):
    """A text that cannot be encoded, or offsets that are not known.

    When: by ``encode``, for a special token with ``special="forbid"``, for a lone surrogate, and by
    a tokenizer that only decodes (some GGUF files); by ``offsets``, if the text was normalized.

    State: the tokenizer, as it was. It still decodes.

    What to do: for special tokens, pass ``special="text"`` (encode them as ordinary text) or, only
    for trusted text, ``"parse"``. Remove a lone surrogate. If the tokenizer only decodes, load a
    ``tokenizer.json`` of the model. Without offsets, use the ids.

    >>> from streamdec import MockTokenizer
    >>> MockTokenizer().encode("Hello <eos>", special="forbid")
    Traceback (most recent call last):
    ...
    streamdec.errors.EncodeError: the text has a special token, which is forbidden: '<eos>'
    """


class TokenizerLibraryError(StreamdecError, RuntimeError):
    """The library under a tokenizer raised an error or panicked.

    When: by loading, encoding, decoding or a step.

    State: the original error is ``__cause__``. A stream is as it was before the token.

    What to do: report it to that library, with the text or the ids (``streamdec trace``).

    >>> from streamdec import HuggingFaceTokenizer
    >>> from streamdec.errors import TokenizerLibraryError
    >>> from tokenizers import Tokenizer, models
    >>> without_unknown = Tokenizer(models.WordPiece({"Hi": 0}, unk_token="[UNK]"))
    >>> try:
    ...     HuggingFaceTokenizer(without_unknown).encode("?")
    ... except TokenizerLibraryError as error:
    ...     print(error.__cause__)
    WordPiece error: Missing [UNK] token from the vocabulary
    """


class ChatTemplateError(StreamdecError, ValueError):
    """A chat template that is missing or fails, or messages that it rejects.

    When: by ``apply_chat_template``, ``ChatTemplate`` and functions that search for templates.

    State: ``template`` is the name of the template, and ``line`` the line in it, counted from 1
    (both None if no template ran). ``code`` is the kind of failure, such as
    ``"CHAT_TEMPLATE_RESOURCE_LIMIT"``; None if the template did not cause it.

    What to do: with the code of a resource limit or a syntax error, change the template. With
    ``"CHAT_TEMPLATE_REFUSES"`` or no code, change the messages: their roles, order and content.

    >>> from streamdec.errors import ChatTemplateError
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


class MissingExtraError(StreamdecError, ImportError):
    """An optional dependency that is not installed.

    When: when the library is first needed, never at ``import streamdec``.

    State: what does not need the library works.

    What to do: run the install line of the message.

    >>> import sys
    >>> from unittest import mock
    >>> from streamdec import load_tokenizer
    >>> from streamdec.errors import MissingExtraError
    >>> with mock.patch.dict(sys.modules, tiktoken=None):  # as if it were not installed
    ...     try:
    ...         load_tokenizer("path/to/tekken.json")
    ...     except MissingExtraError as error:
    ...         print(error)
    this tokenizer needs the library tiktoken: pip install 'streamdec[tiktoken]'
    """


class StreamdecWarning(UserWarning):
    """Something works differently than requested.

    When: a tokenizer is loaded, makes its first stream or encodes its first text; ``sections`` have
    a marker that cannot be found; ``stop_conditions`` reads a model's folder; an engine's outputs
    look cumulative; or an option of a chat template is misspelled. ``step`` never warns.

    State: the object works, as the message says.

    What to do: read it once. ``warnings.filterwarnings`` can turn it into an error.

    >>> import warnings
    >>> from streamdec import MockTokenizer, StopSequenceDecoder, StreamdecWarning
    >>> tokenizer = MockTokenizer.from_tokens([b"<eos>"], special_ids=[0])
    >>> with warnings.catch_warnings():
    ...     warnings.simplefilter("error", StreamdecWarning)
    ...     try:
    ...         StopSequenceDecoder(tokenizer, sections={"reasoning": ("<eos>?", "</think>")})
    ...     except StreamdecWarning as warning:
    ...         print(str(warning)[:57])
    sections: the marker '<eos>?' contains '<eos>', a special
    """


def warn(message: str) -> None:
    """Give a StreamdecWarning that points to the code that called streamdec."""
    level = 1
    frame: FrameType | None = sys._getframe()
    while frame is not None and _is_ours(frame):
        level, frame = level + 1, frame.f_back
    warnings.warn(message, StreamdecWarning, stacklevel=level)


def _is_ours(frame: FrameType) -> bool:
    name = frame.f_globals.get("__name__")
    return isinstance(name, str) and name.partition(".")[0] == "streamdec"
