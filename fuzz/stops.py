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
from tests import stop_laws as laws
from tests.stop_laws import Setup
from tests.stop_reference import TABLES, Conditions, Options, Situation
from tests.test_stop_laws import SUBJECTS, subject_named

LIST_OF_IDS = ("stop_token_ids", "visible_stop_token_ids", "eos_token_ids")
BAD_IDS = (-1, 2**32, True, 1.0, "1", None, [1])


def situation_of(case: Case) -> Situation:
    table = TABLES[case.number("table", len(TABLES) - 1)]
    options = Options(
        not case.flag("specials"),
        case.choice("byte_fallback", ["eager", "exact"]),
        case.choice("unknown_ids", ["skip", "error", "replace"]),
    )
    ids, prompt = _ids(case, "ids", 16), _ids(case, "prompt", 3)
    return Situation(table, _conditions(case), ids, prompt, options)


def _ids(case: Case, name: str, most: int) -> tuple[int, ...]:
    return tuple(case.ids(name, most))


def _conditions(case: Case) -> Conditions:
    """Return the valid conditions; invalid ones are left out."""
    given: dict[str, Any] = {
        name: tuple(text for text in case.texts(name) if text) for name in ("stop", "visible_stop")
    }
    given |= {name: _ids(case, name, 3) for name in LIST_OF_IDS}
    sequences = [[i for i in ids if type(i) is int] for ids in case.lists("stop_token_sequences")]
    given["stop_token_sequences"] = tuple(
        tuple(abs(i) % 2**32 for i in ids[:4]) for ids in sequences if ids
    )
    for name in ("include_stop_str_in_output", "ignore_eos"):
        given[name] = case.flag(name)
    given["min_tokens"] = case.number("min_tokens", 20)
    if case.flag("max_tokens"):
        given["max_tokens"] = case.number("max_tokens", 24, max(given["min_tokens"], 1))
    for name in ("enable_stops_after", "disable_stops_after"):
        marker = case.fields.get(name)
        if type(marker) is int:
            given[name] = abs(marker) % 2**32
        elif isinstance(marker, str) and marker:
            given[name] = marker.encode("utf-8", "replace").decode()
    return Conditions(**given)


# --- laws -----------------------------------------------------------------------------------------


def _as_the_reference(situation: Situation, _: Case) -> None:
    laws.as_the_reference(situation)


def _chunk_invariance(situation: Situation, case: Case) -> None:
    cuts = case.cuts("cuts", len(situation.ids))
    laws.chunk_invariance(laws.setup_of(situation), situation.ids, cuts)


def _small_caches(situation: Situation, case: Case) -> None:
    laws.with_small_caches(laws.setup_of(situation), situation.ids, case.number("number", 7, 1))


def _at_once(situation: Situation, _: Case) -> None:
    laws.at_once(laws.setup_of(situation), situation.ids)


def _order_of_lists(situation: Situation, _: Case) -> None:
    laws.order_of_lists(laws.setup_of(situation), situation.ids)


def _finality(situation: Situation, _: Case) -> None:
    laws.finality(laws.setup_of(situation), situation.ids)


def _bounded(situation: Situation, _: Case) -> None:
    options = replace(situation.options, byte_fallback="eager")
    laws.bounded(laws.setup_of(replace(situation, options=options)), situation.ids)


def _nothing_lost(situation: Situation, case: Case) -> None:
    bad = BAD_IDS[case.number("number", len(BAD_IDS) - 1)]
    laws.nothing_lost(laws.setup_of(situation), situation.ids, bad, case.ids("after", 5))


def _what_an_engine_may_keep(situation: Situation, _: Case) -> None:
    options = replace(situation.options, byte_fallback="eager", unknown_ids="skip")
    laws.what_an_engine_may_keep(laws.setup_of(replace(situation, options=options)), situation.ids)


def _any_tokenizer(situation: Situation, case: Case) -> None:
    """Test stop strings with a tokenizer of another kind."""
    tokenizer = subject_named(case.choice("tokenizer", SUBJECTS)).tokenizer
    known = situation.conditions
    conditions = Conditions(known.stop, visible_stop=known.visible_stop)
    options = Options(skip_special_tokens=False)
    setup = Setup(tokenizer, conditions, situation.prompt, options)
    laws.which_stop(setup, situation.ids)
    laws.least_hold(setup, situation.ids)
    laws.chunk_invariance(setup, situation.ids, case.cuts("cuts", len(situation.ids)))


def _hostile_conditions(_: Situation, case: Case) -> None:
    given = case.fields.get("conditions")
    with suppress(ValueError, TypeError):
        StopConditions(**given if isinstance(given, dict) else {"stop": given})


LAWS: Mapping[str, Callable[[Situation, Case], None]] = {
    "as_the_reference": _as_the_reference,
    "chunk_invariance": _chunk_invariance,
    "small_caches": _small_caches,
    "at_once": _at_once,
    "order_of_lists": _order_of_lists,
    "finality": _finality,
    "bounded": _bounded,
    "nothing_lost": _nothing_lost,
    "what_an_engine_may_keep": _what_an_engine_may_keep,
    "any_tokenizer": _any_tokenizer,
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
        {"ids": [a, b, a, b, 99], "stop_token_sequences": [[a, b, 99], [b, b]], "stop": ["bb"]},
        {
            "ids": [a, t, b, ab, b],
            "enable_stops_after": t,
            "disable_stops_after": "ba",
            "stop": ["abb", "b"],
        },
        {
            "ids": [ab, ab, ab],
            "disable_stops_after": "ba",
            "enable_stops_after": "b",
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
    """Return seeds with each law in a different situation, and the reference in all."""
    made = {}
    for number, situation in enumerate(_situations()):
        for law_name in dict.fromkeys([[*LAWS][number], "as_the_reference"]):
            made[f"{number:02}-{law_name}.json"] = written(
                law=law_name, cuts=[1, 3], number=number, **situation
            )
    return made


FIELDS = [*Conditions.__dataclass_fields__, "prompt", "ids", "cuts", "byte_fallback", "specials"]
WORDS = [*LAWS, *FIELDS, *SUBJECTS, *range(45), "a", "b", "ab", "\ufffd", "你", "</s>", "exact"]
TARGET = Target("stops", law, seeds, json_edit([*WORDS, "replace", "a+b?", "(a|aa)+b"]), shown)

if __name__ == "__main__":
    sys.exit(main(TARGET))
