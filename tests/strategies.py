"""The cases of the laws: those of the public conformance kit, and situations of the oracle."""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from hypothesis import strategies as st

from streamdec.protocols import ByteFallback
from streamdec.testing.strategies import cuts, running_text, stops, token_ids
from streamdec.testing.subjects import Subject
from tests.stop_model import Situation, TokenTable, draw_situation, draw_table

__all__ = ["RANDOM", "Subject", "cuts", "exact", "running_text", "situations", "stops", "token_ids"]

RANDOM = st.randoms(use_true_random=False)


def situations(
    table: TokenTable | None = None,
    *,
    only: Sequence[str] = (),
    specials: bool = True,
    unknown_ids: bool = True,
    exact_runs: bool = True,
    sections: bool = False,
) -> st.SearchStrategy[Situation]:
    """Situations of the oracle, without releases, whose tokens are those of ``table`` if given.

    ``only`` names the conditions that may be given; otherwise all may.
    """

    def drawn(rng: random.Random) -> Situation:
        tokens = table or draw_table(rng)
        if not specials:
            tokens = replace(tokens, special_ids=())
        found = draw_situation(rng, tokens, releases=False, sections=sections)
        if only:
            found = replace(found, conditions=found.conditions.only(*only))
        if not unknown_ids:
            found = replace(found, unknown_ids="skip")
        return found if exact_runs else replace(found, byte_fallback="eager")

    return RANDOM.map(drawn)


def exact(subject: Subject) -> dict[str, Any]:
    """The options under which the full decode is the library's own for any ids."""
    rules = subject.tokenizer.rules
    runs = rules is not None and isinstance(rules.rule, ByteFallback)
    return {"byte_fallback": "exact"} if runs else {}
