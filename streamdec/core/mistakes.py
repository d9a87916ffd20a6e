"""Errors for likely mistakes in the arguments of decoders."""

from __future__ import annotations

from collections.abc import Iterable

from streamdec.core.conditions import OPTIONS as OF_CONDITIONS
from streamdec.core.decode_options import Options
from streamdec.mistakes import unknown_option

OF_DECODERS = ("conditions", "prompt_token_ids", "spans", "sections", "starts_inside")
"""The parameters of decoders besides the tokenizer and the options of decoding."""


def unknown_decoder_option(what: str, others: Iterable[str], *known: str) -> TypeError:
    """Return the error for the first of ``others``.

    These are options that the decoder ``what`` does not have. ``known`` are the parameters of
    ``what`` besides the options of decoding.
    """
    with_stops = what if "conditions" in known else "StopSequenceDecoder"
    elsewhere = {
        "conditions": f"write {with_stops}(tokenizer, conditions)",
        **dict.fromkeys(OF_CONDITIONS, f"write {with_stops}(tokenizer, StopConditions({{}}=...))"),
        "sections": "write StopSequenceDecoder(tokenizer, conditions, sections=...)",
    }
    for name in known:
        elsewhere.pop(name, None)
    return unknown_option(what, next(iter(others)), (*known, *Options._fields), elsewhere)


def check_restoring(
    what: str, snapshot: object, others: tuple[object, ...], names: Iterable[str]
) -> None:
    """Raise TypeError if the class ``what`` cannot restore with these arguments.

    ``others`` are the arguments after the snapshot, and ``names`` those of the options.
    """
    check_order(what, snapshot)
    advice = "the snapshot has the conditions and options of the stream: leave them out"
    if others:
        told = f"{what}.restore() takes only the tokenizer and the snapshot by position"
        raise TypeError(f"{told}; {advice}")
    for name in names:
        if name not in Options._fields:
            elsewhere = dict.fromkeys((*OF_CONDITIONS, *OF_DECODERS), advice)
            raise unknown_option(f"{what}.restore()", name, Options._fields, elsewhere)


def check_order(what: str, snapshot: object) -> None:
    """Raise TypeError if the tokenizer was passed to ``restore`` as the ``snapshot``."""
    if hasattr(snapshot, "decode") and not isinstance(snapshot, (bytes, bytearray)):
        raise TypeError(f"{what}.restore() takes the tokenizer first, then the snapshot")


def not_conditions(what: str, given: object) -> TypeError:
    """Return the error for ``given``, which was passed as the conditions of ``what``."""
    has_ids = hasattr(given, "tolist") or (
        isinstance(given, (list, tuple)) and not any(isinstance(each, str) for each in given)
    )
    if hasattr(given, "decode") and not isinstance(given, bytes):
        hint = f"the tokenizer comes first: {what}(tokenizer, conditions)"
    elif has_ids:
        hint = "write prompt_token_ids=... for the ids of the prompt"
    else:
        hint = "write StopConditions(stop=...)"
    return TypeError(f"conditions must be StopConditions, not {given!r:.80}; {hint}")
