"""``python -m fuzz.decoders FAMILY``: test the laws of decoding with small tokenizers.

There is a target for each way of joining tokens, such as ``byte_level``.

An input is JSON: the ``tokenizer`` and the ``law`` by name, ``prompt``, ``ids``, ``cuts``, and the
options of decoding. A string among ids is bytes in hexadecimal; each becomes its token.
"""

from __future__ import annotations

import random
import sys
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any

from fuzz.cases import Case, shown, written
from fuzz.edits import json_edit
from fuzz.harness import Target, main
from tests import decoder_laws, laws
from tests.strategies import Subject, exact
from tests.test_laws import FALLBACK_TOKENS, TOKENS, subject_named

__all__ = ["FAMILIES", "LAWS", "family", "law_of"]

FAMILIES: Mapping[str, Sequence[str]] = {
    "byte_level": (
        *("byte_level", "byte_level_trained", "byte_level_fused", "mock_bytes"),
        *("tiktoken", "tekken"),
    ),
    "byte_fallback": (
        *("byte_fallback", "byte_fallback_strip", "byte_fallback_strip_two", "byte_fallback_bare"),
        *("byte_fallback_replaces", "byte_fallback_metaspace", "byte_fallback_metaspace_never"),
        *("byte_fallback_silent_special", "regex_in_pieces", "mock_fallback", "sentencepiece"),
        "gguf",
    ),
    "metaspace": (
        *("metaspace_always", "metaspace_first", "metaspace_never", "metaspace_underscore"),
        "metaspace_unigram",
    ),
    "wordpiece": ("wordpiece", "wordpiece_plain", "wordpiece_strip"),
    "bpe_suffix": ("bpe_suffix", "bpe_suffix_short"),
    "ctc": ("ctc", "ctc_plain", "ctc_metaspace"),
    "pieces": (
        *("no_decoder", "word_level", "empty_sequence", "fuse", "replace_in_pieces"),
        *("strip_in_pieces", "replaces_after_fuse", "empty_pattern_in_pieces"),
        *("normalized_specials", "no_longer_special", "mock_words"),
    ),
}
"""The names of tests/test_laws.py."""

CUT = ("c3", "a9", "c3a9", "e4bd", "a0", "bda0", "f09f", "9880", "f09f98", "80", "eda0", "ff", "20")
"""Bytes of complete and incomplete characters."""

Law = Callable[[Subject, Case], None]


# --- the laws, with the fields of a case that they read -------------------------------------------


def _skip(case: Case) -> dict[str, Any]:
    return {"skip_special_tokens": not case.flag("specials")}


def _options(case: Case) -> dict[str, Any]:
    runs = case.choice("byte_fallback", ["eager", "exact"])
    clean_up = case.flag("clean_up")
    return {**_skip(case), "byte_fallback": runs, "clean_up_tokenization_spaces": clean_up}


def _exactly(subject: Subject, case: Case) -> dict[str, Any]:
    return {**_skip(case), **exact(subject)}


def _chunk_invariance(subject: Subject, case: Case) -> None:
    prompt, ids = case.ids("prompt", 8), case.ids("ids")
    new = partial(laws.stream_of, subject, prompt, **_options(case))
    decoder_laws.chunk_invariance(new, ids, case.cuts("cuts", len(ids)))


def _small_caches(subject: Subject, case: Case) -> None:
    new = partial(laws.stream_of, subject)
    decoder_laws.with_small_caches(new, case.ids("ids"), case.number("number", 7, 1))


def _emission(subject: Subject, case: Case) -> None:
    laws.emission(subject, case.ids("ids", 8), **_exactly(subject, case))


def _emission_of_bytes(subject: Subject, case: Case) -> None:
    if subject.name in ("mock_bytes", "mock_fallback"):
        tokens = TOKENS if subject.name == "mock_bytes" else FALLBACK_TOKENS
        laws.emission_of_bytes(subject, case.ids("ids"), tokens)


def _whole_decode(subject: Subject, case: Case) -> None:
    laws.whole_decode(subject, case.ids("ids"), **_exactly(subject, case))


def _eager_runs(subject: Subject, case: Case) -> None:
    if subject.name.startswith("byte_fallback") and "metaspace" not in subject.name:
        laws.sentencepiece_runs(subject, case.ids("ids"))


def _clean_up(subject: Subject, case: Case) -> None:
    laws.clean_up(subject, case.ids("ids"), **_exactly(subject, case))


def _prompt_continues(subject: Subject, case: Case) -> None:
    prompt, ids = case.ids("prompt", 12), case.ids("ids", 12)
    laws.prompt_continues(subject, prompt, ids, **_exactly(subject, case))


def _prompt_is_as_if_streamed(subject: Subject, case: Case) -> None:
    prompt, ids = case.ids("prompt"), case.ids("ids", 12)
    laws.prompt_is_as_if_streamed(subject, prompt, ids, **_options(case))


def _skipped_specials(subject: Subject, case: Case) -> None:
    laws.skipped_specials_leave_no_trace(subject, case.ids("ids"))


def _finality(subject: Subject, case: Case) -> None:
    decoder_laws.finality(partial(laws.stream_of, subject), case.ids("ids"))


def _bounded(subject: Subject, case: Case) -> None:
    laws.bounded(subject, case.ids("ids"), **_skip(case))


def _nothing_lost(subject: Subject, case: Case) -> None:
    bad = laws.BAD_IDS[case.number("number", len(laws.BAD_IDS) - 1)]
    new = partial(laws.stream_of, subject)
    decoder_laws.nothing_lost(new, case.ids("prompt", 10), bad, case.ids("ids", 5))


def _unknown_ids(subject: Subject, case: Case) -> None:
    laws.unknown_ids(subject, case.ids("ids"), **_exactly(subject, case))


def _spans(subject: Subject, case: Case) -> None:
    prompt, ids = case.ids("prompt", 5), case.ids("ids")
    if laws.traceable(subject):
        if laws.gives_bytes_at_once(subject):
            laws.token_spans(subject, ids, case.cuts("cuts", len(ids)), **_skip(case))
        laws.spans_cover(subject, prompt, ids, **_exactly(subject, case))


def _sequences(subject: Subject, case: Case) -> None:
    ids, more = case.ids("ids"), case.ids("prompt", 6)
    laws.sequences(subject, ids, case.number("number", len(ids)), more, **_skip(case))


LAWS: Mapping[str, Law] = {
    "chunk_invariance": _chunk_invariance,
    "whole_decode": _whole_decode,
    "small_caches": _small_caches,
    "emission": _emission,
    "emission_of_bytes": _emission_of_bytes,
    "eager_runs": _eager_runs,
    "clean_up": _clean_up,
    "prompt_continues": _prompt_continues,
    "prompt_is_as_if_streamed": _prompt_is_as_if_streamed,
    "skipped_specials": _skipped_specials,
    "finality": _finality,
    "bounded": _bounded,
    "nothing_lost": _nothing_lost,
    "unknown_ids": _unknown_ids,
    "spans": _spans,
    "sequences": _sequences,
}


# --- the targets ----------------------------------------------------------------------------------


def family(name: str) -> Target:
    """Return the target of one way of joining tokens."""
    names = FAMILIES[name]
    words = [*names, *LAWS, "exact", *CUT, *CUT, *range(0, 400, 7), 2**32 - 1]
    law, seeds = law_of(names, LAWS), partial(_seeds, names)
    return Target(name, law, seeds, json_edit(words), shown, f"decoders {name}")


def law_of(names: Sequence[str], known: Mapping[str, Law]) -> Callable[[bytes], None]:
    """Run the law that an input names with the tokenizer that it names."""

    def law(data: bytes) -> None:
        case = Case(data)
        subject = subject_named(case.choice("tokenizer", names))
        case.bytes_as = subject.byte_ids
        known[case.choice("law", [*known])](subject, case)

    return law


def _seeds(names: Sequence[str]) -> dict[str, bytes]:
    """Return seeds with each law and each tokenizer at least once."""
    made = {}
    for number in range(max(len(names), len(LAWS))):
        name, law = names[number % len(names)], [*LAWS][number % len(LAWS)]
        draw = random.Random(number)
        made[f"{name}-{law}.json"] = written(
            tokenizer=name,
            law=law,
            prompt=[*some_ids(subject_named(name), draw, 3), "f09f98"],
            ids=["80", *some_ids(subject_named(name), draw, 10), "e4bd"],
            cuts=[2, 5],
            number=draw.randrange(8),
            specials=draw.random() < 0.3,
            clean_up=draw.random() < 0.3,
            byte_fallback=draw.choice(["eager", "exact"]),
        )
    return made


def some_ids(subject: Subject, draw: random.Random, size: int) -> list[int]:
    """Return ids of all kinds."""
    kinds = [subject.usual, subject.partial, subject.special, subject.unknown or subject.usual]
    return [draw.choice(draw.choice(kinds)) for _ in range(size)]


if __name__ == "__main__":
    if not {*sys.argv[1:2]} & FAMILIES.keys():
        sys.exit(f"usage: python -m fuzz.decoders {{{','.join(FAMILIES)}}} [OPTIONS]")
    sys.exit(main(family(sys.argv[1]), sys.argv[2:]))
