"""The interface of engines, their loader, and an engine that replays ids.

An engine turns prompt ids into token ids. :mod:`streamdec.server.samples` calls it.
"""

from __future__ import annotations

import random
import sys
from collections.abc import AsyncIterable, AsyncIterator, Awaitable, Iterable
from dataclasses import dataclass
from importlib import import_module
from typing import Any, Protocol

import anyio

from streamdec.errors import SourceError


@dataclass(frozen=True, slots=True, kw_only=True)
class SamplingParams:
    """How to generate one sample. A field is None if the client did not set it.

    The names have the meaning of vLLM's and OpenAI's APIs. Stop strings are not included, because
    the server finds them and then closes the engine's iterator.

    >>> from streamdec.server import SamplingParams
    >>> params = SamplingParams(max_tokens=256, temperature=0.0)
    >>> params.top_p is None, params.n
    (True, 1)
    """

    max_tokens: int
    """The most tokens of the sample. The server ends the stream after this many. An engine may use
    the number to reserve memory."""
    min_tokens: int = 0
    """The least number of tokens. The engine must not choose an end-of-sequence id or a stop id
    before it has generated this many."""
    temperature: float | None = None
    """From 0 (greedy) to 2."""
    top_p: float | None = None
    """From 0 to 1: sample from the likeliest tokens whose probabilities add up to this."""
    top_k: int | None = None
    """Sample from this many of the likeliest tokens; -1 and 0 mean all."""
    min_p: float | None = None
    """From 0 to 1: the least probability of a token, relative to that of the likeliest."""
    frequency_penalty: float | None = None
    """From -2 to 2: subtracted from the logit of a token each time it is generated."""
    presence_penalty: float | None = None
    """From -2 to 2: subtracted once from the logit of a generated token."""
    repetition_penalty: float | None = None
    """From 0 to 10: above 1 it makes tokens of the prompt and the answer less likely."""
    seed: int | None = None
    """The seed of this sample: that of the client, plus ``index``."""
    logprobs: int | None = None
    """If not None, each output needs ``logprobs``, with this many alternatives for each token."""
    stop_token_ids: tuple[int, ...] = ()
    """The stop ids of the client. The server ends the stream at them too."""
    eos_token_ids: tuple[int, ...] = ()
    """The end-of-sequence ids; none with ``ignore_eos``."""
    ignore_eos: bool = False
    """Whether the text continues after end-of-sequence."""
    index: int = 0
    """The number of the sample, from 0."""
    n: int = 1
    """The ``n`` of the request: the number of samples for each prompt. The engine is called once
    for each sample of each prompt."""


class Engine(Protocol):
    """A callable that generates the token ids after a prompt.

    It returns an asynchronous iterator; or an iterable, which is read in a separate thread; or an
    awaitable of one of them. Its outputs are ids, lists of ids, or other outputs that
    :func:`~streamdec.wrap` reads. The iterator is closed at the end, at a
    stop, or when the client disconnects; abort the request then. A plain iterable cannot be
    interrupted: it counts as a running stream until its current step has ended. The call itself
    must not block; write a generator instead.

    Optional attributes: ``lifespan()`` is an asynchronous context manager around all requests.
    ``max_concurrency`` is the number of streams that it runs at once. Set ``logprobs = True``
    if its outputs are objects or dicts with ``token_ids`` and ``logprobs``. ``logprobs`` has a
    :class:`~streamdec.integrations.logprobs.TokenLogprob`, or a tuple with the same three fields,
    for each token. Without it, requests for log probabilities are rejected.

    >>> from streamdec.server import Engine, SamplingParams
    >>> def echo(prompt_token_ids, params):
    ...     yield from prompt_token_ids[: params.max_tokens]
    >>> engine: Engine = echo
    >>> [*engine([5, 6, 7], SamplingParams(max_tokens=2))]
    [5, 6]
    """

    def __call__(
        self, prompt_token_ids: list[int], params: SamplingParams, /
    ) -> AsyncIterable[Any] | Iterable[Any] | Awaitable[AsyncIterable[Any] | Iterable[Any]]:
        """Return the iterator of one sample.

        ``prompt_token_ids`` are the ids of its prompt, and ``params`` say how to generate it.
        """
        ...


def load_engine(name: str, folder: str | None = None) -> Engine:
    """Import an engine and return it.

    Args:
        name: ``module:callable``, such as ``my_engine:generate``. A class is called without
            arguments.
        folder: A folder to put at the front of ``sys.path``, or None.

    Importing the module runs its code. Raises :class:`~streamdec.SourceError`, which names the
    missing part. If the module or the class raises an error, that error is the ``__cause__``.

    >>> from streamdec.server import load_engine
    >>> load_engine("my_engine:engine")  # doctest: +ELLIPSIS
    Traceback (most recent call last):
        ...
    streamdec.errors.SourceError: my_engine:engine: ModuleNotFoundError: No module named 'my_engine'
    """
    module_name, colon, path = name.partition(":")
    if not colon or not path or module_name.endswith(".py"):
        example = f"{module_name.removesuffix('.py')}:{path or 'generate'}"
        raise SourceError(f"expected an engine as module:callable, such as {example}, not {name!r}")
    if folder is not None and folder not in sys.path:
        sys.path.insert(0, folder)
    try:
        found: Any = import_module(module_name)
        for part in path.split("."):
            found = getattr(found, part)
        engine: Engine = found() if isinstance(found, type) else found
    except Exception as error:
        raise SourceError(f"{name}: {type(error).__name__}: {error}") from error
    return engine


class ReplayEngine:
    """Yields the same ids for each prompt, at a pace.

    Use it to try a server without a model.

    Args:
        token_ids: the ids.
        rate: ids per second on average; the pauses vary with the seed. 0 means no pauses.

    >>> import asyncio
    >>> from streamdec.server import ReplayEngine, SamplingParams
    >>> engine = ReplayEngine([5, 6, 7], rate=0)
    >>> async def replayed():
    ...     return [token_id async for token_id in engine([1, 2], SamplingParams(max_tokens=8))]
    >>> asyncio.run(replayed())
    [5, 6, 7]
    """

    def __init__(self, token_ids: Iterable[int], rate: float = 40.0) -> None:
        self._token_ids = tuple(token_ids)
        self._rate = rate

    async def __call__(
        self, prompt_token_ids: list[int], params: SamplingParams
    ) -> AsyncIterator[int]:
        """Yield the ids. Of ``prompt_token_ids`` and ``params``, only the seed is used."""
        uneven = random.Random(params.seed or 0)
        for token_id in self._token_ids:
            await anyio.sleep(uneven.uniform(0.4, 1.6) / self._rate if self._rate else 0)
            yield token_id
