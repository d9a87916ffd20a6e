"""The laws of the stop engine, on mocks of both kinds and on a handful of real decoders.

First the oracle itself is held to answers that were worked out by hand from the page of the laws.
Then the engine is held to the oracle, and to the laws.
"""

from __future__ import annotations

import itertools
import random
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from streamdec import StopMatch
from streamdec.protocols import BPESuffix
from tests import decoder_laws
from tests import stop_laws as laws
from tests.stop_model import Conditions, Model, Seen, Situation, draw_table
from tests.strategies import Subject, cuts, exact, situations, stops, token_ids
from tests.test_laws import subject_named
from tests.test_stop_patterns import ANY, Source
from tests.test_stop_patterns import situations as pattern_situations

# The name of a skipped special token may be a part of a marker.
pytestmark = pytest.mark.filterwarnings("ignore:sections. the marker")


# --- worked out by hand ---------------------------------------------------------------------------


@dataclass(frozen=True)
class Row:
    """A short stream: its tokens in order, or the places in them that ``ids`` name."""

    name: str
    tokens: Sequence[bytes]
    gives: Sequence[str]
    """The text of each chunk, up to the finish or the end of the ids."""
    finish: str | None = None
    span: tuple[Any, ...] | None = None
    """The match: start, end, byte_start, byte_end, token_index, tokens_before."""
    reason: Any = None
    visible: bool = False
    flush: str | None = None
    """What the flush gives; None: the stream is finished before."""
    ids: Sequence[int] | None = None
    prompt: Sequence[bytes] = ()
    special: tuple[int, ...] = ()
    decoder: str = "byte_level"
    options: Mapping[str, Any] = field(default_factory=dict)
    stops: Mapping[str, Any] = field(default_factory=dict)

    @property
    def situation(self) -> Situation:
        tokens = (*self.tokens, *self.prompt)
        ids = range(len(self.tokens)) if self.ids is None else self.ids
        return Situation(
            tokens,
            self.special,
            self.decoder,
            conditions=Conditions(**self.stops),
            prompt=tuple(range(len(self.tokens), len(tokens))),
            operations=tuple(ids),
            **self.options,
        )

    @property
    def last(self) -> Seen:
        text = "".join(self.gives) + (self.flush or "")
        match = StopMatch(self.reason, self.visible, *self.span) if self.span else None
        count = len(self.gives)
        return Seen(text, b"", "", count, self.finish or "length", self.reason, match)


NEVER = 98
"""An id that does not come."""


def gate(opening: str | int, closing: str | int, *, inside: bool = True) -> dict[str, Any]:
    return {"ignore_stops_between": ((opening, closing),), "starts_inside": inside}


def pattern(source: str, most: int | None = None) -> dict[str, Any]:
    return {"stop_regex": (Source(source),), "max_match_length": most}


ROWS = [
    Row(
        "the earliest completion wins, not the earliest start",
        [b"xabcdy"], ["xa"], "stop", (2, 4, 2, 4, 0, 0), "bc",
        stops={"stop": ("abcd", "bc")},
    ),
    Row(
        "the longest wins even if it is visible and ends in a hidden one",
        [b"a<E", b"NDx"], ["a<", "END"], "stop", (1, 5, 1, 5, 1, 0), "<END", visible=True,
        stops={"stop": ("END",), "visible_stop": ("<END",)},
    ),
    Row(
        "hidden beats visible for equal strings",
        [b"axb"], ["a"], "stop", (1, 2, 1, 2, 0, 0), "x",
        stops={"stop": ("x",), "visible_stop": ("x",)},
    ),
    Row(
        "a visible stop inside the beginning of a hidden one: the jailed text is output with it",
        [b"xa", b"bq"], ["x", "ab"], "stop", (2, 3, 2, 3, 1, 1), "b", visible=True,
        stops={"stop": ("abcd",), "visible_stop": ("b",)},
    ),
    Row(
        "aa in aaa: the match at the second letter is ignored, the one at the third counts",
        [b"a"], ["", "a", ""], "stop", (1, 3, 1, 3, 2, 1), "aa", ids=[0, 0, 0],
        stops={"stop": ("aa",), "min_tokens": 2},
    ),
    Row(
        "an ignored stop id's text may be a stop later on",
        [b"a", b"b", b"c"], ["a", "", ""], "stop", (1, 3, 1, 3, 2, 1), "bc",
        stops={"stop_token_ids": (1,), "stop": ("bc",), "min_tokens": 2},
    ),
    Row(
        "stop beats length on the same token",
        [b"a", b"b", b"c"], ["a", ""], "stop", (1, 2, 1, 2, 1, 1), "b",
        stops={"stop": ("b",), "max_tokens": 2},
    ),
    Row(
        "the limit's release completes a stop",
        [b"xa", b"\xe4\xbd", b"c"], ["x", ""], "stop", (1, 3, 1, 5, 1, 0), "a\ufffd",
        stops={"stop": ("a\ufffd",), "max_tokens": 2},
    ),
    Row(
        "a release completes as the last token does: min_tokens ignores it",
        [b"a", b"\xe4\xbd", b"c"], ["", "a\ufffd"], "length",
        stops={"stop": ("a\ufffd",), "min_tokens": 2, "max_tokens": 2},
    ),
    Row(
        "no part of a visible stop id's text is matched",
        [b"ab", b"c"], ["", "abc"], "stop", (2, 3, 2, 3, 1, 1), 1, visible=True,
        stops={"stop": ("abc",), "visible_stop_token_ids": (1,)},
    ),
    Row(
        "a visible stop id completes a pending character",
        [b"x\xe4", b"\xbd\xa0!"], ["x", "你!"], "stop", (1, 3, 1, 5, 1, 0), 1, visible=True,
        stops={"stop": ("你",), "visible_stop_token_ids": (1,)},
    ),
    Row(
        "a hidden stop id does not complete it",
        [b"x\xe4", b"\xbd\xa0!"], ["x", "\ufffd"], "stop", (2, 2, 4, 4, 1, 1), 1,
        stops={"stop_token_ids": (1,)},
    ),
    Row(
        "what a stop id releases completes a stop string, which is then the finish",
        [b"a\xe4", b"b"], ["a", ""], "stop", (1, 2, 1, 4, 1, 0), "\ufffd",
        stops={"stop": ("\ufffd",), "stop_token_ids": (1,)},
    ),
    Row(
        "a visible stop id's match is its own text, not what it interrupts",
        [b"\xe4", b"a"], ["", "\ufffda"], "stop", (1, 2, 3, 4, 1, 1), 1, visible=True,
        stops={"visible_stop_token_ids": (1,)},
    ),
    Row(
        "the prompt's unfinished character is code point 0, and a stop may begin there",
        [b"\xbd\xa0", b"!"], ["", ""], "stop", (0, 2, 0, 4, 1, 0), "你!", prompt=[b"x\xe4"],
        stops={"stop": ("你!",)},
    ),
    Row(
        "a stop does not begin in the prompt",
        [b"SER: hi"], ["SER: hi"], flush="", prompt=[b"U"],
        stops={"stop": ("USER:",)},
    ),
    Row(
        "a flush without tokens gives the prompt's tail, which may be a stop",
        [], [], "stop", (0, 1, 0, 3, None, 0), "\ufffd", flush="", prompt=[b"\xe4"],
        stops={"stop": ("\ufffd",)},
    ),
    Row(
        "a character that the match's first token shares is kept, the token is not",
        [b"a\xe4", b"\xbd\xa0ST", b"OP"], ["a", "你", ""], "stop", (2, 6, 4, 8, 2, 1), "STOP",
        stops={"stop": ("STOP",)},
    ),
    Row(
        "exact runs: a character is read when its run closes",
        [b"\xe4", b"\xbd", b"\xa0", b"!"], ["", "", "", ""], "stop", (0, 1, 0, 3, 3, 0), "你",
        decoder="byte_fallback", options={"byte_fallback": "exact"}, stops={"stop": ("你",)},
    ),
    Row(
        "exact runs: a character that the prompt began in its run may be in a stop",
        [b"\xbd", b"\xa0", b"!"], ["", "", ""], "stop", (0, 1, 0, 3, 2, 0), "你", prompt=[b"\xe4"],
        decoder="byte_fallback", options={"byte_fallback": "exact"}, stops={"stop": ("你",)},
    ),
    Row(
        "a stop string that is a skipped special is its id as well",
        [b"a", b"</s>"], ["a", ""], "stop", (1, 1, 1, 1, 1, 1), "</s>", special=(1,),
        stops={"stop": ("</s>",)},
    ),
    Row(
        "a hidden stop string that is a skipped special beats the same id made visible",
        [b"a", b"</s>"], ["a", ""], "stop", (1, 1, 1, 1, 1, 1), "</s>", special=(1,),
        stops={"stop": ("</s>",), "visible_stop_token_ids": (1,)},
    ),
    Row(
        "enabled after an id: neither before it nor in it",
        [b"x", b"x", b"yx"], ["x", "x", "y"], "stop", (3, 4, 3, 4, 2, 2), "x",
        stops={"stop": ("x",), **gate(NEVER, 1)},
    ),
    Row(
        "enabled after a text, in the same token",
        [b"\n\n</think>ok\n\nno"], ["\n\n</think>ok"], "stop", (12, 14, 12, 14, 0, 0), "\n\n",
        stops={"stop": ("\n\n",), **gate(NEVER, "</think>")},
    ),
    Row(
        "a stop does not begin in the marker",
        [b"ab", b"cbc"], ["ab", "c"], "stop", (3, 5, 3, 5, 1, 1), "bc",
        stops={"stop": ("bc",), **gate(NEVER, "ab")},
    ),
    Row(
        "a character that the marker interrupts does not count",
        [b"\xe4", b"<s>", b"\xbd\xa0", "你".encode()], ["", "", "你", ""], "stop",
        (1, 2, 3, 6, 3, 3), "你", special=(1,),
        stops={"stop": ("你",), **gate(NEVER, 1)},
    ),
    Row(
        "a stop that is complete after a closing marker does not count",
        [b"xabab", b"x"], ["xabab", "x"], flush="",
        stops={"stop": ("abab",), **gate("ba", NEVER, inside=False)},
    ),
    Row(
        "the closing of the gate empties the jail",
        [b"ab", b"", b"c"], ["", "ab", "c"], flush="",
        stops={"stop": ("abc",), **gate(1, NEVER, inside=False)},
    ),
    Row(
        "end of sequence that is named as a stop is only end of sequence while the gate is closed",
        [b"a", b"b"], ["a", ""], "stop", (1, 1, 1, 1, 1, 1), None,
        stops={
            "eos_token_ids": (1,), "visible_stop_token_ids": (1,), **gate(NEVER, "never"),
        },
    ),
    Row(
        "the longest match that ends at one code point is the stop",
        [b"-aa", b"ab"], ["-", ""], "stop", (1, 5, 1, 5, 1, 0), "a*b",
        stops=pattern("a*b", 8),
    ),
    Row(
        "a match has at most max_match_length code points; what cannot be part of one is output",
        [b"-aa", b"ab"], ["-a", "a"], "stop", (3, 5, 3, 5, 1, 1), "a*b",
        stops=pattern("a*b", 2),
    ),
    Row(
        "a boundary within a pattern waits for the next character",
        [b"aba", b"b", b"-aba", b"-"], ["", "ab", "ab-", ""], "stop", (5, 9, 5, 9, 3, 2),
        r"aba\b-", stops=pattern(r"aba\b-"),
    ),
    Row(
        "a hidden pattern beats a visible string",
        [b"-aab"], ["-"], "stop", (1, 4, 1, 4, 0, 0), "a.b",
        stops={**pattern("a.b"), "visible_stop": ("aab",)},
    ),
    Row(
        "^ is where a section ended",
        [b"ab", b"<go>a", b"b"], ["ab", "<go>", ""], "stop", (6, 8, 6, 8, 2, 1), "^ab",
        stops={**pattern("^ab"), **gate(NEVER, "<go>")},
    ),
    Row(
        "a look-behind sees the text before the gate opened",
        [b"ab", b"ab", b"<go>a"], ["ab", "ab", "<go>"], "stop", (8, 9, 8, 9, 2, 2),
        "(?<=bab<go>)a", stops={**pattern("(?<=bab<go>)a"), **gate(NEVER, "<go>")},
    ),
]  # fmt: skip


@pytest.mark.parametrize("row", ROWS, ids=lambda row: row.name.replace(" ", "_"))
def test_oracle_and_engine_give_the_answers_worked_out_by_hand(row: Row) -> None:
    situation, model = row.situation, Model(row.situation)
    texts = [model.after(count).text for count in range(len(row.gives) + 1)]
    assert all(b.startswith(a) for a, b in itertools.pairwise(texts))
    assert [b.removeprefix(a) for a, b in itertools.pairwise(texts)] == [*row.gives]
    assert model.after(len(row.gives), flush="length") == row.last
    assert (model.after(len(row.gives)).finish_reason is None) == (row.flush is not None)
    laws.as_the_oracle(situation)


# --- on tokens whose bytes are known --------------------------------------------------------------


MORE = settings(max_examples=2 * settings().max_examples)
MANY = settings(max_examples=6 * settings().max_examples)
"""For the law that finds most."""


@MANY
@given(situation=situations())
def test_all_laws_as_the_oracle(situation: Situation) -> None:
    laws.as_the_oracle(situation)


@settings(max_examples=4 * settings().max_examples)
@given(situation=ANY, data=st.data())
def test_law_0_chunk_invariance(situation: Situation, data: st.DataObject) -> None:
    places = data.draw(cuts(situation.ids))
    decoder_laws.chunk_invariance(laws.setup_of(situation).decoder, situation.ids, places)


@MORE
@given(situation=ANY, max_entries=st.sampled_from([1, 2, 3, 7]))
def test_law_0_cache_state(situation: Situation, max_entries: int) -> None:
    decoder_laws.with_small_caches(laws.setup_of(situation).decoder, situation.ids, max_entries)


@MORE
@given(situation=ANY)
def test_laws_0_9_and_14(situation: Situation) -> None:
    """One call for all ids, any order of the conditions, and nothing after the end."""
    setup, ids = laws.setup_of(situation), situation.ids
    laws.at_once(setup.decoder, ids)
    laws.order_of_lists(setup, ids)
    decoder_laws.finality(setup.decoder, ids)


@MORE
@given(situation=situations(exact_runs=False, sections=True) | pattern_situations(), data=st.data())
def test_law_15_bounds(situation: Situation, data: st.DataObject) -> None:
    endless = laws.endless(situation)
    markers = [each for section in situation.sections for each in section[1:]]
    often = st.sampled_from([*(each for each in markers if isinstance(each, int)), *endless.ids, 0])
    cycle = data.draw(st.lists(often, min_size=1, max_size=3))
    begun = endless.ids[: data.draw(st.integers(0, 8))]
    decoder_laws.does_not_grow(laws.decoder_with_sections(endless), begun, cycle)


@MORE
@given(
    situation=ANY,
    bad=st.sampled_from((-1, 2**32, True, 1.0, "1", None, [1])),
    after=st.lists(st.integers(0, 30), max_size=5),
)
def test_law_16_nothing_lost(situation: Situation, bad: object, after: list[int]) -> None:
    decoder_laws.nothing_lost(laws.setup_of(situation).decoder, situation.ids, bad, after)


# --- on any tokenizer -----------------------------------------------------------------------------

SUBJECTS = [
    *("byte_level", "byte_level_trained", "byte_level_fused", "byte_fallback_strip"),
    *("byte_fallback_metaspace", "metaspace_always", "wordpiece", "bpe_suffix_short"),
    *("ctc", "no_decoder", "replaces_after_fuse"),
]


@pytest.fixture(params=SUBJECTS)
def subject(request: pytest.FixtureRequest) -> Subject:
    return subject_named(request.param)


def draw_setup(
    data: st.DataObject, subject: Subject, *, prompt: bool = True, **options: Any
) -> tuple[laws.Setup, list[int]]:
    """Ids, and strings that are near their text."""
    ids = data.draw(token_ids(subject, known=not prompt, max_size=24), label="ids")
    before = data.draw(token_ids(subject, max_size=4), label="prompt") if prompt else []
    setup = laws.Setup(subject.tokenizer, Conditions(), before, options)
    stream = setup.stream()
    text = "".join(stream.step_batch(ids)) + stream.flush()
    several = st.lists(stops(text or "a"), max_size=5).map(tuple)
    conditions = Conditions(
        stop=data.draw(several, label="stop"),
        visible_stop=data.draw(several, label="visible") if data.draw(st.booleans()) else (),
        min_tokens=data.draw(st.sampled_from([0, 0, 1, 3])),
    )
    return setup._replace(conditions=conditions), ids


@given(data=st.data(), runs=st.sampled_from(["eager", "exact"]))
def test_laws_1_3_9_and_11_as_the_oracle_of_its_text(
    subject: Subject, data: st.DataObject, runs: str
) -> None:
    # With specials shown no string is an id as well.
    setup, ids = draw_setup(data, subject, skip_special_tokens=False, byte_fallback=runs)
    # No stop begins in text of the prompt, such as a space that its last token owes.
    owes = subject.tokenizer.rules is not None and isinstance(
        subject.tokenizer.rules.rule, BPESuffix
    )
    if owes or setup.stream().flush():
        setup = setup._replace(prompt=[])
    laws.as_the_oracle_of_its_text(setup, ids)
    if runs == "eager":
        laws.what_an_engine_may_keep(setup, ids)


@given(data=st.data(), skip=st.booleans())
def test_law_0_any_tokenizer(subject: Subject, data: st.DataObject, skip: bool) -> None:
    setup, ids = draw_setup(data, subject, skip_special_tokens=skip)
    decoder_laws.chunk_invariance(setup.decoder, ids, data.draw(cuts(ids)))
    laws.at_once(setup.decoder, ids)


@given(data=st.data(), skip=st.booleans())
def test_law_17_spans_are_cut_at_the_stop(
    subject: Subject, data: st.DataObject, skip: bool
) -> None:
    options = {"skip_special_tokens": skip, **exact(subject)}
    setup, ids = draw_setup(data, subject, prompt=False, **options)
    if laws.tells_tokens_apart(setup):
        laws.spans_are_cut(setup, ids)


@given(data=st.data())
def test_the_windowed_route(data: st.DataObject) -> None:
    """Stops are found on text that comes by way of windows, too."""
    name = data.draw(st.sampled_from(["regex_after_fuse", "python_decoder", "strip_after_replace"]))
    setup, ids = draw_setup(data, subject_named(name), skip_special_tokens=False)
    laws.as_the_oracle_of_its_text(setup, ids)


@given(data=st.data(), skip=st.booleans(), clean_up=st.booleans())
def test_ids_of_any_tokenizer(
    subject: Subject, data: st.DataObject, skip: bool, clean_up: bool
) -> None:
    options = {"skip_special_tokens": skip, "clean_up_tokenization_spaces": clean_up}
    setup, ids = draw_setup(data, subject, prompt=False, **options)
    if not ids:
        return
    stop, is_visible = (data.draw(st.sampled_from(ids)),), data.draw(st.booleans())
    conditions = Conditions(
        stop_token_ids=() if is_visible else stop,
        visible_stop_token_ids=stop if is_visible else (),
        include_stop_str_in_output=data.draw(st.booleans()),
    )
    laws.what_an_id_leaves(setup._replace(conditions=conditions), ids)


# --- the past of a stream -------------------------------------------------------------------------

ONE_TABLE = st.integers(0, 2**32).flatmap(
    lambda seed: st.lists(
        situations(draw_table(random.Random(seed)), sections=True), min_size=2, max_size=4
    )
)
"""Situations with equal tokens."""


@given(drawn=ONE_TABLE)
def test_law_0_the_history_of_a_tokenizer(drawn: list[Situation]) -> None:
    laws.histories_do_not_matter(drawn[0], drawn[1:])


def test_law_0_ids_of_a_chunk_after_another_stream() -> None:
    tokens = ("é".encode() + b"\xc3", b"\xa9", b"!", b"x")
    situation = Situation(tokens, conditions=Conditions(stop=("éX",)), operations=(0, 1, 2))
    for ids in itertools.product(range(4), repeat=3):
        laws.histories_do_not_matter(situation, [replace(situation, operations=ids)])


@given(situation=situations(sections=True), data=st.data())
def test_laws_0_and_17_spans_whenever_taken(situation: Situation, data: st.DataObject) -> None:
    laws.spans_whenever_taken(situation, data.draw(cuts(situation.ids)))


def test_laws_0_and_17_the_span_of_a_skipped_special_token() -> None:
    situation = Situation((b"a", b"\xe4", b"<s>", b"b"), (2,))
    for ids in itertools.product(range(4), repeat=4):
        laws.spans_whenever_taken(replace(situation, operations=ids), range(5))
