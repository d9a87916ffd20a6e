"""transformers: the text of a call of ``generate``, row by row, while it runs.

In: what ``generate`` tells a streamer and a stopping criterion, which are one object here: the
prompt of each row, and after each step all ids so far. Out: chunks with their row, to a plain or an
asynchronous reader in another thread, and to ``generate`` which rows have ended.

The text is decoded when the criteria are asked: then a stop that is complete ends its row, and no
further token is generated. ``put`` comes too late for that, and does not tell a row that goes on
from one that is padded. The criterion that works without a streamer is told the prompt's length
instead.

Tried with transformers 5.23.0 and 4.57.6, torch 2.13.0. Neither is imported here.
"""

from __future__ import annotations

import contextvars
import threading
from collections.abc import AsyncIterator, Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import compress
from types import TracebackType
from typing import Any, Self, Unpack, cast

import anyio

from streamdec.chunks import Chunk, FinishReason, joined
from streamdec.core.stop_sequence_decoder import StopSequenceDecoder
from streamdec.core.stops.conditions import StopConditions
from streamdec.integrations._row_feed import RowChunk, RowFeed
from streamdec.integrations._tokenizers import decoder_for
from streamdec.streams.options import DecoderOptions, DecodingOptions, unknown_option
from streamdec.streams.pool import DecoderPool

__all__ = ["GenerateStreamer", "RowChunk", "StopSequenceCriteria"]

LIMITS = "MaxLengthCriteria", "MaxTimeCriteria"
"""Criteria of transformers that end all rows at once, for length."""


class GenerateStreamer:
    r"""Streamer and stopping criterion of one call of ``generate``, and the reader's iterator.

    ``start`` runs ``generate`` in a thread::

        with GenerateStreamer(tokenizer, stop="\nUser:") as streamer:
            streamer.start(model, **inputs, max_new_tokens=100)
            for row, chunk in streamer:
                print(row, chunk.text)

    Whoever runs it otherwise gives it the streamer twice, and says which ids end a row::

        streamer = GenerateStreamer(tokenizer, stop="\nUser:", eos_token_ids=2)
        model.generate(**inputs, streamer=streamer, stopping_criteria=[streamer])

    Each row has a chunk with a ``finish_reason``, its last. It is ``"stop"`` after a stop or an
    end-of-sequence id, ``"length"`` if ``generate`` ended otherwise. What lags is joined: of each
    row that has text a reader gets one chunk at a time. Nothing waits for the reader: all ids are
    in the memory of ``generate`` anyway, whose length has a limit.

    Leaving the block, or ``close``, ends ``generate`` at its next token, and waits until it has
    ended if ``start`` began it. What ``generate`` raises is raised to the reader, after all text
    that was certain before it.

    Args:
        tokenizer: one of streamdec, or of transformers. Of a fast one of transformers a
            :class:`streamdec.HuggingFaceTokenizer` is made: make it once where there are many
            calls.
        conditions: when a row ends; or for each prompt its own, or for each row. Or give the parts
            as options: ``stop="\nUser:"``.
        return_token_ids: whether chunks have ``token_ids``.
        options: those of StopConditions, for all rows, and of decoding. ``eos_token_ids`` are the
            ids at which ``generate`` ends a row, ``()`` if there are none; ``start`` finds them by
            itself, and these are added.

    Raises TypeError and ValueError for what is no tokenizer, condition or option.

    By hand, this is what ``generate`` does with it:

    >>> import torch
    >>> from streamdec import MockTokenizer
    >>> from streamdec.integrations.transformers import GenerateStreamer
    >>> tokenizer = MockTokenizer.from_tokens([b"Hi", b" there", b"!", b"\n"])
    >>> streamer = GenerateStreamer(tokenizer, stop="\n", eos_token_ids=())
    >>> streamer.put(torch.tensor([[0]]))
    >>> [streamer(torch.tensor([[0, 1, 2, 3][:size]])).tolist() for size in (2, 3, 4)]
    [[False], [False], [True]]
    >>> streamer.end()
    >>> [(row, chunk.text, chunk.finish_reason) for row, chunk in streamer]
    [(0, ' there!', 'stop')]
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
        self._eos = None if eos_token_ids is None else _eos_ids(eos_token_ids)
        self._decoding, self._conditions = _sorted("GenerateStreamer", conditions, options)
        self._rows = _Rows(tokenizer, return_token_ids=return_token_ids)
        self._out = RowFeed()
        self.decoders = self._rows.decoders
        """The decoder of each row, to look at once it has ended: its ``match``, its counts."""
        self.errors = self._rows.errors
        """What was wrong with rows whose ``finish_reason`` is ``"error"``; the others went on."""
        self._mask: Any = None
        self._others: list[_Heard] = []
        self._is_closed = False
        self._has_ended = False
        self._thread: threading.Thread | None = None
        self._result: Any = None

    # --- generate in a thread

    def start(self, model: Any, *args: Any, **kwargs: Any) -> None:
        """Calls ``model.generate`` with these arguments in a thread, and returns at once.

        The streamer adds itself, and hears what other ``stopping_criteria`` decide, so that a row
        that they end has ended here too.

        Raises RuntimeError the second time; TypeError for a ``streamer``, of which there can be
        one, for ``stop_strings``: they are to be the streamer's ``stop``, and for more than the
        inputs and the ``generation_config`` without a name.
        """
        if len(args) > 2:
            raise TypeError(
                "start() takes inputs and generation_config without their names: "
                "say stopping_criteria= and what else follows"
            )
        for name, instead in (("streamer", "this is it"), ("stop_strings", "say stop= here")):
            if kwargs.get(name) is not None:
                raise TypeError(f"start() takes no {name}: {instead}")
        config = args[1] if len(args) > 1 else kwargs.get("generation_config")
        if _told("stop_strings", config, model.generation_config) is not None:
            raise TypeError("the generation_config has stop_strings: give the streamer stop=")
        if self._thread is not None or self.decoders or self._is_closed:
            raise RuntimeError("a streamer is for one call of generate: make another one")
        found = kwargs.get("eos_token_id", _told("eos_token_id", config, model.generation_config))
        self._eos = (self._eos or frozenset()) | _eos_ids(found)
        if not model.config.is_encoder_decoder:  # there it is of the encoder's input
            self._mask = kwargs.get("attention_mask")
        criteria = [_heard(each) for each in kwargs.pop("stopping_criteria", None) or ()]
        self._others = [each for each in criteria if isinstance(each, _Heard)]
        kwargs |= {"streamer": self, "stopping_criteria": [*criteria, self]}
        run = contextvars.copy_context().run
        self._thread = threading.Thread(
            target=run, args=(self._run, model.generate, args, kwargs), name="streamdec generate"
        )
        self._thread.start()

    def _run(self, generate: Callable[..., Any], args: Any, kwargs: Any) -> None:
        try:
            self._result = generate(*args, **kwargs)
            self.end()
        except BaseException as error:  # noqa: BLE001 (the reader is told)
            self._fail(error)
        else:
            self._out.end()

    def result(self) -> Any:
        """What ``generate`` returned, once it has; the prompt and whatever followed stops included.

        Raises what it raised; RuntimeError if ``start`` did not run it.
        """
        if self._thread is None:
            raise RuntimeError("generate was not run by start(): its result is with its caller")
        self._thread.join()
        if self._out.error is not None:
            raise self._out.error
        return self._result

    # --- what generate calls

    def put(self, value: Any) -> None:
        """Takes the prompts: the first ``value``, ids as a tensor of (rows, tokens).

        What follows is not looked at: those tokens are read as a criterion. Raises ValueError
        without ``eos_token_ids``, and for conditions that are not of so many rows; RuntimeError
        once ``generate`` has ended.
        """
        if self._has_ended:
            raise RuntimeError("a streamer is for one call of generate: make another one")
        if not self.decoders:
            self._begin(value.tolist())

    def _begin(self, prompts: list[list[int]]) -> None:
        if self._eos is None:
            raise ValueError(
                "which ids end a row? eos_token_ids=model.generation_config.eos_token_id, or () "
                "for none; start(model, ...) finds them by itself"
            )
        conditions = [
            replace(each, eos_token_ids=tuple({*each.eos_token_ids, *self._eos}))
            for each in _for_rows(self._conditions, len(prompts))
        ]
        self._rows.begin(prompts, _unpadded(prompts, self._mask), conditions, self._decoding)

    def __call__(self, input_ids: Any, scores: Any = None, **kwargs: Any) -> Any:
        """Which rows have ended, as a tensor of bools of (rows,).

        ``input_ids`` are all ids so far, a tensor of (rows, tokens); ``scores`` are not looked at.

        Raises RuntimeError for ids that do not go on from those before.
        """
        try:
            self._read(input_ids)
        except Exception as error:
            if self._thread is None:
                self._fail(error)
            raise
        return self._rows.ended(input_ids)

    def _read(self, input_ids: Any) -> None:
        """Decodes what is new of each row, and hands over what it brings out."""
        if not self.decoders:
            raise RuntimeError("generate has not told the prompt: give it streamer= as well")
        new = self._rows.new_ids(input_ids)
        if self._is_closed:
            self._rows.abort()
            return
        ids = {row: self._up_to_eos(each) for row, each in new.items()}
        chunks = self._rows.step(ids)
        heard = [each.ended() for each in self._others]
        for row, each in ids.items():
            # Where min_tokens or ignore_eos has the decoder go on, generate has ended all the same.
            ended = bool(each and each[-1] in (self._eos or ())) or any(one[row] for one in heard)
            if ended and row in self._rows:
                chunks[row] = joined(chunks[row], self._rows.finish(row, "stop"))
        self._out.put(chunks)

    def _up_to_eos(self, ids: list[int]) -> list[int]:
        """``ids`` up to where ``generate`` ends the row: what follows there is padding."""
        ends = (place for place, each in enumerate(ids, 1) if self._eos and each in self._eos)
        return ids[: next(ends, len(ids))]

    def _fail(self, error: BaseException) -> None:
        """The end of the rows and of the reader; what they withhold can be looked at."""
        self._rows.fail()
        self._out.end(error)

    def end(self) -> None:
        """Ends the rows that have not ended, for length: what was withheld comes out."""
        if self._has_ended:
            return
        self._has_ended = True
        if self._is_closed:
            self._rows.abort()
        else:
            self._out.put({row: self._rows.finish(row, "length") for row in self._rows.running})
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
        """Ends ``generate`` at its next token; if ``start`` began it, waits until it has ended.

        Afterwards there are no chunks.
        """
        self._close()
        if self._thread is not None:
            self._thread.join()

    async def aclose(self) -> None:
        """``close`` from a task: others run while it waits, and it is shielded."""
        self._close()
        if self._thread is not None:
            with anyio.CancelScope(shield=True):
                await self._out.wait_until_over()
            self._thread.join()  # it has nothing left to do

    def _close(self) -> None:
        self._is_closed = True
        self._out.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        await self.aclose()

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {self._rows}>"


class StopSequenceCriteria:
    r"""A stopping criterion that ends each row of one call of ``generate`` at its stop.

    For callers that pass criteria and no streamer, such as lm-eval. A row ends with the token that
    completes a stop, whatever tokens spell it; the others go on::

        width = inputs["input_ids"].shape[1]
        criteria = StopSequenceCriteria(tokenizer, stop="\nUser:", prompt_length=width)
        model.generate(**inputs, stopping_criteria=[criteria])

    Args:
        tokenizer: as for GenerateStreamer.
        conditions: as for GenerateStreamer.
        prompt_length: how many ids each row has before the first generated one: the width of
            ``input_ids``, left padding included. 0 for ``inputs_embeds``, 1 for most
            encoder-decoder models. A stop does not begin in the prompt.
        options: those of StopConditions, for all rows, and of decoding. ``generate`` itself ends
            rows at end-of-sequence ids, so they need not be named.

    Raises what GenerateStreamer raises; ValueError for a ``prompt_length`` below 0.

    By hand, this is what ``generate`` does with it:

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
        if type(prompt_length) is not int:
            raise TypeError(f"prompt_length must be an int, not {prompt_length!r:.40}")
        if prompt_length < 0:
            raise ValueError(f"prompt_length must be 0 or more, not {prompt_length}")
        self._decoding, self._conditions = _sorted("StopSequenceCriteria", conditions, options)
        self._prompt_length = prompt_length
        self._rows = _Rows(tokenizer)
        self.decoders = self._rows.decoders
        """The decoder of each row, after the first call: its ``match``, its counts."""
        self.errors = self._rows.errors
        """What was wrong with rows that could not be decoded. They have ended."""

    def __call__(self, input_ids: Any, scores: Any = None, **kwargs: Any) -> Any:
        """Return which rows have ended, as a tensor of bools of (rows,).

        Args:
            input_ids: all ids so far, a tensor of (rows, tokens).
            scores: not used.
            kwargs: not used.

        Raises ValueError if there are fewer ids than ``prompt_length``, or if the conditions are
        not of so many rows; RuntimeError for ids that do not go on from those before: criteria are
        for one call of ``generate``, and not for beams.
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
        conditions = _for_rows(self._conditions, num_rows)
        self._rows.begin(prompts, prompts, conditions, self._decoding)

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {self._rows}>"


# --- the rows of one call of generate -------------------------------------------------------------


class _Rows:
    """The decoders of the rows, and how much of their ids they have read."""

    def __init__(self, tokenizer: Any, *, return_token_ids: bool = False) -> None:
        self._pool = DecoderPool(decoder_for(tokenizer), return_token_ids=return_token_ids)
        self.decoders: list[StopSequenceDecoder] = []
        self.errors: dict[int, Exception] = {}
        self._num_seen = 0
        self._last_seen: list[int] = []

    def __str__(self) -> str:
        return f"{len(self._pool)} of {len(self.decoders)} rows go on"

    def begin(
        self,
        padded: list[list[int]],
        prompts: list[list[int]],
        conditions: list[StopConditions],
        decoding: DecodingOptions,
    ) -> None:
        """Begin after the prompts, which ``generate`` has as ``padded``."""
        self._num_seen = len(padded[0])
        self._last_seen = [prompt[-1] if prompt else -1 for prompt in padded]
        for row, (prompt, each) in enumerate(zip(prompts, conditions, strict=True)):
            self._pool.add(row, each, prompt, **decoding)
            self.decoders.append(self._pool[row])

    @property
    def running(self) -> list[int]:
        """The rows that have not ended."""
        return [*self._pool]

    def __contains__(self, row: int) -> bool:
        return row in self._pool

    def new_ids(self, input_ids: Any) -> dict[int, list[int]]:
        """The new ids of each row that has not ended. ``input_ids`` are all ids so far."""
        start = max(self._num_seen - 1, 0)
        rows = input_ids[:, start:].tolist()
        if self._num_seen and [row[0] if row else None for row in rows] != self._last_seen:
            raise RuntimeError(
                f"the ids do not go on from the {self._num_seen} before them: a streamer and its "
                "criteria are for one call of generate, and not for beams"
            )
        new = [row[self._num_seen - start :] for row in rows]
        self._num_seen, self._last_seen = input_ids.shape[1], [row[-1] for row in rows]
        return {row: each for row, each in enumerate(new) if row in self._pool}

    def step(self, ids: dict[int, list[int]]) -> dict[int, Chunk]:
        """Decode new ids. Return the chunk of each row."""
        chunks = self._pool.step(ids)
        self._note_errors()
        return chunks

    def ended(self, input_ids: Any) -> Any:
        """Which rows have ended, as a tensor of bools on the device of ``input_ids``."""
        ended = [row not in self._pool for row in range(len(self.decoders))]
        return input_ids.new_tensor(ended).bool()

    def finish(self, row: int, reason: FinishReason) -> Chunk:
        """End a row. Return what it withheld."""
        chunk = self._pool.finish(row, reason)
        self._note_errors()
        return chunk

    def abort(self) -> None:
        """End all rows."""
        for row in self.running:
            self._pool.abort(row)

    def fail(self) -> None:
        """End all rows for an error. Their decoders stay as they were."""
        for row in self.running:
            self.decoders[row] = self._pool[row].fork()
            self._pool.finish(row, "error")

    def _note_errors(self) -> None:
        self.errors.update(
            (row, self._pool.errors[row])
            for row in range(len(self.decoders))
            if row in self._pool.errors
        )


# --- what generate was given ----------------------------------------------------------------------


class _Heard:
    """A stopping criterion of somebody else, whose answer is noted."""

    def __init__(self, criterion: Any) -> None:
        self._criterion = criterion
        self._answer: Any = None

    def __call__(self, input_ids: Any, scores: Any, **kwargs: Any) -> Any:
        answer = self._criterion(input_ids, scores, **kwargs)
        # One for all rows is one too, as to transformers.
        self._answer = input_ids.new_tensor([False] * len(input_ids)).bool() | answer
        return self._answer

    def __getattr__(self, name: str) -> Any:
        if name.startswith("_"):
            raise AttributeError(name)
        return getattr(self._criterion, name)  # by an eos_token_id generate knows that it must pad

    def ended(self) -> list[bool]:
        """For each row, whether it has ended."""
        answer: list[bool] = self._answer.tolist()
        return answer


def _heard(criterion: Any) -> Any:
    """``criterion``, heard if it may end one row and not another."""
    return criterion if type(criterion).__name__ in LIMITS else _Heard(criterion)


def _unpadded(prompts: list[list[int]], mask: Any) -> list[list[int]]:
    """The prompts without what their attention mask hides, if it is one of them.

    It is of the prompts as they were given, before each became several rows.
    """
    if mask is None or mask.ndim != 2 or len(prompts) % mask.shape[0]:
        return prompts
    if mask.shape[1] != len(prompts[0]):
        return prompts
    times, masks = len(prompts) // mask.shape[0], mask.tolist()
    return [[*compress(prompt, masks[row // times])] for row, prompt in enumerate(prompts)]


def _told(name: str, *configs: Any) -> Any:
    """What the first of ``configs`` says that says anything."""
    values = (getattr(config, name, None) for config in configs)
    return next((value for value in values if value is not None), None)


def _eos_ids(value: Any) -> frozenset[int]:
    """An ``eos_token_id`` of transformers: an id, some, or None."""
    conditions = StopConditions(eos_token_ids=() if value is None else value)
    return frozenset(conditions.eos_token_ids)


# --- options --------------------------------------------------------------------------------------


def _sorted(
    what: str, conditions: Any, options: Mapping[str, Any]
) -> tuple[DecodingOptions, tuple[StopConditions, ...]]:
    """The options of decoding, and the conditions: one for all rows, or several."""
    for name in options:
        if name not in DecoderOptions.__annotations__:
            raise unknown_option(f"{what}()", name, DecoderOptions.__annotations__)
    names = DecodingOptions.__annotations__
    decoding = {name: value for name, value in options.items() if name in names}
    others = {name: value for name, value in options.items() if name not in names}
    if conditions is None:
        conditions = StopConditions(**others)
    elif others:
        raise TypeError(f"{what}() got conditions, which have their own {[*others]}")
    found = (conditions,) if isinstance(conditions, StopConditions) else tuple(conditions)
    if not found or not all(isinstance(each, StopConditions) for each in found):
        raise TypeError(
            f"conditions must be StopConditions, one or several, not {conditions!r:.60}"
        )
    return cast(DecodingOptions, decoding), found


def _for_rows(conditions: Sequence[StopConditions], num_rows: int) -> list[StopConditions]:
    """The conditions of each row; those of a prompt for all its sequences."""
    times, left = divmod(num_rows, len(conditions))
    if left or not times:
        raise ValueError(f"{len(conditions)} conditions, and the batch has {num_rows} rows")
    return [each for each in conditions for _ in range(times)]
