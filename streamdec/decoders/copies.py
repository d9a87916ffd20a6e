"""Copies of decoders, with the attributes that a subclass has set."""

from __future__ import annotations

from types import MemberDescriptorType
from typing import Any, Self


class Copyable:
    """A decoder that ``copy.copy`` and ``copy.deepcopy`` copy with ``fork``."""

    __slots__ = ()

    def fork(self) -> Self:
        """Return an independent copy."""
        raise NotImplementedError

    def __copy__(self) -> Self:
        return self.fork()

    def __deepcopy__(self, memo: dict[int, Any]) -> Self:
        return self.fork()


def own_attributes(decoder: object) -> tuple[dict[str, Any] | None, dict[str, Any]] | None:
    """Return the attributes that a subclass has set, in the form of a pickle.

    The first dict has those in ``__dict__``, except one in place of a method, because it may be
    bound to ``decoder``. The second has those in ``__slots__``. None if there are no attributes.
    """
    kind = type(decoder)
    bases = [base for base in kind.__mro__ if not base.__module__.startswith("streamdec.")]
    if bases == [object]:
        return None
    in_dict = {
        name: value
        for name, value in getattr(decoder, "__dict__", {}).items()
        if not callable(getattr(kind, name, None))
    }
    in_slots = {
        name: getattr(decoder, name)
        for base in bases
        for name, slot in vars(base).items()
        if isinstance(slot, MemberDescriptorType) and hasattr(decoder, name)
    }
    return (in_dict or None, in_slots) if in_dict or in_slots else None


def copy_attributes(decoder: object, copy: object) -> None:
    """Set these attributes on the ``copy`` of ``decoder`` too."""
    if own := own_attributes(decoder):
        in_dict, in_slots = own
        if in_dict:
            copy.__dict__.update(in_dict)
        for name, value in in_slots.items():
            setattr(copy, name, value)
