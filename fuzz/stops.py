"""``python -m fuzz.stops``: test the laws of the stop decoder with tokens of known bytes.

An input is JSON: the ``law`` by name, the ``table``, ``prompt``, ``ids``, ``cuts``, the options of
decoding, and conditions under their own names. ``conditions`` is passed to StopConditions
unchanged, which may only raise ValueError or TypeError.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from typing import Any

from fuzz.cases import Case, shown, written
from fuzz.edits import json_edit
from fuzz.harness import Target, main
from streamdec import StopConditions
from tests import decoder_laws
from tests import stop_laws as laws
from tests.stop_laws import Setup
from tests.stop_model import Conditions, Situation
from tests.test_laws import subject_named
from tests.test_stop_laws import SUBJECTS

TOKENS = (
    *(b"</s>", b"<t>", b"a", b"a", b"b", b"ab", b"aa", b"ba", b"bab", b" a", b"<", b"</s", b">"),
    *(b"s>", b"", b"\n\n", b"</s>", b"x<t>b", "\ufffd".encode(), "你".encode(), "é你".encode()),
    "aé".encode(),
)
CUT = (b"\xff", b"\xe0\x80", b"\xed\xa0", b"a\xe4", b"\xbd\xa0b", b"b\xf0\x9f", b"\xe4\xbd")
BYTES = tuple(bytes([byte]) for byte in b"\xc3\xa9\xe4\xbd\xa0\xf0\x9f\x98\x80\xff")
TABLES = (
    Situation((*TOKENS, *CUT, *BYTES), (0, 1, 2)),
    Situation((*TOKENS, *BYTES), (0, 1, 2), "byte_fallback"),
)
"""Tokens of few letters, and characters that are whole, cut or broken. Three are special tokens,
which ordinary ones spell too."""
LIST_OF_IDS = ("stop_token_ids", "visible_stop_token_ids", "eos_token_ids")
BAD_IDS = (-1, 2**32, True, 1.0, "1", None, [1])


def situation_of(case: Case) -> Situation:
    return replace(
        TABLES[case.number("table", len(TABLES) - 1)],
        skip_special_tokens=not case.flag("specials"),
        byte_fallback=case.choice("byte_fallback", ["eager", "exact"]),
        unknown_ids=case.choice("unknown_ids", ["skip", "error", "replace"]),
        conditions=_conditions(case),
        prompt=_ids(case, "prompt", 3),
        operations=_ids(case, "ids", 16),
    )


def _ids(case: Case, name: str, most: int) -> tuple[int, ...]:
    return tuple(case.ids(name, most))


def _conditions(case: Case) -> Conditions:
    """Return the valid conditions; invalid ones are left out."""
    given: dict[str, Any] = {
        name: tuple(text for text in case.texts(name) if text) for name in ("stop", "visible_stop")
    }
    given |= {name: _ids(case, name, 3) for name in LIST_OF_IDS}
    for name in ("include_stop_str_in_output", "ignore_eos"):
        given[name] = case.flag(name)
    given["min_tokens"] = case.number("min_tokens", 20)
    if case.flag("max_tokens"):
        given["max_tokens"] = case.number("max_tokens", 24, max(given["min_tokens"], 1))
    given["ignore_stops_between"] = _pairs(case)
    if given["ignore_stops_between"]:
        given["starts_inside"] = case.choice("starts_inside", [None, True, False])
    return Conditions(**given)


def _pairs(case: Case) -> tuple[tuple[str | int, str | int], ...]:
    """Return the valid pairs of different markers, one for each opening marker."""
    pairs: dict[str | int, str | int] = {}
    for each in case.lists("ignore_stops_between"):
        markers = [marker for marker in map(_marker, each[:2]) if marker is not None]
        if len(markers) == 2 and markers[0] != markers[1]:
            pairs[markers[0]] = markers[1]
    return tuple(pairs.items())


def _marker(value: Any) -> str | int | None:
    if type(value) is int:
        return abs(value) % 2**32
    if isinstance(value, str) and value:
        return value.encode("utf-8", "replace").decode()
    return None


# --- laws -----------------------------------------------------------------------------------------


def _as_the_oracle(situation: Situation, _: Case) -> None:
    laws.as_the_oracle(situation)


def _chunk_invariance(situation: Situation, case: Case) -> None:
    cuts = case.cuts("cuts", len(situation.ids))
    decoder_laws.chunk_invariance(laws.setup_of(situation).decoder, situation.ids, cuts)


def _small_caches(situation: Situation, case: Case) -> None:
    new, most = laws.setup_of(situation).decoder, case.number("number", 7, 1)
    decoder_laws.with_small_caches(new, situation.ids, most)


def _at_once(situation: Situation, _: Case) -> None:
    laws.at_once(laws.setup_of(situation).decoder, situation.ids)


def _order_of_lists(situation: Situation, _: Case) -> None:
    laws.order_of_lists(laws.setup_of(situation), situation.ids)


def _finality(situation: Situation, _: Case) -> None:
    decoder_laws.finality(laws.setup_of(situation).decoder, situation.ids)


def _bounded(situation: Situation, _: Case) -> None:
    endless = laws.endless(replace(situation, byte_fallback="eager"))
    decoder_laws.does_not_grow(laws.decoder_with_sections(endless), (), situation.ids or [0])


def _nothing_lost(situation: Situation, case: Case) -> None:
    bad = BAD_IDS[case.number("number", len(BAD_IDS) - 1)]
    new, after = laws.setup_of(situation).decoder, case.ids("after", 5)
    decoder_laws.nothing_lost(new, situation.ids, bad, after)


def _what_an_engine_may_keep(situation: Situation, _: Case) -> None:
    lenient = replace(situation, byte_fallback="eager", unknown_ids="skip")
    laws.what_an_engine_may_keep(laws.setup_of(lenient), lenient.ids)


def _spans_whenever_taken(situation: Situation, case: Case) -> None:
    laws.spans_whenever_taken(situation, case.cuts("cuts", len(situation.ids)))


def _any_tokenizer(situation: Situation, case: Case) -> None:
    """Test stop strings with a tokenizer of another kind."""
    tokenizer = subject_named(case.choice("tokenizer", SUBJECTS)).tokenizer
    conditions = situation.conditions.only("stop", "visible_stop")
    setup = Setup(tokenizer, conditions, situation.prompt, {"skip_special_tokens": False})
    laws.as_the_oracle_of_its_text(setup, situation.ids)
    cuts = case.cuts("cuts", len(situation.ids))
    decoder_laws.chunk_invariance(setup.decoder, situation.ids, cuts)


def _hostile_conditions(_: Situation, case: Case) -> None:
    given = case.fields.get("conditions")
    with suppress(ValueError, TypeError):
        StopConditions(**given if isinstance(given, dict) else {"stop": given})


LAWS: Mapping[str, Callable[[Situation, Case], None]] = {
    "as_the_oracle": _as_the_oracle,
    "chunk_invariance": _chunk_invariance,
    "small_caches": _small_caches,
    "at_once": _at_once,
    "order_of_lists": _order_of_lists,
    "finality": _finality,
    "bounded": _bounded,
    "nothing_lost": _nothing_lost,
    "what_an_engine_may_keep": _what_an_engine_may_keep,
    "any_tokenizer": _any_tokenizer,
    "spans_whenever_taken": _spans_whenever_taken,
    "hostile_conditions": _hostile_conditions,
}


def law(data: bytes) -> None:
    case = Case(data)
    LAWS[case.choice("law", [*LAWS])](situation_of(case), case)


# --- seeds ----------------------------------------------------------------------------------------


def _tokens(*tokens: bytes, table: int = 0) -> list[int]:
    return [TABLES[table].tokens.index(token) for token in tokens]


def _situations() -> Sequence[dict[str, Any]]:
    """Return seeds with different conditions."""
    a, b, ab, t = _tokens(b"a", b"b", b"ab", b"<t>")
    cut = _tokens(b"\xe4\xbd", b"\xbd\xa0b", b"a\xe4", b"\xff")
    fallback = _tokens(b"\xe4", b"\xbd", b"\xa0", b"b", table=1)
    return (
        {"ids": [a, ab, b, a], "stop": ["bba", "abb"], "visible_stop": ["b"]},
        {"ids": [b, cut[0], cut[1], a], "stop": ["你b", "\ufffda"], "min_tokens": 1},
        {"ids": [a, b, a, b, 99], "stop_token_ids": [99], "stop": ["bb"]},
        {
            "ids": [a, t, b, ab, b],
            "ignore_stops_between": [["ba", t]],
            "starts_inside": 1,
            "stop": ["abb", "b"],
        },
        {
            "ids": [ab, ab, ab],
            "ignore_stops_between": [["ba", "b"], ["b", a]],
            "starts_inside": 2,
            "stop": ["aba"],
        },
        {"ids": [cut[2], b, 0, b], "visible_stop_token_ids": [b], "stop": ["\ufffd"]},
        {"ids": [a, 0, b], "stop": ["</s>"], "eos_token_ids": [b], "ignore_eos": True},
        {
            "ids": [*fallback, 0],
            "table": 1,
            "stop": ["你"],
            "byte_fallback": "exact",
            "prompt": [a],
        },
        {
            "ids": [*fallback[:2], *fallback],
            "table": 1,
            "stop": ["\ufffd\ufffd你"],
            "max_tokens": 5,
        },
        {"ids": [a, 99, b], "unknown_ids": "error", "stop": ["ab"], "prompt": cut[:1]},
        {"ids": [a, 0, cut[0], b, cut[1]], "stop": ["ab"]},
        {
            "conditions": {
                "stop": ["a", ""],
                "stop_regex": ["a+b"],
                "max_match_length": 9,
                "min_tokens": -1,
            }
        },
    )


def seeds() -> dict[str, bytes]:
    """Return seeds with each law in a different situation, and the oracle in all."""
    made = {}
    for number, situation in enumerate(_situations()):
        for law_name in dict.fromkeys([[*LAWS][number], "as_the_oracle"]):
            made[f"{number:02}-{law_name}.json"] = written(
                law=law_name, cuts=[1, 3], number=number, **situation
            )
    return made


FIELDS = [*Conditions.__dataclass_fields__, "prompt", "ids", "cuts", "byte_fallback", "specials"]
WORDS = [*LAWS, *FIELDS, *SUBJECTS, *range(45), "a", "b", "ab", "\ufffd", "你", "</s>", "exact"]
TARGET = Target("stops", law, seeds, json_edit([*WORDS, "replace", "a+b?", "(a|aa)+b"]), shown)

if __name__ == "__main__":
    sys.exit(main(TARGET))
