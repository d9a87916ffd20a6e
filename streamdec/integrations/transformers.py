"""Stream the text of transformers' ``generate`` while it runs; end rows at stops.

``GenerateStreamer`` is a streamer, a stopping criterion, and an iterator of the new text of each
row. It decodes when ``generate`` asks the criterion, so that no token is generated after a stop.

Tried with transformers 5.24.0 and 4.57.6, torch 2.13.0. This module imports neither.
"""

from __future__ import annotations

import contextvars
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from queue import SimpleQueue
from typing import Any, NamedTuple, Self, Unpack

from streamdec.chunks import Chunk, FinishReason, StopReason, joined
from streamdec.core.conditions import StopConditions, StopOptions
from streamdec.core.stop_sequence_decoder import DecoderOptions, StopSequenceDecoder
from streamdec.streams.pool import DecoderPool
from streamdec.streams.token_queue import ENDS_OF_LOOPS

__all__ = ["GenerateStreamer", "RowChunk"]


class RowChunk(NamedTuple):
    """A chunk, and the row of the batch that it belongs to.

    >>> from streamdec import Chunk
    >>> from streamdec.integrations.transformers import RowChunk
    >>> found = RowChunk(0, Chunk("Hi"))
    >>> found.row, found.text
    (0, 'Hi')
    """

    row: int
    """From 0. With ``num_return_sequences=n`` prompt p has the rows p * n to p * n + n - 1."""
    chunk: Chunk
    """What is new in its text; the last of a row has a ``finish_reason``."""

    @property
    def text(self) -> str:
        """The text of the chunk."""
        return self.chunk.text

    @property
    def finish_reason(self) -> FinishReason | None:
        """Why the row ended with this chunk, or None."""
        return self.chunk.finish_reason

    @property
    def stop_reason(self) -> StopReason:
        """The stop that ended the row, as in a Chunk."""
        return self.chunk.stop_reason


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

    The last chunk of each row has a ``finish_reason``: ``"stop"`` after a stop or an
    end-of-sequence id; ``"error"`` if the row could not be decoded (see ``errors``); otherwise
    ``"length"``. The reader gets the exception of ``generate`` after the text before it.

    Args:
        tokenizer: a tokenizer of streamdec or of transformers.
        conditions: when a row ends: one for all rows, one for each prompt, or one for each row.
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
        self._eos = None if eos_token_ids is None else _eos_ids(eos_token_ids)
        self._pool = pool = DecoderPool(tokenizer, return_token_ids=return_token_ids)
        several: Any = conditions if isinstance(conditions, (list, tuple)) else [conditions]
        # An empty list is not conditions. Wrong arguments raise their errors at once.
        checked = [StopSequenceDecoder(pool.tokenizer, each, **options) for each in several or [[]]]
        self._conditions = [each.conditions for each in checked]
        self._decoding: Any = {
            name: value
            for name, value in options.items()
            if name not in StopOptions.__annotations__
            or (name == "starts_inside" and options.get("sections") is not None)
        }
        self._feed = _RowFeed()
        self.decoders: list[StopSequenceDecoder] = []
        """The decoder of each row. After the end it has the row's ``match`` and counts."""
        self.errors: dict[int, Exception] = {}
        """The exceptions of rows with the ``finish_reason`` ``"error"``; other rows continued."""
        self._num_seen = 0
        self._last_seen: list[int] = []
        self._is_closed = self._has_ended = False
        self._has_tokens = self._is_criterion = False
        self._thread: threading.Thread | None = None
        self._result: Any = None

    # --- generate in a thread

    def start(self, model: Any, *args: Any, **kwargs: Any) -> None:
        """Call ``model.generate`` in a thread, and return at once.

        ``args`` and ``kwargs`` are the arguments of ``generate``. The streamer adds itself. Raises
        RuntimeError if the streamer was used before; TypeError for a ``streamer``,
        ``stopping_criteria`` or ``stop_strings`` in the arguments or the configuration.
        """
        for name in ("streamer", "stop_strings", "stopping_criteria"):
            if kwargs.get(name) is not None:
                hint = "pass stop= to the streamer, max_time= to start(), or call generate yourself"
                raise TypeError(f"start() does not take {name}: {hint}")
        config = args[1] if len(args) > 1 else kwargs.get("generation_config")
        if _setting("stop_strings", config, model.generation_config) is not None:
            raise TypeError("the generation_config has stop_strings; pass stop= to the streamer")
        if self._thread is not None or self.decoders or self._is_closed:
            raise RuntimeError("a streamer works for one call of generate; make a new one")
        given = _setting("eos_token_id", config, model.generation_config)
        self._eos = (self._eos or frozenset()) | _eos_ids(kwargs.get("eos_token_id", given))
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
            self._feed.end()

    def result(self) -> Any:
        """Wait until ``generate`` has ended, and return what it returned.

        The returned ids include the prompt, and are not cut at stops. Raises the error of
        ``generate``; RuntimeError if ``start`` did not run it.
        """
        if self._thread is None:
            raise RuntimeError("start() did not run generate; use the return value of generate")
        self._thread.join()
        if self._feed.error is not None:
            raise self._feed.error
        return self._result

    # --- what generate calls

    def put(self, value: Any) -> None:
        """Take the prompts: the first ``value`` is a tensor of ids, (rows, tokens).

        Later values are ignored. Raises ValueError if ``eos_token_ids`` is missing, or the
        conditions do not fit the number of rows; RuntimeError if ``generate`` has ended.
        """
        if self._has_ended:
            raise RuntimeError("a streamer works for one call of generate; make a new one")
        if not self.decoders:
            self._begin(value.tolist())
        else:
            self._has_tokens = True

    def _begin(self, prompts: list[list[int]]) -> None:
        """Begin after the prompts, which all have the same length."""
        if self._eos is None:
            raise ValueError(
                "eos_token_ids is missing; pass model.generation_config.eos_token_id, or () for no "
                "end-of-sequence ids. start(model, ...) finds them without it"
            )
        times, left = divmod(len(prompts), len(self._conditions))
        if left or not times:
            raise ValueError(
                f"got {len(self._conditions)} conditions for a batch of {len(prompts)} rows; "
                "expected one for all rows, one for each prompt, or one for each row"
            )
        self._num_seen = len(prompts[0])
        self._last_seen = [prompt[-1] if prompt else -1 for prompt in prompts]
        for row, prompt in enumerate(prompts):
            each = self._conditions[row // times]
            each = replace(each, eos_token_ids=tuple({*each.eos_token_ids, *self._eos}))
            self._pool.add(row, each, prompt, **self._decoding)
            self.decoders.append(self._pool[row])

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
        ended = [row not in self._pool for row in range(len(self.decoders))]
        return input_ids.new_tensor(ended).bool()

    def _read(self, input_ids: Any) -> None:
        """Decode the new ids of each row, and hand their chunks to the reader."""
        self._is_criterion = True
        if not self.decoders:
            raise RuntimeError("the prompt is not known; pass generate(streamer=...) too")
        new = self._new_ids(input_ids)
        if self._is_closed:
            self._finish_all("abort")
            return
        ids = {row: self._up_to_eos(each) for row, each in new.items()}
        chunks = self._pool.step(ids)
        self._note_errors()
        for row, each in ids.items():
            # Where min_tokens or ignore_eos lets the decoder continue, generate has ended anyway.
            if each and each[-1] in (self._eos or ()) and row in self._pool:
                chunks[row] = joined(chunks[row], self._finish(row, "stop"))
        self._feed.put(chunks)

    def _new_ids(self, input_ids: Any) -> dict[int, list[int]]:
        """Return the new ids of each row that has not ended, of all ids so far."""
        start = max(self._num_seen - 1, 0)
        rows = input_ids[:, start:].tolist()
        if self._num_seen and [row[0] if row else None for row in rows] != self._last_seen:
            raise RuntimeError(
                f"the ids do not begin with the {self._num_seen} ids of the call before; use a new "
                "streamer for each call of generate, and no beam search"
            )
        new = [row[self._num_seen - start :] for row in rows]
        self._num_seen, self._last_seen = input_ids.shape[1], [row[-1] for row in rows]
        return {row: each for row, each in enumerate(new) if row in self._pool}

    def _up_to_eos(self, ids: list[int]) -> list[int]:
        """Return ``ids`` up to the one that ends the row; padding follows it."""
        ends = (place for place, each in enumerate(ids, 1) if self._eos and each in self._eos)
        return ids[: next(ends, len(ids))]

    def _finish(self, row: int, reason: FinishReason) -> Chunk:
        """End a row. Return what it withheld."""
        chunk = self._pool.finish(row, reason)
        self._note_errors()
        return chunk

    def _finish_all(self, reason: FinishReason) -> dict[int, Chunk]:
        """End all rows that have not ended. Return what each withheld."""
        return {
            row: self._finish(row, reason) for row in range(len(self.decoders)) if row in self._pool
        }

    def _note_errors(self) -> None:
        self.errors |= self._pool.errors  # type: ignore[arg-type]  # all requests are rows

    def _fail(self, error: BaseException) -> None:
        """End the rows and the reader's iteration for an error, after what the rows withheld."""
        self._feed.put(self._finish_all("error"))
        self._feed.end(error)

    def end(self) -> None:
        """End the rows that have not ended, for length, and output what they withheld.

        Raises RuntimeError if ``generate`` did not call the streamer as a stopping criterion.
        """
        if self._has_ended:
            return
        self._has_ended = True
        if self._has_tokens and not self._is_criterion:
            error = RuntimeError("no text was decoded; pass stopping_criteria=[streamer] too")
            self._fail(error)
            raise error
        if self._is_closed:
            self._finish_all("abort")
        else:
            self._feed.put(self._finish_all("length"))
        if self._thread is None:
            self._feed.end()

    # --- reading

    def __iter__(self) -> Iterator[RowChunk]:
        return self

    def __next__(self) -> RowChunk:
        found = self._feed.take()
        if found is None:
            raise StopIteration
        return found

    def close(self) -> None:
        """End ``generate`` at its next token, and wait for its end if ``start`` began it."""
        self._is_closed = True
        self._feed.close()
        if self._thread is not None:
            self._thread.join()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def _setting(name: str, *configs: Any) -> Any:
    """Return the first value of ``name`` in ``configs`` that is not None."""
    values = (getattr(config, name, None) for config in configs)
    return next((value for value in values if value is not None), None)


def _eos_ids(value: Any) -> frozenset[int]:
    """Return an ``eos_token_id`` of transformers (an id, several, or None) as a set."""
    return frozenset(StopConditions(eos_token_ids=value).eos_token_ids)


class _RowFeed:
    """Chunks on their way from the thread of ``generate`` to one reader.

    Unlike the producer of a TokenQueue, that thread decodes: it must know which rows have ended.
    """

    def __init__(self) -> None:
        self.error: BaseException | None = None
        """The error of ``end``, which the reader raises once after the last chunk."""
        self._queue: SimpleQueue[RowChunk | BaseException | None] = SimpleQueue()
        """The chunks, and then the error or None."""
        self._is_closed = self._is_read = False

    def put(self, chunks: Mapping[int, Chunk]) -> None:
        """Hand over the new chunks of each row."""
        for row, chunk in chunks.items():
            if chunk.text or chunk.finish_reason is not None:
                for part in chunk.split():
                    self._queue.put(RowChunk(row, part))

    def end(self, error: BaseException | None = None) -> None:
        """End the feed; the reader raises ``error``."""
        # A loop would take these for its own end.
        if error is not None and (
            not isinstance(error, Exception) or isinstance(error, ENDS_OF_LOOPS)
        ):
            cause, error = error, RuntimeError(f"generate ended with {error!r:.80}")
            error.__cause__ = cause
        self.error = error
        self._queue.put(error)

    def close(self) -> None:
        """Drop the chunks that were not read, and all later ones."""
        self._is_closed = True
        self._queue.put(None)  # wakes the reader

    def take(self) -> RowChunk | None:
        """Wait for the next chunk; None at the end. Raises, once, the error of ``end``."""
        found = None if self._is_read or self._is_closed else self._queue.get()
        if isinstance(found, RowChunk):
            return found
        self._is_read = True
        if found is not None:
            raise found
        return None
