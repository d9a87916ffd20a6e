"""Records which stream or pool steps a decoder, so that only one does at a time.

A decoder has the state of one text. If two streams stepped the same decoder, each would get parts
of the other's text, and so of another user's answer.
"""

from __future__ import annotations

from functools import partial
from typing import Any
from weakref import ref

from streamdec.core.decoder import TokenDecoder
from streamdec.core.stepping import decoder_behind

_owners: dict[int, tuple[ref[Any], ref[Any]]] = {}
"""By the ``id`` of a decoder: its owner, which keeps it alive; and what ends the record when it is
deleted."""


def own(machine: Any, owner: object, reader: object = None) -> None:
    """Record that ``owner`` steps ``machine``.

    The record is valid until ``disown``, or until ``owner`` is deleted. With a ``reader`` it is
    only valid until the reader is deleted. If the owner then still exists, its ``leave()`` is
    called. Raises RuntimeError if another stream or pool steps ``machine``.
    """
    decoder = machine if isinstance(machine, TokenDecoder) else decoder_behind(machine)
    key = id(decoder)
    if key in _owners:
        raise RuntimeError(
            f"another stream or pool still steps this decoder: {decoder!r:.80}; make a decoder for "
            "each request, or close the other stream first (`await` its aclose(), or call its "
            "close())"
        )
    known = ref(owner)
    _owners[key] = known, ref(owner if reader is None else reader, partial(_leave, key, known))


def _leave(key: int, owner: ref[Any], _: object) -> None:
    """Remove a record whose reader or owner was deleted."""
    del _owners[key]
    if (found := owner()) is not None:
        found.leave()


def disown(machine: Any, owner: object) -> None:
    """Record that ``owner`` no longer steps ``machine``."""
    key = id(decoder_behind(machine))
    if key in _owners and _owners[key][0]() is owner:
        del _owners[key]
