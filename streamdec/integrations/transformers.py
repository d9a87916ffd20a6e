"""Stream the text of transformers' ``generate`` while it runs; end rows at stops.

``GenerateStreamer`` is a streamer, a stopping criterion, and an iterator of the new text of each
row. It decodes when ``generate`` asks the criterion, so that no token is generated after a stop.
``StopSequenceCriteria`` works without a streamer.

Tried with transformers 5.24.0 and 4.57.6, torch 2.13.0. This module imports neither.
"""

from __future__ import annotations

import contextvars
import threading
from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from dataclasses import replace
from typing import Any, Self, Unpack

import anyio

from streamdec.chunks import joined
from streamdec.core.conditions import StopConditions
from streamdec.core.stop_sequence_decoder import DecoderOptions
from streamdec.integrations._format import check_count
from streamdec.integrations._generate_rows import Rows, eos_ids, setting
from streamdec.integrations._row_feed import RowChunk, RowFeed

__all__ = ["GenerateStreamer", "RowChunk", "StopSequenceCriteria"]


class GenerateStreamer:
    r"""Streamer, stopping criterion and reader's iterator of one ``generate`` call.

    ``start`` runs ``generate`` in a thread::

        with GenerateStreamer(tokenizer, stop="\nUser:") as streamer:
            streamer.start(model, **inputs, max_new_tokens=100)
            for chunk in streamer:
                print(chunk.text)

    If you call ``generate`` yourself, pass the streamer twice, and name the ids that end a row::

        streamer = GenerateStreamer(tokenizer, stop="\nUser:", eos_token_ids=2)
        model.generate(**inputs, streamer=streamer, stopping_criteria=[streamer])

    In a batch, ``chunk.row`` is the row. The last chunk of each row has a ``finish_reason``:
    ``"stop"`` after a stop or an end-of-sequence id; ``"error"`` if the row could not be decoded
    (see ``errors``); otherwise ``"length"``. The reader gets the exception of ``generate`` after
    the text before it.

    Args:
        tokenizer: a tokenizer of streamdec or of transformers.
        conditions: when a row ends: one for all rows, one for each prompt, or one for each row. Or
            give the parts as options: ``stop="\nUser:"``.
        return_token_ids: whether chunks have ``token_ids``.
        options: options of StopSequenceDecoder, for all rows. ``eos_token_ids`` (the ids at which
            ``generate`` ends a row) is required; ``()`` if no id ends one. With ``start`` it is
            optional: the ids of the model's ``generation_config`` are added.

    Raises TypeError and ValueError for wrong conditions and options. ``generate`` calls it like
    this:

    >>> import torch
    >>> from streamdec import MockTokenizer
    >>> from streamdec.integrations.transformers import GenerateStreamer
    >>> tokenizer = MockTokenizer.from_tokens([b"Hi", b" there", b"!", b"\n"])
    >>> streamer = GenerateStreamer(tokenizer, stop="\n", eos_token_ids=())
    >>> streamer.put(torch.tensor([[0]]))
    >>> [streamer(torch.tensor([[0, 1, 2, 3][:size]])).tolist() for size in (2, 3, 4)]
    [[False], [False], [True]]
    >>> streamer.end()
    >>> [(chunk.row, chunk.text, chunk.finish_reason) for chunk in streamer]
    [(0, ' there', None), (0, '!', None), (0, '', 'stop')]
    """

    def __init__(
        self,
        tokenizer: Any,
        conditions: StopConditions | Sequence[StopConditions] | None = None,
        *,
        return_token_ids: bool = False,
        **options: Unpack[DecoderOptions],
    ) -> None:
        eos_token_ids = options.pop("eos_token_ids", None)
        self._eos = None if eos_token_ids is None else eos_ids(eos_token_ids)
        self._rows = Rows(tokenizer, conditions, options, return_token_ids=return_token_ids)
        self._out = RowFeed()
        self.decoders = self._rows.decoders
        """The decoder of each row. After the end it has the row's ``match`` and counts."""
        self.errors = self._rows.errors
        """The exceptions of rows with the ``finish_reason`` ``"error"``; other rows continued."""
        self._is_closed = False
        self._has_ended = False
        self._thread: threading.Thread | None = None
        self._result: Any = None

    # --- generate in a thread

    def start(self, model: Any, *args: Any, **kwargs: Any) -> None:
        """Call ``model.generate`` in a thread, and return at once.

        Args:
            model: a model of transformers.
            args: the inputs and the ``generation_config`` of ``generate``.
            kwargs: the other arguments of ``generate``. The streamer adds itself.

        Raises RuntimeError if the streamer was used before; TypeError for a ``streamer``,
        ``stopping_criteria`` or ``stop_strings`` in the arguments or the configuration.
        """
        instead_of = {
            "streamer": "it passes itself",
            "stop_strings": "pass stop= to the streamer",
            "stopping_criteria": "pass max_time= or max_new_tokens=, or call generate yourself",
        }
        for name, instead in instead_of.items():
            if kwargs.get(name) is not None:
                raise TypeError(f"start() does not take {name}; {instead}")
        config = args[1] if len(args) > 1 else kwargs.get("generation_config")
        if setting("stop_strings", config, model.generation_config) is not None:
            raise TypeError("the generation_config has stop_strings; pass stop= to the streamer")
        if self._thread is not None or self.decoders or self._is_closed:
            raise RuntimeError("a streamer works for one call of generate; make a new one")
        found = kwargs.get("eos_token_id", setting("eos_token_id", config, model.generation_config))
        self._eos = (self._eos or frozenset()) | eos_ids(found)
        kwargs |= {"streamer": self, "stopping_criteria": [self]}
        run = contextvars.copy_context().run
        self._thread = threading.Thread(
            target=run, args=(self._run, model.generate, args, kwargs), name="streamdec generate"
        )
        self._thread.start()

    def _run(self, generate: Callable[..., Any], args: Any, kwargs: Any) -> None:
        try:
            self._result = generate(*args, **kwargs)
            self.end()
        except BaseException as error:  # noqa: BLE001 (the reader gets it)
            self._fail(error)
        else:
            self._out.end()

    def result(self) -> Any:
        """Wait until ``generate`` has ended, and return what it returned.

        The returned ids include the prompt, and are not cut at stops. Raises the error of
        ``generate``; RuntimeError if ``start`` did not run it.
        """
        if self._thread is None:
            raise RuntimeError("start() did not run generate; use the return value of generate")
        self._thread.join()
        if self._out.error is not None:
            raise self._out.error
        return self._result

    # --- what generate calls

    def put(self, value: Any) -> None:
        """Take the prompts: the first ``value`` is a tensor of ids, (rows, tokens).

        Later values are ignored: the streamer reads the new tokens as a criterion. Raises
        ValueError if ``eos_token_ids`` is missing, or the conditions do not fit the number of rows;
        RuntimeError if ``generate`` has ended.
        """
        if self._has_ended:
            raise RuntimeError("a streamer works for one call of generate; make a new one")
        if not self.decoders:
            self._begin(value.tolist())

    def _begin(self, prompts: list[list[int]]) -> None:
        if self._eos is None:
            raise ValueError(
                "eos_token_ids is missing; pass model.generation_config.eos_token_id, or () for no "
                "end-of-sequence ids. start(model, ...) finds them without it"
            )
        conditions = [
            replace(each, eos_token_ids=tuple({*each.eos_token_ids, *self._eos}))
            for each in self._rows.conditions(len(prompts))
        ]
        self._rows.begin(prompts, conditions)

    def __call__(self, input_ids: Any, scores: Any = None, **kwargs: Any) -> Any:
        """Return which rows have ended, as a tensor of bools of (rows,).

        ``input_ids`` are all ids so far, a tensor of (rows, tokens). ``scores`` and ``kwargs`` are
        not used. Raises RuntimeError if the ids do not continue those of the call before.
        """
        try:
            self._read(input_ids)
        except Exception as error:
            if self._thread is None:
                self._fail(error)
            raise
        return self._rows.ended(input_ids)

    def _read(self, input_ids: Any) -> None:
        """Decode the new ids of each row, and hand their chunks to the reader."""
        if not self.decoders:
            raise RuntimeError("the prompt is not known; pass generate(streamer=...) too")
        new = self._rows.new_ids(input_ids)
        if self._is_closed:
            self._rows.finish_all("abort")
            return
        ids = {row: self._up_to_eos(each) for row, each in new.items()}
        chunks = self._rows.step(ids)
        for row, each in ids.items():
            # Where min_tokens or ignore_eos lets the decoder continue, generate has ended anyway.
            if each and each[-1] in (self._eos or ()) and row in self._rows:
                chunks[row] = joined(chunks[row], self._rows.finish(row, "stop"))
        self._out.put(chunks)

    def _up_to_eos(self, ids: list[int]) -> list[int]:
        """Return ``ids`` up to the one that ends the row; padding follows it."""
        ends = (place for place, each in enumerate(ids, 1) if self._eos and each in self._eos)
        return ids[: next(ends, len(ids))]

    def _fail(self, error: BaseException) -> None:
        """End the rows and the reader's iteration for an error."""
        self._rows.finish_all("error")
        self._out.end(error)

    def end(self) -> None:
        """End the rows that have not ended, for length, and output what they withheld."""
        if self._has_ended:
            return
        self._has_ended = True
        if self._is_closed:
            self._rows.finish_all("abort")
        else:
            self._out.put(self._rows.finish_all("length"))
        if self._thread is None:
            self._out.end()

    # --- reading

    def __iter__(self) -> Iterator[RowChunk]:
        return self

    def __next__(self) -> RowChunk:
        found = self._out.take()
        if found is None:
            raise StopIteration
        return found

    def __aiter__(self) -> AsyncIterator[RowChunk]:
        return self

    async def __anext__(self) -> RowChunk:
        found = await self._out.receive()
        if found is None:
            raise StopAsyncIteration
        return found

    # --- the end

    def close(self) -> None:
        """End ``generate`` at its next token.

        If ``start`` began it, wait until it has ended. There are no chunks afterwards.
        """
        self._close()
        if self._thread is not None:
            self._thread.join()

    async def aclose(self) -> None:
        """Do what ``close`` does. The wait is shielded from cancellation."""
        self._close()
        if self._thread is not None:
            with anyio.CancelScope(shield=True):
                await anyio.to_thread.run_sync(self._thread.join)

    def _close(self) -> None:
        self._is_closed = True
        self._out.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.aclose()


class StopSequenceCriteria:
    r"""A stopping criterion that ends each row of one ``generate`` call at its stop.

    For callers that pass criteria and no streamer, such as lm-eval::

        width = inputs["input_ids"].shape[1]
        criteria = StopSequenceCriteria(tokenizer, stop="\nUser:", prompt_length=width)
        model.generate(**inputs, stopping_criteria=[criteria])

    Args:
        tokenizer: as for GenerateStreamer.
        conditions: as for GenerateStreamer.
        prompt_length: how many ids each row has before the first generated one: the width of
            ``input_ids``, left padding included. 0 for ``inputs_embeds``, 1 for most
            encoder-decoder models. A stop does not begin in the prompt.
        options: as for GenerateStreamer. ``generate`` itself ends rows at end-of-sequence ids.

    Raises what GenerateStreamer raises; ValueError for a ``prompt_length`` below 0. ``generate``
    calls it like this:

    >>> import torch
    >>> from streamdec import MockTokenizer
    >>> from streamdec.integrations.transformers import StopSequenceCriteria
    >>> tokenizer = MockTokenizer.from_tokens([b"Hi", b"\nUs", b"er:"])
    >>> criteria = StopSequenceCriteria(tokenizer, stop="\nUser:", prompt_length=1)
    >>> criteria(torch.tensor([[0, 1], [0, 0]])).tolist()
    [False, False]
    >>> criteria(torch.tensor([[0, 1, 2], [0, 0, 1]])).tolist()
    [True, False]
    >>> criteria.decoders[0].match.stop
    '\nUser:'
    """

    def __init__(
        self,
        tokenizer: Any,
        conditions: StopConditions | Sequence[StopConditions] | None = None,
        *,
        prompt_length: int,
        **options: Unpack[DecoderOptions],
    ) -> None:
        self._prompt_length = check_count("prompt_length", prompt_length)
        self._rows = Rows(tokenizer, conditions, options)
        self.decoders = self._rows.decoders
        """The decoder of each row, after the first call: its ``match``, its counts."""
        self.errors = self._rows.errors
        """The exceptions of rows that could not be decoded. These rows have ended."""

    def __call__(self, input_ids: Any, scores: Any = None, **kwargs: Any) -> Any:
        """Return which rows have ended, as a tensor of bools of (rows,).

        ``input_ids`` are all ids so far, a tensor of (rows, tokens). ``scores`` and ``kwargs`` are
        not used.

        Raises ValueError if there are fewer ids than ``prompt_length``, or the number of conditions
        does not fit the rows; RuntimeError if the ids do not continue those of the call before.
        """
        if not self.decoders:
            self._begin(input_ids)
        self._rows.step(self._rows.new_ids(input_ids))
        return self._rows.ended(input_ids)

    def _begin(self, input_ids: Any) -> None:
        num_rows, length = input_ids.shape
        if length < self._prompt_length:
            raise ValueError(
                f"prompt_length is {self._prompt_length}, and generate gave {length} ids; expected "
                "the number of ids before the first generated one"
            )
        prompts = input_ids[:, : self._prompt_length].tolist()
        self._rows.begin(prompts, self._rows.conditions(num_rows))
