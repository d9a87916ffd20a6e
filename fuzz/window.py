"""``python -m fuzz.window``: test the laws of tokenizers that only have ``decode``.

An input is JSON as for the decoders. ``window_continues`` takes its ids from the list ``text``:
numbers are words, strings are characters in bytes, and lists are runs of ids without text.
"""

from __future__ import annotations

import random
import sys
from collections.abc import Mapping
from functools import partial
from typing import Any

from fuzz.cases import Case, shown, written
from fuzz.decoders import CUT, Law, law_of, some_ids
from fuzz.edits import json_edit
from fuzz.harness import Target, main
from tests import decoder_laws, laws
from tests.strategies import Subject
from tests.test_laws import WINDOWED, subject_named

CHARACTERS = "aé你😀\u0301"
NAMES = sorted(WINDOWED)


def _skip(case: Case) -> dict[str, Any]:
    return {"skip_special_tokens": not case.flag("specials")}


def _refusals_and_invariance(subject: Subject, case: Case) -> None:
    prompt = case.ids("prompt", 8)
    accepted = laws.refusals(subject, prompt, case.ids("ids"), **_skip(case))
    cuts = case.cuts("cuts", len(accepted))
    new = partial(laws.stream_of, subject, prompt, **_skip(case))
    decoder_laws.chunk_invariance(new, accepted, cuts)


def _nothing_lost(subject: Subject, case: Case) -> None:
    ids = laws.refusals(subject, [], _text(subject, case, "text", skip=True))
    place, bad = case.number("number", len(ids)), case.number("bad", len(laws.BAD_IDS) - 1)
    new = partial(laws.stream_of, subject)
    decoder_laws.nothing_lost(new, ids[:place], laws.BAD_IDS[bad], ids[place:])


def _window_continues(subject: Subject, case: Case) -> None:
    skip = not case.flag("specials")
    prompt = _text(subject, case, "prompt text", skip=skip)[:200]
    ids = _text(subject, case, "text", skip=skip)
    laws.window_continues(subject, prompt, ids, skip_special_tokens=skip)


def _finality(subject: Subject, case: Case) -> None:
    ids = laws.refusals(subject, [], _text(subject, case, "text", skip=True))
    decoder_laws.finality(partial(laws.stream_of, subject), ids)


def _bounded_window(subject: Subject, case: Case) -> None:
    laws.bounded_window(subject, case.ids("prompt"), case.ids("ids") * 4, **_skip(case))


LAWS: Mapping[str, Law] = {
    "refusals_and_invariance": _refusals_and_invariance,
    "window_continues": _window_continues,
    "nothing_lost": _nothing_lost,
    "finality": _finality,
    "bounded_window": _bounded_window,
}


def _text(subject: Subject, case: Case, name: str, *, skip: bool) -> list[int]:
    """Return ids like a model's."""
    skipped = set(subject.skipped if skip else ())
    silent = [*subject.unknown, *sorted(skipped)]
    ids: list[int] = []
    parts = case.fields.get(name)
    for part in parts[:20] if isinstance(parts, list) else []:
        if isinstance(part, list):
            ids += [silent[len(part) % len(silent)]] * (sum(map(_size, part)) % 81)
        elif isinstance(part, str):
            spelled = [subject.byte_ids.get(byte, -1) for byte in _character(part).encode()]
            ids += [] if {-1, *skipped} & {*spelled} else spelled
        elif isinstance(part, int):
            ids.append(subject.ordinary[part % len(subject.ordinary)])
    return ids


def _size(value: object) -> int:
    return value if isinstance(value, int) and value > 0 else 1


def _character(text: str) -> str:
    return text if text in [*CHARACTERS] else CHARACTERS[len(text) % len(CHARACTERS)]


def _seeds() -> dict[str, bytes]:
    made = {}
    for number, name in enumerate(NAMES[:: len(NAMES) // 12]):
        law, subject, draw = [*LAWS][number % len(LAWS)], subject_named(name), random.Random(number)
        made[f"{name.replace(' ', '-')}-{law}.json"] = written(
            tokenizer=name,
            law=law,
            prompt=[*some_ids(subject, draw, 3), "f09f98"],
            ids=["80", *some_ids(subject, draw, 10), *subject.unknown[:1] * 12, "e4bd"],
            cuts=[2, 5],
            text=[draw.randrange(60), "😀", [draw.randrange(80)], draw.randrange(60), "é"],
            number=draw.randrange(8),
            bad=draw.randrange(20),
            specials=draw.random() < 0.3,
            **{"prompt text": [draw.randrange(60), [3], "你"]},
        )
    return made


WORDS = [*NAMES, *LAWS, *CHARACTERS, *CUT, [60], [64, 1], *range(0, 400, 7), 2**32 - 1]
TARGET = Target("window", law_of(NAMES, LAWS), _seeds, json_edit(WORDS), shown)

if __name__ == "__main__":
    sys.exit(main(TARGET))
