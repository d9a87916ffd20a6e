"""Hooks and their events, for metrics. Override the methods of a Hook.

StreamEnded, Call, Loaded and FellBack are their events. No event contains text. Without a hook,
events cost nothing.

>>> from streamdec import iter_chunks, load_tokenizer
>>> from streamdec.metrics import Hook, add_hook
>>> class Counts(Hook):
...     def stream_ended(self, event):
...         print(event.tokenizer_type, event.route, event.finish_reason, event.tokens)
...     def called(self, event):
...         print(event.operation, event.texts, event.tokens, event.characters)
...     def loaded(self, event):
...         print(event.tokenizer, event.format, event.vocab_size, event.error_type)
>>> remove = add_hook(Counts())
>>> tokenizer = load_tokenizer("demo")
demo huggingface 1200 None
>>> ids = tokenizer.encode("Hello").ids
encode 1 3 5
>>> text = "".join(chunk.text for chunk in iter_chunks(ids, tokenizer))
huggingface bytes length 3
>>> remove()
"""

from __future__ import annotations

import inspect
import logging
from collections.abc import Callable, Sequence
from contextvars import ContextVar
from typing import Literal, NamedTuple, get_args

from streamdec.chunks import FinishReason
from streamdec.locks import Lock

_log = logging.getLogger("streamdec.hooks")

StopKind = Literal["string", "regex", "token_id", "eos", "engine"]
"""What ended a stream that finished with ``"stop"``: a stop condition, or the engine."""

Operation = Literal["encode", "encode_batch", "decode"]

FallbackReason = Literal["missing", "refused", "fails"]
"""``missing``: fastokens is not installed. ``refused``: it cannot be used for this tokenizer.
``fails``: it failed for one call."""


class StreamEnded(NamedTuple):
    """The end of a stream, after its source was closed or its request left the pool."""

    tokenizer_type: str
    """The kind of tokenizer, such as ``huggingface`` or ``mock``; or its class name."""
    route: Literal["bytes", "window"]
    """``"bytes"`` (exact, compiled) or ``"window"`` (over the tokenizer's own decode; slower)."""
    finish_reason: FinishReason
    """Why it ended; ``"abort"`` also for a stream that was abandoned."""
    stop_kind: StopKind | None
    """The kind of stop if ``finish_reason`` is ``"stop"``, else None."""
    error_type: str | None
    """The class of the error that the engine or a step raised; None without one."""
    tokens: int
    """Tokens that were read. The counts of a resumed stream begin where it resumed."""
    chunks: int
    """Chunks with text, after the split into sections."""
    characters: int
    """Code points of emitted text."""
    unknown_tokens: int
    """Ids that the tokenizer does not have."""
    held_tokens: int
    """How many outputs of the engine gave no text because a character was unfinished."""
    jailed_tokens: int
    """How many outputs of the engine gave no text because the text might become a stop."""
    max_held_bytes: int
    """The most bytes of an unfinished character after an output that gave no text."""
    max_jailed_characters: int
    """The most code points that were jailed after an output that gave no text."""
    max_pending_tokens: int
    """The most tokens whose text was held or jailed."""
    ends_incomplete: bool
    """Whether the last chunk ends in U+FFFD, as after an incomplete character."""


class Call(NamedTuple):
    """One call of a tokenizer by its user. Calls that streams make are not reported."""

    tokenizer_type: str
    """As in StreamEnded. If the call encoded: the library that did, such as ``fastokens``."""
    operation: Operation
    """The method that was called. ``decode_batch`` is one ``decode`` for each of its lists."""
    seconds: float
    """The duration of the call in seconds of wall-clock time."""
    texts: int
    """The number of texts."""
    tokens: int
    """Ids that were encoded or decoded; 0 if the call failed to encode, or decoded a generator."""
    characters: int
    """Code points encoded or decoded."""
    error_type: str | None
    """The class of the error; None without one."""


class Loaded(NamedTuple):
    """One call of ``load_tokenizer``."""

    tokenizer_type: str
    """As in StreamEnded; empty if loading failed."""
    tokenizer: str
    """The path or name as given."""
    format: str
    """The format of the file, as ``detect_format`` names it; empty if loading failed."""
    seconds: float
    """Its duration in seconds of wall-clock time."""
    vocab_size: int
    """The highest id plus one; 0 if loading failed."""
    error_type: str | None
    """The class of the error; None without one."""


class FellBack(NamedTuple):
    """A fallback: another library encodes instead of fastokens."""

    tokenizer_type: str
    """The library that encodes instead."""
    reason: FallbackReason
    """Why fastokens does not encode."""


class Hook:
    """Base class of hooks; each method does nothing until it is overridden.

    Each method gets an ``event``, a named tuple. It runs in the thread or task of the event, and
    blocks it, so it should be quick. Its exceptions are not propagated; the first of each hook
    class, method and exception class is logged.
    """

    def stream_ended(self, event: StreamEnded) -> None:
        """Receive the end of a stream, once, after its source was closed."""

    def called(self, event: Call) -> None:
        """Receive a call that encoded or decoded whole texts."""

    def loaded(self, event: Loaded) -> None:
        """Receive a call of ``load_tokenizer``, successful or not."""

    def fell_back(self, event: FellBack) -> None:
        """Receive a fallback to a slower encoder."""


EventName = Literal["stream_ended", "called", "loaded", "fell_back"]
Event = StreamEnded | Call | Loaded | FellBack

installed: tuple[Hook, ...] = ()
"""The installed hooks; replaced as a whole, so read it as ``hooks.installed``."""

_lock = Lock()
_logged: set[tuple[type, str, type]] = set()


def add_hook(hook: Hook) -> Callable[[], None]:
    """Register ``hook`` for the events of this process.

    A stream notifies the hooks that are registered when it begins. May be called from any thread.
    Returns a function without arguments that removes the hook; a second call does nothing.

    Raises TypeError if ``hook`` is not a Hook, or overrides none of its methods; ValueError if it
    is registered already.
    """
    global installed
    if not isinstance(hook, Hook):
        raise TypeError(f"hook must be an instance of streamdec.metrics.Hook, not {hook!r:.80}")
    _check_methods(hook)
    with _lock:
        if any(each is hook for each in installed):
            raise ValueError(f"{hook!r:.80} is registered already; call its remove function first")
        installed = (*installed, hook)

    left = [hook]

    def remove() -> None:
        global installed
        with _lock:
            gone = left.pop() if left else None  # once: it may have been added again
            installed = tuple(each for each in installed if each is not gone)

    return remove


def _check_methods(hook: Hook) -> None:
    """Raise TypeError if a method of ``hook`` cannot be called, or none would be."""
    names: tuple[str, ...] = get_args(EventName)
    for name in names:
        if inspect.iscoroutinefunction(getattr(hook, name)):
            message = "of a Hook must be a plain function, not a coroutine function"
            raise TypeError(f"{name}() {message}")
    functions = [getattr(getattr(hook, name), "__func__", None) for name in names]
    if functions == [getattr(Hook, name) for name in names]:
        message = f"has none of the methods {', '.join(names)}, so it is never called"
        raise TypeError(f"{type(hook).__name__} {message}")


def tell(hooks: Sequence[Hook], what: EventName, event: Event) -> None:
    """Call the method ``what`` of each of ``hooks``, and log their exceptions."""
    for hook in hooks:
        try:
            getattr(hook, what)(event)
        except Exception as error:  # noqa: BLE001 (a metric must not fail a request)
            kind = type(hook), what, type(error)
            if kind not in _logged:
                _logged.add(kind)
                names = type(hook).__name__, what, type(error).__name__
                _log.exception("%s.%s failed; further %s not logged", *names)


class _Suppressed:
    """A context in which calls of ``decode`` are internal and not reported to hooks."""

    def __init__(self) -> None:
        self._depth: ContextVar[int] = ContextVar("depth", default=0)

    @property
    def is_entered(self) -> bool:
        """Whether the running code is in the context."""
        return self._depth.get() > 0

    def __enter__(self) -> None:
        self._depth.set(self._depth.get() + 1)

    def __exit__(self, *_: object) -> None:
        self._depth.set(self._depth.get() - 1)


suppressed = _Suppressed()


def type_of(tokenizer: object) -> str:
    """Return the name of ``tokenizer`` in events."""
    return getattr(tokenizer, "tokenizer_type", None) or type(tokenizer).__name__
