"""The texts: source code from the standard library, and a seeded mix of scripts."""

from __future__ import annotations

import random
import sysconfig
from collections.abc import Callable
from functools import cache
from pathlib import Path


@cache
def code(size: int) -> str:
    """The first ``size`` characters of the standard library's source, in the order of its names."""
    text = ""
    for path in sorted(Path(sysconfig.get_path("stdlib")).glob("[a-z]*.py")):
        if len(text) >= size:
            break
        text += path.read_text(encoding="utf-8", errors="ignore")
    return text[:size]


@cache
def mix(size: int, seed: int) -> str:
    """At least ``size`` characters: words of many scripts, emoji, flags, and rare letters."""
    draw = random.Random(seed)
    words: list[str] = []
    length = 0
    while length < size:
        words.append(draw.choice(_KINDS)(draw))
        length += len(words[-1])
    return "".join(words)


# --- the kinds of words ---------------------------------------------------------------------------


def _letters(
    first: int, last: int, longest: int, after: str = ""
) -> Callable[[random.Random], str]:
    """Words of up to ``longest`` letters from a block, each followed by ``after``."""

    def word(draw: random.Random) -> str:
        size = draw.randint(1, longest)
        return "".join(chr(draw.randint(first, last)) for _ in range(size)) + after

    return word


def _one_of(*choices: str) -> Callable[[random.Random], str]:
    return lambda draw: draw.choice(choices)


def _flag(draw: random.Random) -> str:
    return "".join(chr(0x1F1E6 + draw.randrange(26)) for _ in range(2))


_WORDS = (
    _one_of("the ", "stream ", "of ", "tokens, ", "and ", "(text)\n", "is ", "decoded. "),
    _one_of("你好", "世界", "我们", "中国", "时间", "可以", "没有", "问题", "，", "。"),
    _one_of("Привет, ", "мир ", "это ", "время ", "человек ", "который ", "был ", "и "),
    _one_of("สวัสดี", "ภาษา", "ไทย", "เวลา", "ของ", "และ", "ที่", "เป็น"),
    _one_of("こんにちは", "です", "ます", "から", "カタカナ", "テスト", "日本", "。"),
    _one_of("안녕하세요 ", "세계 ", "한국어 ", "시간 ", "그리고 ", "있다 "),
)
"""Everyday words, which tokenizers know."""

_RARE = (
    _letters(0x4E00, 0x9FA5, 3),  # CJK
    _letters(0x0430, 0x044F, 6, " "),  # Cyrillic
    _letters(0x0E01, 0x0E2E, 5),  # Thai
    _letters(0x3041, 0x3093, 4),  # Hiragana
    _letters(0x30A1, 0x30F6, 4),  # Katakana
    _letters(0xAC00, 0xD7A3, 2, " "),  # Hangul
    _letters(0x10330, 0x1034A, 1),  # Gothic
    _letters(0x1D552, 0x1D56B, 1),  # letters of mathematics
    _letters(0x17000, 0x187EC, 1),  # Tangut
    _one_of(
        "\U0001f468\u200d\U0001f469\u200d\U0001f467\u200d\U0001f466",
        "\U0001f9d1\U0001f3fd\u200d\U0001f4bb",
        "\U0001f3f3\ufe0f\u200d\U0001f308",
        "\U0001f469\U0001f3ff\u200d\u2764\ufe0f\u200d\U0001f468\U0001f3fb",
    ),
    _flag,
)
"""Letters drawn at random, most of which a tokenizer encodes as bytes."""

_KINDS = (*_WORDS * 2, *_RARE)
