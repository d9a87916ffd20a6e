"""What happened, for whoever counts it: hooks, and what they are told.

A hook is called where something rare happens: at the end of a stream, when a whole text is encoded
or decoded, when a tokenizer is loaded, when a slower way is taken. What is frequent is counted, and
told with the end. No hook is ever told any text.

:mod:`streamdec.metrics` has hooks for Prometheus and OpenTelemetry. Without a hook none of this
costs anything.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from contextvars import ContextVar
from typing import Literal, NamedTuple

from streamdec.chunks import FinishReason
from streamdec.locks import Lock

__all__ = [
    "Call",
    "FallbackReason",
    "FellBack",
    "Hook",
    "Loaded",
    "StopKind",
    "StreamEnded",
    "add_hook",
    "installed",
    "tell",
    "type_of",
    "untold",
]

_log = logging.getLogger("streamdec.hooks")

StopKind = Literal["string", "regex", "token_id", "token_sequence", "eos", "engine"]
"""What ended a stream whose finish is ``"stop"``: one of the stop conditions, or the engine."""


FallbackReason = Literal["missing", "refused", "fails"]
"""``missing``: fastokens is not installed. ``refused``: it cannot be used for this tokenizer.
``fails``: it failed for one call."""


class StreamEnded(NamedTuple):
    """One stream, when its source was closed or its request left the pool.

    Numbers and names alone: no text, no ids.

    >>> from streamdec import Hook, MockTokenizer, add_hook, iter_chunks
    >>> class Counts(Hook):
    ...     def stream_ended(self, event):
    ...         print(event.tokenizer_type, event.route, event.tokens, event.characters)
    >>> remove = add_hook(Counts())
    >>> texts = [chunk.text for chunk in iter_chunks([1, 2], MockTokenizer())]
    mock bytes 2 11
    >>> remove()
    """

    tokenizer_type: str
    """What decoded: ``huggingface``, ``tiktoken``, ``sentencepiece``, ``gguf``, ``mock``, or the
    name of the class of a tokenizer of one's own."""
    route: Literal["bytes", "window"]
    """``"bytes"`` (exact, compiled) or ``"window"`` (over the tokenizer's own decode; slower)."""
    finish_reason: FinishReason
    """Why it ended; ``"abort"`` also for a stream that was left before its end."""
    stop_kind: StopKind | None
    """What stopped it, where the finish is ``"stop"``."""
    error_type: str | None
    """The class of what was raised, by the engine or by a step; None if nothing was."""
    tokens: int
    """Tokens that were read. (Of a stream that resumed: since then, and so all the rest.)"""
    chunks: int
    """Chunks with text."""
    characters: int
    """Code points that were given out."""
    unknown_tokens: int
    """Ids that the tokenizer does not have."""
    held_tokens: int
    """Outputs of the engine that brought out no text, as a character was unfinished."""
    jailed_tokens: int
    """Outputs of the engine that brought out no text, as it might have become a stop."""
    max_held_bytes: int
    """The most bytes that waited for the end of their character, after such an output."""
    max_jailed_characters: int
    """The most code points that waited to become a stop or not, after such an output."""
    max_withheld_tokens: int
    """The most tokens that something waited for until it was given out, or was a stop."""
    ends_incomplete: bool
    """Whether the text ends in U+FFFD: the bytes of its last character never came."""


class Call(NamedTuple):
    """One call of a tokenizer by its user; what streams call is not told.

    >>> from streamdec import Hook, MockTokenizer, add_hook
    >>> class Calls(Hook):
    ...     def called(self, event):
    ...         print(event.operation, event.texts, event.tokens, event.characters)
    >>> remove = add_hook(Calls())
    >>> encoding = MockTokenizer().encode("Hello world")
    encode 1 2 11
    >>> remove()
    """

    tokenizer_type: str
    """As in StreamEnded; of an encoding what encoded, which may be ``fastokens``."""
    operation: Literal["encode", "encode_batch", "decode"]
    """What was asked for."""
    seconds: float
    """How long it took, by the wall clock."""
    texts: int
    """How many texts there were."""
    tokens: int
    """Ids that came out, or went in; 0 if they came in by a generator."""
    characters: int
    """Code points that went in, or came out."""
    error_type: str | None
    """The class of what was raised; None if nothing was."""


class Loaded(NamedTuple):
    """One call of ``load_tokenizer``.

    >>> from streamdec import Hook, add_hook, load_tokenizer
    >>> class Loads(Hook):
    ...     def loaded(self, event):
    ...         print(event.tokenizer, event.format, event.vocab_size, event.error_type)
    >>> remove = add_hook(Loads())
    >>> tokenizer = load_tokenizer("path/to/model")
    path/to/model huggingface 1200 None
    >>> remove()
    """

    tokenizer_type: str
    """As in StreamEnded; empty if it was not found out."""
    tokenizer: str
    """The path or name, as it was given."""
    format: str
    """What the file is, as ``detect_format`` names it; empty if it was not found out."""
    seconds: float
    """How long it took, by the wall clock."""
    vocab_size: int
    """One more than its greatest id; 0 if it was not loaded."""
    error_type: str | None
    """The class of what was raised; None if nothing was."""


class FellBack(NamedTuple):
    """Something encodes in the slower way, where fastokens was to do it.

    >>> from streamdec.hooks import FellBack
    >>> FellBack("huggingface", "refused")
    FellBack(tokenizer_type='huggingface', reason='refused')
    """

    tokenizer_type: str
    """What encodes instead."""
    reason: FallbackReason
    """Why."""


class Hook:
    r"""Is told what happened. To be derived from: each method does nothing until it is overridden.

    Each is given an ``event``, a named tuple. Methods are called in the thread or task where it
    happened (context variables are those of the request), and hold it up, so they should be quick.
    What one raises is logged, once for each kind, and goes no further.

    >>> from streamdec import Hook, MockTokenizer, add_hook, iter_chunks
    >>> class Stops(Hook):
    ...     def stream_ended(self, event):
    ...         print(event.finish_reason, event.stop_kind, event.tokens)
    >>> remove = add_hook(Stops())
    >>> tokenizer = MockTokenizer.from_tokens([b"Hi", b"!", b"\n"])
    >>> [chunk.text for chunk in iter_chunks([0, 1, 2, 0], tokenizer, stop="\n")]
    stop string 3
    ['Hi', '!', '']
    >>> remove()
    """

    def stream_ended(self, event: StreamEnded) -> None:
        """A stream has ended, whatever its end; told once, after its source was closed."""

    def called(self, event: Call) -> None:
        """Texts were encoded, or ids decoded, whole."""

    def loaded(self, event: Loaded) -> None:
        """A tokenizer was loaded, or was not."""

    def fell_back(self, event: FellBack) -> None:
        """Something is slower than was asked for."""


Told = Literal["stream_ended", "called", "loaded", "fell_back"]
Event = StreamEnded | Call | Loaded | FellBack

installed: tuple[Hook, ...] = ()
"""The hooks that are told; replaced as a whole. To be read as ``hooks.installed``."""

_lock = Lock()
_logged: set[tuple[type, str, type]] = set()


def add_hook(hook: Hook) -> Callable[[], None]:
    """From now on ``hook`` is told what happens in this process; returns what ends that.

    A stream tells those that are there when it begins. What is returned is called without
    arguments; a second call does nothing. From any thread.

    Raises TypeError for what is no Hook, ValueError for one that was added before.

    >>> from streamdec import Hook, add_hook
    >>> hook = Hook()
    >>> remove = add_hook(hook)
    >>> try:
    ...     add_hook(hook)
    ... except ValueError as error:
    ...     print("was added already" in str(error))
    True
    >>> remove()
    """
    global installed
    if not isinstance(hook, Hook):
        raise TypeError(f"a hook is derived from streamdec.Hook, which {hook!r:.80} is not")
    with _lock:
        if any(each is hook for each in installed):
            raise ValueError(f"{hook!r:.80} was added already")
        installed = (*installed, hook)

    left = [hook]

    def remove() -> None:
        global installed
        with _lock:
            gone = left.pop() if left else None  # once: it may have been added again
            installed = tuple(each for each in installed if each is not gone)

    return remove


def tell(
    hooks: tuple[Hook, ...], what: Told, event: StreamEnded | Call | Loaded | FellBack
) -> None:
    """Calls the method ``what`` of each of ``hooks``; nothing that they raise comes out."""
    for hook in hooks:
        try:
            getattr(hook, what)(event)
        except Exception as error:  # noqa: BLE001 (who counts must not stop what is counted)
            kind = type(hook), what, type(error)
            if kind not in _logged:
                _logged.add(kind)
                _log.exception("%s.%s failed; further %s not logged", *_names(kind))


class _Untold:
    """Within it, calls of ``decode`` are streamdec's own, and no hook is told of them."""

    def __init__(self) -> None:
        self._depth: ContextVar[int] = ContextVar("depth", default=0)

    @property
    def is_entered(self) -> bool:
        """Whether the code that runs is within it."""
        return self._depth.get() > 0

    def __enter__(self) -> None:
        self._depth.set(self._depth.get() + 1)

    def __exit__(self, *_: object) -> None:
        self._depth.set(self._depth.get() - 1)


untold = _Untold()


def type_of(tokenizer: object) -> str:
    """What ``tokenizer`` is called when something is told of it."""
    known: str | None = getattr(tokenizer, "tokenizer_type", None)
    return type(tokenizer).__name__ if known is None else known


def _names(kind: tuple[type, str, type]) -> tuple[str, str, str]:
    return kind[0].__name__, kind[1], kind[2].__name__
