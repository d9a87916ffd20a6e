"""Read SentencePiece models: pieces, and how a text is normalized.

In: the bytes of a ``tokenizer.model``, a protobuf message (``src/sentencepiece_model.proto`` of
google/sentencepiece). Out: the fields that a tokenizer needs. No library is used, and every length
is checked.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import NamedTuple, TypeVar

MAX_MODEL = 2**24
"""Largest model, in bytes; the largest known has 5 million. Parsing takes up to 40 times as much
memory, and the library sentencepiece ends the process if there is too little."""
NORMAL, UNKNOWN, CONTROL, USER_DEFINED, UNUSED, BYTE = range(1, 7)
UNIGRAM, BPE = 1, 2
_PIECES, _TRAINER, _NORMALIZER = 1, 2, 3

T = TypeVar("T", int, bytes)


class Piece(NamedTuple):
    """One piece."""

    text: str
    score: float
    kind: int


@dataclass(frozen=True)
class ModelProto:
    """The fields of a SentencePiece model."""

    pieces: list[Piece] = field(default_factory=list)
    model_type: int = UNIGRAM
    byte_fallback: bool = False
    unk_id: int = 0
    unk_piece: str = "<unk>"
    roles: dict[str, str] = field(default_factory=dict)
    """The pieces that begin and end a text, and the unknown piece."""
    charsmap: bytes = b""
    adds_prefix: bool = True
    removes_spaces: bool = True
    escapes_spaces: bool = True

    @classmethod
    def parse(cls, content: bytes) -> ModelProto:
        """Return the fields of ``content``. Raises ValueError if it is malformed."""
        pieces: list[Piece] = []
        parts: dict[int, dict[int, int | bytes]] = {_TRAINER: {}, _NORMALIZER: {}}
        for number, value in _fields(content):
            if number == _PIECES:
                pieces.append(_piece(dict(_fields(value))))
            elif number in parts:
                parts[number] |= _fields(value)
        trainer, normalizer = parts.values()
        roles = {}
        for role, id_field, default_id, text_field, default in (
            ("bos_token", 41, 1, 46, "<s>"),
            ("eos_token", 42, 2, 47, "</s>"),
            ("unk_token", 40, 0, 45, "<unk>"),
        ):
            # A negative id is written as an unsigned number of 64 bits.
            if _get(trainer, id_field, default_id) < 2**31:
                roles[role] = _get(trainer, text_field, b"").decode() or default
        return cls(
            pieces,
            model_type=_get(trainer, 3, UNIGRAM),
            byte_fallback=bool(_get(trainer, 35, 0)),
            unk_id=_get(trainer, 40, 0),
            unk_piece=_get(trainer, 45, b"<unk>").decode(),
            roles=roles,
            charsmap=_get(normalizer, 2, b""),
            adds_prefix=bool(_get(normalizer, 3, 1)),
            removes_spaces=bool(_get(normalizer, 4, 1)),
            escapes_spaces=bool(_get(normalizer, 5, 1)),
        )


def _piece(fields: Mapping[int, int | bytes]) -> Piece:
    score = _get(fields, 2, b"\0\0\0\0")
    if len(score) != 4:
        raise ValueError(f"a score of {len(score)} bytes")
    [number] = struct.unpack("<f", score)
    return Piece(_get(fields, 1, b"").decode(), number, _get(fields, 3, NORMAL))


def _get(fields: Mapping[int, int | bytes], number: int, default: T) -> T:
    """Return field ``number``.

    Raises ValueError if it is not of the type of ``default``.
    """
    kind = type(default)
    value = fields.get(number, default)
    if not isinstance(value, kind):
        raise ValueError(f"field {number} is of type {type(value).__name__}, not {kind.__name__}")
    return value


def _fields(data: int | bytes) -> Iterator[tuple[int, int | bytes]]:
    """Yield the number and the value of each field of a message."""
    if isinstance(data, int):
        raise ValueError("a number where a message is expected")
    place = 0
    while place < len(data):
        key, place = _varint(data, place)
        kind = key & 7
        if kind == 0:
            value, place = _varint(data, place)
            yield key >> 3, value
            continue
        size = {1: 8, 5: 4}.get(kind, -1)
        if kind == 2:
            size, place = _varint(data, place)
        if size < 0 or place + size > len(data):
            raise ValueError(f"a field of {size} bytes at byte {place} of {len(data)}")
        yield key >> 3, data[place : place + size]
        place += size


def _varint(data: bytes, place: int) -> tuple[int, int]:
    value = 0
    for shift in range(0, 70, 7):
        if place >= len(data):
            raise ValueError("it ends within a number")
        byte = data[place]
        place += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            return value, place
    raise ValueError(f"a number of more than 64 bits at byte {place}")
