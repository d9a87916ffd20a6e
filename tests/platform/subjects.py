"""The cases of every platform: streams that have begun, and their expected results."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import streamdec
from streamdec import DecoderPool, DecodeStream, Sequence, StopConditions, StopSequenceDecoder
from streamdec.tokenizers import LoadedTokenizer

PATH = Path(streamdec.__file__).parent / "loading" / "demo" / "tokenizer.json"
TEXT = "naïve 你好 👩\u200d👩 — żółć.\nUser: never seen"
"""Its characters are cut by the demo's tokenizer, and it has a stop."""
CONDITIONS = StopConditions(stop=["\nUser:", "<end>"])


def tokenizer() -> LoadedTokenizer:
    """A fresh one, with nothing compiled."""
    return streamdec.load_tokenizer(PATH, fast="off")


def token_ids(tokenizer: Any) -> list[int]:
    return list(tokenizer.encode(TEXT).ids)


def begun(tokenizer: Any, ids: list[int]) -> tuple[Any, ...]:
    """A stream of each kind that has taken the first half of ``ids``."""
    stream, sequence = DecodeStream(tokenizer), Sequence(tokenizer)
    decoder, pool = StopSequenceDecoder(tokenizer, CONDITIONS), DecoderPool(tokenizer)
    pool.add("a", CONDITIONS)
    half = len(ids) // 2
    texts = [
        "".join(stream.step_batch(ids[:half])),
        sequence.feed(ids[:half]),
        decoder.feed(ids[:half]).text,
        pool.step({"a": ids[:half]})["a"].text,
    ]
    return texts, half, stream, sequence, decoder, pool


def ended(under_way: tuple[Any, ...], ids: list[int]) -> list[str]:
    """The whole texts of streams that take the second half."""
    texts, half, stream, sequence, decoder, pool = under_way
    return [
        texts[0] + "".join(stream.step_batch(ids[half:])) + stream.flush(),
        texts[1] + sequence.feed(ids[half:]),
        texts[2] + decoder.feed(ids[half:]).text,
        texts[3] + pool.step({"a": ids[half:]})["a"].text,
    ]


def expected(tokenizer: Any, ids: list[int]) -> list[str]:
    """What the tokenizer's own decode says that they are."""
    whole = tokenizer.decode(ids, skip_special_tokens=True)
    until = whole[: whole.index("\nUser:")]
    return [whole, whole, until, until]
