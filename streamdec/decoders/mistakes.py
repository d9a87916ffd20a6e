"""Errors for likely mistakes in the arguments of decoders."""

from __future__ import annotations

from collections.abc import Iterable

from streamdec.mistakes import unknown_option
from streamdec.stops.conditions import OPTIONS as OF_CONDITIONS
from streamdec.tables.decode_options import Options


def unknown_decoder_option(what: str, others: Iterable[str], *known: str) -> TypeError:
    """Return the error for ``others``, options that the decoder ``what`` lacks.

    It names the first. ``known`` are its parameters besides the options of decoding.
    """
    of_stops = what if "conditions" in known else "StopSequenceDecoder"
    elsewhere = {
        "conditions": f"write {of_stops}(tokenizer, conditions)",
        **dict.fromkeys(OF_CONDITIONS, f"write {of_stops}(tokenizer, StopConditions({{}}=...))"),
        "sections": "write SectionDecoder(tokenizer, conditions, sections=...)",
        "keep_markers": "write SectionDecoder(tokenizer, conditions, sections=..., {}=...)",
    }
    for name in known:
        elsewhere.pop(name, None)
    return unknown_option(what, next(iter(others)), (*known, *Options._fields), elsewhere)


def not_conditions(what: str, given: object) -> TypeError:
    """Return the error for ``given`` in place of the conditions of ``what``."""
    is_list = isinstance(given, (list, tuple)) and not any(isinstance(i, str) for i in given)
    if hasattr(given, "decode") and not isinstance(given, bytes):
        hint = f"the tokenizer comes first: {what}(tokenizer, conditions)"
    elif is_list or hasattr(given, "tolist"):
        hint = "write prompt_token_ids=... for the ids of the prompt"
    else:
        hint = "write StopConditions(stop=...)"
    return TypeError(f"conditions must be StopConditions, not {given!r:.80}; {hint}")
