"""Read SentencePiece models: pieces, and how a text is normalized.

In: the bytes of a ``tokenizer.model``, a protobuf message (``src/sentencepiece_model.proto`` of
google/sentencepiece). Out: the fields that a tokenizer needs. No library is used, and every length
is checked.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import NamedTuple

MAX_MODEL = 2**24
"""Largest model, in bytes; the largest known has 5 million. Parsing takes up to 40 times as much
memory, and the library sentencepiece ends the process if there is too little."""
NORMAL, UNKNOWN, CONTROL, USER_DEFINED, UNUSED, BYTE = range(1, 7)
_UNIGRAM, BPE = 1, 2
_PIECES, _TRAINER, _NORMALIZER = 1, 2, 3

Value = int | bytes


class Piece(NamedTuple):
    """One piece."""

    text: str
    score: float
    kind: int


@dataclass(frozen=True)
class ModelProto:
    """The fields of a SentencePiece model."""

    pieces: list[Piece] = field(default_factory=list)
    model_type: int = _UNIGRAM
    byte_fallback: bool = False
    unk_id: int = 0
    unk_piece: str = "<unk>"
    roles: dict[str, str] = field(default_factory=dict)
    """The pieces that begin and end a text, and the unknown piece."""
    charsmap: bytes = b""
    adds_prefix: bool = True
    removes_spaces: bool = True
    escapes_spaces: bool = True

    @property
    def is_unigram(self) -> bool:
        """Whether the model is of the kind Unigram."""
        return self.model_type == _UNIGRAM

    @property
    def is_bpe(self) -> bool:
        """Whether the model is of the kind BPE."""
        return self.model_type == BPE

    @classmethod
    def parse(cls, content: bytes) -> ModelProto:
        """Return the fields of ``content``. Raises ValueError if it is malformed."""
        pieces: list[Piece] = []
        trainer: dict[int, Value] = {}
        normalizer: dict[int, Value] = {}
        for number, value in _fields(content):
            if number == _PIECES:
                pieces.append(_piece(_bytes(value)))
            elif number == _TRAINER:
                trainer |= _fields(_bytes(value))
            elif number == _NORMALIZER:
                normalizer |= _fields(_bytes(value))
        unk_piece = _text(trainer.get(45, b"<unk>"))
        roles = {}
        for role, id_field, default_id, text_field, default in (
            ("bos_token", 41, 1, 46, b"<s>"),
            ("eos_token", 42, 2, 47, b"</s>"),
            ("unk_token", 40, 0, 45, b"<unk>"),
        ):
            # A negative id is written as an unsigned number of 64 bits.
            if _int(trainer.get(id_field, default_id)) < 2**31:
                roles[role] = _text(trainer.get(text_field, default)) or default.decode()
        return cls(
            pieces,
            model_type=_int(trainer.get(3, _UNIGRAM)),
            byte_fallback=bool(trainer.get(35, 0)),
            unk_id=_int(trainer.get(40, 0)),
            unk_piece=unk_piece,
            roles=roles,
            charsmap=_bytes(normalizer.get(2, b"")),
            adds_prefix=bool(normalizer.get(3, 1)),
            removes_spaces=bool(normalizer.get(4, 1)),
            escapes_spaces=bool(normalizer.get(5, 1)),
        )


def _piece(data: bytes) -> Piece:
    fields = dict(_fields(data))
    score = fields.get(2, b"\0\0\0\0")
    [number] = struct.unpack("<f", _bytes(score))
    return Piece(_text(fields.get(1, b"")), number, _int(fields.get(3, NORMAL)))


def _fields(data: bytes) -> Iterator[tuple[int, Value]]:
    """Yield the number and the value of each field of a message."""
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


def _bytes(value: Value) -> bytes:
    if isinstance(value, int):
        raise ValueError("a number where a message is expected")
    return value


def _int(value: Value) -> int:
    if isinstance(value, bytes):
        raise ValueError("a message where a number is expected")
    return value


def _text(value: Value) -> str:
    return _bytes(value).decode()
