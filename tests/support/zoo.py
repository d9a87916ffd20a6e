"""One small tokenizer for every way in which ``tokenizers`` joins tokens into text.

They are built where they are needed, from the same hostile pieces: spaces in all spellings, cut
and ill-formed byte sequences, genuine U+FFFD, pieces that look like bytes and are none, suffixes in
the middle, empty text, holes between ids, added tokens in and outside the byte alphabet, special or
not.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path

from tokenizers import (
    AddedToken,
    Regex,
    Tokenizer,
    decoders,
    models,
    normalizers,
    pre_tokenizers,
    trainers,
)

TEXT = """The quick brown fox doesn't jump. It sleeps , and dreams !
Größe, naïve café, żółć; Привет, мир. Γειά σου Κόσμε. こんにちは世界。你好，世界！안녕하세요 세계
नमस्ते दुनिया। สวัสดีชาวโลก. שלום עולם. مرحبا بالعالم
😀👍🏽👩‍👩‍👧‍👦 🇪🇺 ∑∫√ 𝔘𝔫𝔦𝔠𝔬𝔡𝔢 \ufffd genuine \ufffd\ufffd def f(x):\n\treturn x  # done
"""

BYTE_PIECES = [f"<0x{byte:02X}>" for byte in range(256)]
NEARLY_BYTE_PIECES = ["<0xa9>", "<0xC3", "<0x+5>", "<0x041>", "<0xZZ>", "x<0x41>", "<0xé>"]
SPACED = ["\u2581", "\u2581\u2581\u2581", "\u2581a", "b\u2581c", "d\u2581", " ", "  ", " e", "f  "]
PREFIXED = ["##g", "##", "##.", "h##", "_o", "o_"]
SUFFIXED = ["</w>", "i</w>", "</w>j", "k</w>l", "|", "||", "m|n"]
CLEANED = ["n't", "do", "do not", "'s", " 've", ".", " .", "?", " ,", "' "]
LETTERS = ["l", "e", "xx", "x", "y", "é", "ß", "你", "😀", "\u0301", "\n", "\0"]
GENUINE = ["\ufffd", "\ufffdz", "z\ufffd\ufffd"]
MARKED = [*SPACED, *PREFIXED, *SUFFIXED, *CLEANED]
PIECES = ["", *MARKED, *LETTERS, *GENUINE, *NEARLY_BYTE_PIECES, "<unk>", "<pad>"]

HOLES = 9
TOOL_CALLS = "<\uff5ctool\u2581calls\uff5c>"
SPECIAL = ["<pad>", "<s>", "</s>", "<|im_end|>", TOOL_CALLS, "\u2581", "<0xE4>"]
ADDED = ["<think>", "ü", "Ãļ", "   ", "\u2581<fim>", "<0xF0>", "é<", "\u2581\u2581\u2581"]


def _vocabulary(pieces: Sequence[str]) -> dict[str, int]:
    """Ids in the order of the pieces, with some holes between them.

    The library numbers added tokens from the model's size on, so they hide as many of the model's
    last tokens as there are holes.
    """
    texts = dict.fromkeys([*pieces, *(f"hidden{i}" for i in range(HOLES))])
    return {text: i + min(i // 5, HOLES) for i, text in enumerate(texts)}


def _tokenizer(
    decoder: decoders.Decoder | Sequence[decoders.Decoder] | None,
    pieces: Sequence[str] = PIECES,
    special: Sequence[str] = SPECIAL,
) -> Tokenizer:
    """``pieces`` under ``decoder`` (several: a Sequence), with ``special`` and the added tokens."""
    tokenizer = Tokenizer(models.BPE(_vocabulary(pieces), [], byte_fallback=True))
    tokenizer.decoder = decoders.Sequence([*decoder]) if isinstance(decoder, Sequence) else decoder
    tokenizer.add_special_tokens([AddedToken(t, special=True, normalized=False) for t in special])
    tokenizer.add_tokens([AddedToken(t, normalized=False) for t in ADDED])
    return tokenizer


def _letters(data: bytes) -> str:
    """``data`` in GPT-2's byte alphabet."""
    return "".join(_LETTER_OF[byte] for byte in data)


def _alphabet() -> dict[int, str]:
    """Byte → letter: printable Latin-1 stands for itself, the others are numbered from U+0100."""
    printable = [*range(0x21, 0x7F), *range(0xA1, 0xAD), *range(0xAE, 0x100)]
    others = (byte for byte in range(256) if byte not in printable)
    return {b: chr(b) for b in printable} | {b: chr(0x100 + n) for n, b in enumerate(others)}


_LETTER_OF = _alphabet()


# --- those that are more than a decoder -----------------------------------------------------------


def byte_level_trained() -> Tokenizer:
    """A byte-level BPE as GPT-2's, trained: its cuts fall within characters."""
    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    alphabet = sorted(pre_tokenizers.ByteLevel.alphabet())
    trainer = trainers.BpeTrainer(
        vocab_size=330, show_progress=False, initial_alphabet=alphabet, special_tokens=["<eos>"]
    )
    tokenizer.train_from_iterator([TEXT] * 2, trainer)
    tokenizer.add_tokens([AddedToken(token, normalized=False) for token in ADDED])
    return tokenizer


def _byte_level_pieces() -> list[str]:
    """Every byte; characters whole and cut; ill-formed ones; tokens outside the alphabet."""
    characters = "é你😀\ufffd \u2581".encode()
    cut = [characters[i:j] for i in range(len(characters)) for j in range(i + 2, i + 5)]
    broken = [b"\xe0\x80", b"\xed\xa0\x80", b"\xf4\x90\x80", b"\xc0\xaf"]
    broken += [b"a\xe4", b"\x80b", b" \xf0\x9f"]
    single = [bytes([byte]) for byte in range(256)]
    return [*map(_letters, [*single, *cut, *broken, b" the", b"\n\n"]), *PIECES]


def metaspace_unigram() -> Tokenizer:
    """A unigram model: one text may have several ids, a special's text too."""
    pieces = [*PIECES, "<s>", "<s>", "\u2581a", "l", "l"]
    tokenizer = Tokenizer(models.Unigram([(piece, -1.0) for piece in pieces], 0))
    tokenizer.decoder = decoders.Metaspace()
    tokenizer.add_special_tokens(SPECIAL)
    tokenizer.add_tokens(ADDED)
    return tokenizer


def word_level() -> Tokenizer:
    """Another model, no decoder."""
    tokenizer = Tokenizer(models.WordLevel(_vocabulary(PIECES), unk_token="<unk>"))
    tokenizer.pre_tokenizer = pre_tokenizers.Whitespace()
    tokenizer.add_special_tokens(SPECIAL)
    return tokenizer


def normalized_specials() -> Tokenizer:
    """Old Llama 2 files: tokenizers 0.23 and later show these specials in another spelling."""
    tokenizer = _tokenizer([SPACES, FUSE, decoders.Strip(" ", 1, 0)], special=[])
    tokenizer.normalizer = normalizers.Sequence(
        [normalizers.Prepend("\u2581"), normalizers.Replace("<bos>", "")]
    )
    specials = ["<bos>", "</s>"]
    tokenizer.add_special_tokens([AddedToken(t, special=True, normalized=True) for t in specials])
    return tokenizer


def no_longer_special() -> Tokenizer:
    """Added as special, then as ordinary: the library reports the latter, and skips it still."""
    tokenizer = _tokenizer([FUSE])
    tokenizer.add_tokens([AddedToken("<s>", special=False, normalized=False)])
    return tokenizer


class _Upper:
    """A decoder written in Python."""

    def decode_chain(self, tokens: list[str]) -> list[str]:
        return [token.replace("\u2581", " ").upper() for token in tokens]


Decoding = decoders.Decoder | Sequence[decoders.Decoder] | None
FUSE, BYTES = decoders.Fuse(), decoders.ByteFallback()
SPACES = decoders.Replace("\u2581", " ")

BYTE_LEVEL: dict[str, Decoding] = {
    # The byte alphabet and much that is not in it.
    "byte_level": decoders.ByteLevel(),
    # Strip and Replace on the one text that ByteLevel gives.
    "byte_level_fused": [
        decoders.ByteLevel(),
        decoders.Strip(" ", 2, 0),
        decoders.Replace("xx", "y "),
    ],
}
WITH_BYTES: dict[str, Decoding] = {
    # Llama 2, Mistral: one leading space is removed.
    "byte_fallback_strip": [SPACES, BYTES, FUSE, decoders.Strip(" ", 1, 0)],
    "byte_fallback_strip_two": [SPACES, BYTES, FUSE, decoders.Strip(" ", 2, 0)],
    # Yi, Gemma: nothing is removed.
    "byte_fallback": [SPACES, BYTES, FUSE],
    "byte_fallback_bare": [BYTES],
    # Literal replaces on the whole text, after a Strip; bytes may spell what they look for.
    "byte_fallback_replaces": [
        *(BYTES, FUSE, decoders.Strip("\u2581", 1, 0), SPACES),
        decoders.Replace("  ", "\u2003"),
    ],
    # ChatGLM3: bytes may spell U+2581.
    "byte_fallback_metaspace": [BYTES, decoders.Metaspace()],
    "byte_fallback_metaspace_never": [BYTES, decoders.Metaspace(prepend_scheme="never")],
    # Specials whose text is deleted: nothing to see alone, but they end a run of bytes.
    "byte_fallback_silent_special": [
        *(decoders.Replace("<s>", ""), decoders.Replace("<think>", "")),
        *(BYTES, FUSE),
    ],
    # A regular expression within each piece, then byte fallback.
    "regex_in_pieces": [
        *(decoders.Replace(Regex("[\u2581_]+"), " "), BYTES, FUSE),
        decoders.Strip(" ", 1, 0),
    ],
}
WITHOUT_BYTES: dict[str, Decoding] = {
    # T5: every U+2581 of the first piece vanishes.
    "metaspace_always": decoders.Metaspace(prepend_scheme="always"),
    # Decodes as ``always`` does.
    "metaspace_first": decoders.Metaspace(prepend_scheme="first"),
    # The first piece keeps its space.
    "metaspace_never": decoders.Metaspace(prepend_scheme="never"),
    # Another letter stands for the space; Fuse and Strip follow.
    "metaspace_underscore": [decoders.Metaspace(replacement="_"), FUSE, decoders.Strip("x", 1, 0)],
    "wordpiece": decoders.WordPiece(),
    "wordpiece_plain": decoders.WordPiece(prefix="_", cleanup=False),
    "wordpiece_strip": [decoders.WordPiece(), FUSE, decoders.Strip(" ", 3, 0)],
    "bpe_suffix": decoders.BPEDecoder(),
    # A suffix of one letter, replaces on the whole text.
    "bpe_suffix_short": [decoders.BPEDecoder(suffix="|"), FUSE, decoders.Replace("e l", "E")],
    # wav2vec 2; the pad is special, so skipping takes it out before repeats are merged.
    "ctc": decoders.CTC(),
    # The pad is an ordinary token.
    "ctc_plain": decoders.CTC(pad_token="e", word_delimiter_token="_", cleanup=False),
    "ctc_metaspace": [decoders.CTC(), decoders.Metaspace()],
    # Pieces joined with one space.
    "no_decoder": None,
    # Pieces joined with nothing.
    "empty_sequence": [],
    # The same, said twice and in nested sequences.
    "fuse": [decoders.Sequence([FUSE, decoders.Sequence([])]), FUSE],
    # Two literal replaces, each within a piece: what is split over two is left alone.
    "replace_in_pieces": [
        *(decoders.Replace("xx", "x"), decoders.Replace("x", "\u2581x")),
        *(decoders.Replace(".", "!"), SPACES),
    ],
    # Each piece loses its leading spaces, and the text its first letter.
    "strip_in_pieces": [*(SPACES, decoders.Strip(" ", 2, 0), FUSE), decoders.Strip("l", 1, 0)],
    # Literal replaces of the whole text that feed one another.
    "replaces_after_fuse": [
        *(FUSE, decoders.Replace("xx", "x"), decoders.Replace("x\u2581", "<")),
        *(decoders.Replace("l", ""), decoders.Replace("\u2581a", "\u2581")),
        decoders.Replace("<<", "x"),
    ],
    # An empty pattern puts its content between all letters of a piece.
    "empty_pattern_in_pieces": [decoders.Replace("", "-"), FUSE],
}
UNKNOWN_RULES: dict[str, Decoding] = {
    # A regular expression may look at the whole text.
    "regex_after_fuse": [SPACES, FUSE, decoders.Replace(Regex(" +"), " ")],
    # Strip at the end waits for the end; it panics on an empty text.
    "strip_stop": [FUSE, decoders.Strip("x", 0, 1)],
    # The first piece is then the whole text.
    "metaspace_after_fuse": [FUSE, decoders.Metaspace(prepend_scheme="never")],
    # Strip of pieces that Metaspace has gone over.
    "metaspace_strip_unfused": [decoders.Metaspace(), decoders.Strip(" ", 1, 0)],
    # A Strip of text in which something was replaced.
    "strip_after_replace": [FUSE, SPACES, decoders.Strip(" ", 1, 0)],
    "python_decoder": decoders.Decoder.custom(_Upper()),
}


def _builders(
    found: Mapping[str, Decoding], pieces: Sequence[str]
) -> dict[str, Callable[[], Tokenizer]]:
    return {name: partial(_tokenizer, decoder, pieces) for name, decoder in found.items()}


ZOO: dict[str, Callable[[], Tokenizer]] = {
    "byte_level_trained": byte_level_trained,
    **_builders(BYTE_LEVEL, _byte_level_pieces()),
    **_builders(WITH_BYTES, [*BYTE_PIECES, *PIECES]),
    **_builders(WITHOUT_BYTES, PIECES),
    "metaspace_unigram": metaspace_unigram,
    "word_level": word_level,
    "normalized_specials": normalized_specials,
    "no_longer_special": no_longer_special,
}
"""Every decoder family that compiles to a table and rules."""

UNCOMPILED = _builders(UNKNOWN_RULES, PIECES)
"""Decoders that only their own library can follow."""


def shared_tokenizers() -> Iterator[Path]:
    """Every ``tokenizer.json`` of the folder beside the repository, where there is one."""
    root = Path(__file__).resolve().parents[2]
    yield from sorted((root.parent / "shared" / "tokenizers").glob("*/tokenizer.json"))
