"""The interface of a detokenizer, and the function that runs one."""

from __future__ import annotations

import reprlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass, fields
from itertools import accumulate
from typing import Any, Protocol, TypeAlias

from streamdec.errors import TokenizerLibraryError
from streamdec.tokenizers._common import guarded


@dataclass(frozen=True)
class Request:
    """The parameters of a stream, with the names of vLLM's ``SamplingParams``.

    Its ``repr`` has only the values that are not defaults.

    >>> from streamdec.testing import Request
    >>> Request(stop=("User:",))
    Request(stop=('User:',))
    """

    prompt_token_ids: tuple[int, ...] = ()
    """The ids before the generated ones; their text is not output."""
    skip_special_tokens: bool = True
    """Whether special tokens are left out of the text."""
    stop: tuple[str, ...] = ()
    """Stop strings, which are not empty."""
    include_stop_str_in_output: bool = False
    """Whether the stop that ends the stream is output; the text after it never is."""
    min_tokens: int = 0
    """A stop that this token (counted from 1) or an earlier one completes is ordinary text."""

    def __repr__(self) -> str:
        given = ((field.name, getattr(self, field.name), field.default) for field in fields(self))
        said = (f"{name}={value!r}" for name, value, default in given if value != default)
        return f"Request({', '.join(said)})"


class Detokenizer(Protocol):
    """One stream. It may also have an attribute ``stop_reason``.

    ``stop_reason`` is None until a stop string is complete, then the string, or True if the engine
    does not report which. It is read after each call. Once it is not None, no call follows. Without
    the attribute only the text is compared.

    >>> from streamdec import StopSequenceDecoder
    >>> from streamdec.testing import check_detokenizer
    >>> class Adapter:
    ...     def __init__(self, tokenizer, request):
    ...         self.decoder = StopSequenceDecoder(tokenizer, **vars(request))  # the same names
    ...     def step(self, token_ids):
    ...         return self.decoder.feed(token_ids).text
    ...     def flush(self):
    ...         return self.decoder.flush().text
    ...     @property
    ...     def stop_reason(self):
    ...         return self.decoder.match and self.decoder.match.stop
    >>> check_detokenizer(Adapter, only=["stop_never_leaks"], max_examples=10).summary
    '3 passed, 0 failed, 0 skipped'
    """

    def step(self, token_ids: list[int], /) -> str:
        """Read ``token_ids``, one or several, and return the new text."""
        ...

    def flush(self) -> str:
        """End a stream without a stop, and return the withheld text.

        May raise NotImplementedError, which skips the checks that need it.
        """
        ...


MakeDetokenizer: TypeAlias = Callable[[Any, Request], Detokenizer]
"""Makes a detokenizer for a tokenizer and a request.

The tokenizer is a ``tokenizers.Tokenizer``, unless ``check_detokenizer`` got another kind. If the
engine lacks a feature of the request, raise NotImplementedError, which skips the checks that need
it. ``flush`` may raise it too.
"""


class ConformanceError(AssertionError):
    """A detokenizer broke a guarantee. The message describes how."""


@dataclass(frozen=True)
class Transcript:
    """The output of a stream."""

    texts: tuple[str, ...]
    """The text of each call."""
    rest: str | None
    """The text of ``flush``; None without one."""
    stop_reason: object
    tells_stop: bool
    """Whether the detokenizer has a ``stop_reason``."""

    @property
    def text(self) -> str:
        """The whole text."""
        return "".join(self.texts) + (self.rest or "")

    @property
    def given(self) -> list[str]:
        """The text so far, after each call."""
        return list(accumulate(self.texts))


def drive(
    make: MakeDetokenizer,
    tokenizer: object,
    request: Request,
    groups: Sequence[Sequence[int]],
    beside: Sequence[int] = (),
) -> Transcript:
    """Make a stream, and call its ``step`` for each of ``groups``, until a stop.

    With ``beside`` a second stream reads these ids before each call.
    Raises ConformanceError if the detokenizer raises, lacks a method, or returns a wrong type.
    Raises NotImplementedError if ``make`` or ``step`` raises it.
    """
    detokenizer = call_guarded(make, tokenizer, request)
    for verb in ("step", "flush"):
        if not callable(call_guarded(getattr, detokenizer, verb, None)):
            raise ConformanceError(f"make returned a {type(detokenizer).__name__} without {verb}()")
    texts: list[str] = []
    other = call_guarded(make, tokenizer, request) if beside else None
    for group in groups:
        if other is not None:
            call_guarded(other.step, list(beside))
        texts.append(_text(call_guarded(detokenizer.step, list(group)), "step"))
        if _stop_reason(detokenizer) is not None:
            break
    rest: str | None = ""
    if _stop_reason(detokenizer) is None:
        try:
            rest = _text(call_guarded(detokenizer.flush), "flush")
        except NotImplementedError:
            rest = None
    tells_stop = call_guarded(hasattr, detokenizer, "stop_reason")
    return Transcript(tuple(texts), rest, _stop_reason(detokenizer), tells_stop)


def _stop_reason(detokenizer: Detokenizer) -> object:
    given = call_guarded(getattr, detokenizer, "stop_reason", None)
    if given not in (None, True) and not isinstance(given, str):
        wrong = f"expected  stop_reason None, True or a str\ngiven     {reprlib.repr(given)}"
        raise ConformanceError(wrong)
    return given


def _text(given: object, verb: str) -> str:
    if not isinstance(given, str):
        raise ConformanceError(f"expected  a str from {verb}()\ngiven     {reprlib.repr(given)}")
    return given


def call_guarded(call: Callable[..., Any], *args: object) -> Any:
    """Return the result of ``call``.

    Raises NotImplementedError unchanged, and ConformanceError for all others, and panics of Rust.
    """
    try:
        return guarded(call, *args)
    except TokenizerLibraryError as error:
        cause = error.__cause__
        if isinstance(cause, NotImplementedError):
            raise cause from None
        raise ConformanceError(f"raised {type(cause).__name__}: {cause!s:.2000}") from cause
