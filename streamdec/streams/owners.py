"""Records which stream or pool steps a decoder, so that only one does at a time.

A decoder has the state of one text. If two streams stepped the same decoder, each would get parts
of the other's text, and so of another user's answer.
"""

from __future__ import annotations

from functools import partial
from typing import Any
from weakref import ref

from streamdec.decoders.machine import Machine
from streamdec.decoders.sequence import Sequence
from streamdec.decoders.text_stop_decoder import TextStopDecoder

DECODERS = Machine, Sequence, TextStopDecoder

_owners: dict[int, ref[object]] = {}
"""By the ``id`` of a decoder: the object that steps it, and keeps the decoder alive."""


def own(machine: Any, owner: object) -> None:
    """Record that ``owner`` steps ``machine``.

    The record is valid until ``disown``, or until ``owner`` is deleted. Raises RuntimeError if
    another stream or pool steps ``machine``.
    """
    decoder = _decoder_of(machine)
    key = id(decoder)
    if key in _owners:
        raise RuntimeError(
            f"another stream or pool still steps this decoder: {decoder!r:.80}; make a decoder for "
            "each request, or close the other stream first"
        )
    _owners[key] = ref(owner, partial(_owners.pop, key))


def disown(machine: Any, owner: object) -> None:
    """Record that ``owner`` no longer steps ``machine``."""
    key = id(_decoder_of(machine))
    found = _owners.get(key)
    if found is not None and found() is owner:
        del _owners[key]


def _decoder_of(machine: Any) -> object:
    """Return the decoder itself; for a tracer, the decoder that it traces."""
    return machine if isinstance(machine, DECODERS) else getattr(machine, "decoder", machine)
