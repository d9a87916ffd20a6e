"""The laws of the stop engine, once: each a function that fails if it does not hold.

The judge is the oracle (``tests/stop_model.py``), which knows the bytes of each token. On other
kinds of tokenizers it reads the text of DecodeStream, whose own laws are in ``tests/laws.py``. The
laws that both keep are in ``tests/decoder_laws.py``.
"""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import fields, replace
from functools import partial
from types import MappingProxyType
from typing import Any, NamedTuple

import pytest

from streamdec import Chunk, DecodeStream, MockTokenizer, StopSequenceDecoder, iter_chunks
from streamdec.errors import TokenIdError
from streamdec.protocols import BPESuffix, Tokenizer
from tests import decoder_laws
from tests.decoder_laws import (
    FLUSH_REASONS,
    New,
    accepted,
    fits,
    observe,
    the_same_spans_and_states,
    trail,
)
from tests.stop_model import Conditions, Model, Seen, Situation, decoder_of


class Setup(NamedTuple):
    """What a stream is made of."""

    tokenizer: Tokenizer
    conditions: Conditions = Conditions()
    prompt: Sequence[int] = ()
    options: Mapping[str, Any] = MappingProxyType({})

    def decoder(self) -> StopSequenceDecoder:
        conditions = self.conditions.build()
        return StopSequenceDecoder(self.tokenizer, conditions, self.prompt, **self.options)

    def stream(self) -> DecodeStream:
        """The same text, nothing withheld for a stop."""
        return DecodeStream(self.tokenizer, self.prompt, **self.options)

    def with_options(self, **options: Any) -> Setup:
        return self._replace(options={**self.options, **options})


def new_tokenizer(situation: Situation) -> MockTokenizer:
    """A tokenizer for which nothing is cached."""
    return MockTokenizer.from_tokens(situation.tokens, situation.special_ids, situation.decoder)


def setup_of(situation: Situation) -> Setup:
    tokenizer = new_tokenizer(situation)
    return Setup(tokenizer, situation.conditions, situation.prompt, situation.options)


def endless(situation: Situation) -> Situation:
    """``situation`` without what would end the stream at an id, at a number or with an error."""
    names = ("stop", "visible_stop", "include_stop_str_in_output", "ignore_stops_between")
    more = ("starts_inside", "stop_regex", "max_match_length")
    conditions = situation.conditions.only(*names, *more)
    return replace(situation, conditions=conditions, unknown_ids="skip")


def decoder_with_sections(situation: Situation) -> New:
    tokenizer = new_tokenizer(situation)
    return lambda: decoder_of(situation, tokenizer)


def seen(decoder: StopSequenceDecoder, text: str) -> Seen:
    match = decoder.match
    assert decoder.finished == (decoder.finish_reason is not None)
    return Seen(
        text,
        decoder.held,
        decoder.jailed,
        decoder.num_tokens,
        decoder.finish_reason,
        match.stop if match else None,
        match,
        decoder.num_pending_tokens,
    )


def one_by_one(setup: Setup, ids: Sequence[int]) -> list[Seen]:
    """What is seen before any token and after each, up to the finish or an unknown id."""
    decoder = setup.decoder()
    steps = [seen(decoder, "")]
    for token_id in ids:
        if decoder.finished:
            break
        try:
            chunk = decoder.step(token_id)
        except TokenIdError:
            break
        fits(chunk, decoder)
        steps.append(seen(decoder, steps[-1].text + chunk.text))
    return steps


def ended(decoder: StopSequenceDecoder, text: str) -> dict[str, Seen]:
    ends: dict[str, Seen] = {}
    for reason in FLUSH_REASONS:
        fork = decoder.fork()
        chunk = fits(fork.flush(reason), fork)
        ends[reason] = seen(fork, text + chunk.text)
    return ends


# --- all laws at once, where the bytes of tokens are known ----------------------------------------


def as_the_oracle(situation: Situation) -> None:
    """After each token, and at each end that could come there; with cold caches and with warm."""
    setup, model = setup_of(situation), Model(situation)
    for round_ in range(2):
        decoder, text = setup.decoder(), ""
        for count in range(len(situation.ids) + 1):
            if count and model.raises(count - 1):
                before = seen(decoder, text)
                with pytest.raises(TokenIdError) as raised:
                    decoder.step(situation.ids[count - 1])
                assert raised.value.index == decoder.num_tokens
                assert seen(decoder, text) == before
            elif count:
                text += fits(decoder.step(situation.ids[count - 1]), decoder).text
            assert seen(decoder, text) == model.after(count), (count, round_)
            ends = {reason: model.after(count, flush=reason) for reason in FLUSH_REASONS}
            assert ended(decoder, text) == ends, (count, round_)
            if decoder.finished:
                break


def at_once(new: New, ids: Sequence[int], beyond: Sequence[Any] = (-1, None, 2**32)) -> None:
    """Fed ids give one Chunk; what follows the finish is counted, and not even looked at."""
    states = trail(new(), ids)
    text, last = states[-1]
    fed = [*accepted(states, ids), *(beyond if last["finished"] else ())]
    decoder = new()
    chunk = fits(decoder.feed(fed), decoder, len(fed) - last["num_tokens"])
    assert (chunk.text, observe(decoder)) == (text, last)


def order_of_lists(setup: Setup, ids: Sequence[int]) -> None:
    """Repetition in the lists of conditions changes nothing, nor does their order.

    Patterns and sections keep their order: the first of two patterns with equal matches wins.
    """
    turned: dict[str, Any] = {}
    for name in [each.name for each in fields(Conditions)]:
        value = getattr(setup.conditions, name)
        turned[name] = value
        if name in ("stop_regex", "ignore_stops_between"):
            turned[name] = (*value, *reversed(value))
        elif isinstance(value, tuple):
            turned[name] = (*reversed(value), *value)
    other = setup._replace(conditions=Conditions(**turned))
    assert one_by_one(setup, ids) == one_by_one(other, ids)


# --- laws 0 and 17: the past of a stream ----------------------------------------------------------


def decoders_with_spans(situation: Situation, tokenizer: Tokenizer) -> list[Any]:
    """A stream with the stops and sections of a situation, and one without."""
    options: dict[str, Any] = {**situation.options, "spans": True}
    return [
        decoder_of(situation, tokenizer, spans=True),
        DecodeStream(tokenizer, situation.prompt, **options),
    ]


def histories_do_not_matter(situation: Situation, others: Sequence[Situation]) -> None:
    """Law 0: other streams that used the tokenizer before cannot be noticed.

    The two tokenizers have equal definitions. ``others`` have been streamed with the second one.
    """
    fresh, used = new_tokenizer(situation), new_tokenizer(situation)
    for number, other in enumerate(others):
        with suppress(TokenIdError):
            DecodeStream(used, other.prompt, **other.options).step_batch(other.ids)
        # Ids of chunks may have caches of their own.
        bare = replace(other, conditions=Conditions(), sections=())
        chunks_of(decoder_of(other if number % 2 else bare, used), other.ids)
    found = [chunks_of(decoder_of(situation, each), situation.ids) for each in (fresh, used)]
    assert found[0] == found[1]
    fresh = new_tokenizer(situation)
    pairs = zip(*(decoders_with_spans(situation, each) for each in (fresh, used)), strict=True)
    for first, second in pairs:
        the_same_spans_and_states(first, second, situation.ids)


def spans_whenever_taken(situation: Situation, cuts: Sequence[int]) -> None:
    """Law 17, for both decoders of a situation."""
    tokenizer = new_tokenizer(situation)

    def new(number: int) -> Any:
        return decoders_with_spans(situation, tokenizer)[number]

    for number in range(2):
        decoder_laws.spans_whenever_taken(partial(new, number), situation.ids, cuts)


def chunks_of(decoder: Any, ids: Sequence[int]) -> list[Chunk]:
    """The chunks of a stream over ``ids``, with their ids."""
    found: list[Chunk] = []
    with suppress(TokenIdError):
        found.extend(iter_chunks(iter(ids), decoder, return_token_ids=True))
    return found


def spans_are_cut(setup: Setup, ids: Sequence[int]) -> None:
    """Law 17: spans are those of a stream without stops, cut where the output ends."""
    setup = setup.with_options(spans=True)
    decoder, text, taken = setup.decoder(), "", []
    for token_id in ids:
        text += decoder.step(token_id).text
        new = decoder.take_spans()
        assert all(span.end <= len(text) for span in new), "only of text that was output"
        taken += new
        if decoder.finished:
            break
        assert len(taken) == decoder.num_tokens - decoder.num_pending_tokens
    text += decoder.flush().text
    stream = setup.stream()
    stream.step_batch(ids[: decoder.num_tokens])
    stream.flush()
    most, size = len(text), len(text.encode())
    assert [*taken, *decoder.take_spans()] == [
        (index, min(start, most), min(end, most), min(first, size), min(last, size))
        for index, start, end, first, last in stream.take_spans()
    ]


# --- laws 1, 3, 9 and 11, for any tokenizer -------------------------------------------------------


def as_the_oracle_of_its_text(setup: Setup, ids: Sequence[int]) -> None:
    """The oracle reads the text that each token completes as a token of its own.

    For stops that are strings. ``tokens_before`` needs the bytes of tokens; it has its own law.
    """
    stream = setup.stream()
    held, texts = [stream.held], []
    for token_id in ids:
        texts.append(stream.step(token_id))
        held.append(stream.held)
    model = _model_of(setup, texts)
    for count, found in enumerate(one_by_one(setup, ids)):
        wanted = model.after(count)
        assert _of_text(found) == _of_text(wanted), count
        assert found.held == (b"" if found.finish_reason else held[count])
    if not ids:
        return
    # What the end releases is completed by the last token.
    texts[-1] += stream.flush()
    decoder = setup.decoder()
    text = decoder.feed(ids).text + decoder.flush("abort").text
    wanted = _model_of(setup, texts).after(len(ids), flush="abort")
    assert _of_text(seen(decoder, text)) == _of_text(wanted)


def _model_of(setup: Setup, texts: Sequence[str]) -> Model:
    tokens = tuple(text.encode() for text in texts)
    operations = tuple(range(len(texts)))
    return Model(Situation(tokens, conditions=setup.conditions, operations=operations))


def _of_text(found: Seen) -> Seen:
    """What depends on the text alone, and not on the bytes of the tokens."""
    match = found.match and found.match._replace(tokens_before=0)
    return found._replace(held=b"", match=match, num_pending_tokens=0)


# --- ids, for any tokenizer -----------------------------------------------------------------------


def what_an_id_leaves(setup: Setup, ids: Sequence[int]) -> None:
    """Of a stream that one id ends: the whole text before it, and its own if shown.

    For conditions that are one stop id, hidden or shown, and nothing else.
    """
    conditions = setup.conditions
    (stop,) = (*conditions.stop_token_ids, *conditions.visible_stop_token_ids)
    shown = conditions.include_stop_str_in_output or bool(conditions.visible_stop_token_ids)
    before = [*itertools.takewhile(lambda token_id: token_id != stop, ids)]
    ends = len(before) < len(ids)
    ids = ids[: len(before) + ends]
    decoder = setup.decoder()
    given = "".join(decoder.step(token_id).text for token_id in ids)
    assert decoder.finished == ends
    expected = whole_text(setup, ids if shown else before)
    assert given + decoder.flush("abort").text == expected
    match = decoder.match
    if match is None:
        return
    assert (match.stop, match.visible, match.token_index) == (stop, shown, len(before))
    assert match.end == len(expected)
    assert match.tokens_before <= len(before)
    if match.tokens_before:
        assert len(whole_text(setup, ids[: match.tokens_before])) <= match.start


def whole_text(setup: Setup, ids: Sequence[int]) -> str:
    stream = setup.stream()
    return "".join(stream.step_batch(ids)) + stream.flush()


# --- positions ------------------------------------------------------------------------------------


def what_an_engine_may_keep(setup: Setup, ids: Sequence[int]) -> None:
    """The tokens before a match have their text wholly before it; the next one reaches into it.

    Not for exact runs, whose text may change with what follows them; and the second half only where
    the token of a byte is known.
    """
    decoder = setup.decoder()
    try:
        decoder.feed(ids)
    except TokenIdError:
        return
    decoder.flush("abort")
    match = decoder.match
    if match is None:
        return
    kept = match.tokens_before
    assert match.token_index is not None or not ids
    assert 0 <= kept <= decoder.num_tokens
    lenient = setup.with_options(unknown_ids="skip")
    stream = lenient.stream()
    text = "".join(stream.step_batch(ids[:kept]))
    assert len(text) <= match.start, "kept text is before the match"
    is_windowed = decoder.route == "window"  # assumed there
    if match.start < match.end and (is_windowed or tells_tokens_apart(lenient)):
        longer = lenient.stream()
        rules = getattr(setup.tokenizer, "rules", None)
        # The space of a suffix is the token's, and comes only if another one follows.
        more = 2 if rules is not None and isinstance(rules.rule, BPESuffix) else 1
        text = "".join(longer.step_batch(ids[: kept + more])) + longer.flush()
        assert len(text) > match.start, "the next token is the match's"


def tells_tokens_apart(setup: Setup) -> bool:
    """Whether each code point can be traced to its tokens."""
    try:
        setup.with_options(spans=True).stream()
    except ValueError:
        return False
    return True
