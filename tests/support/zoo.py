"""One small tokenizer for every way in which ``tokenizers`` joins tokens into text.

They are built where they are needed, from the same hostile pieces: spaces in all spellings, cut
and ill-formed byte sequences, genuine U+FFFD, pieces that look like bytes and are none, suffixes in
the middle, empty text, holes between ids, added tokens in and outside the byte alphabet, special or
not.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
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

__all__ = ["BYTE_PIECES", "PIECES", "UNCOMPILED", "ZOO", "shared_tokenizers"]

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
SPECIAL = [
    "<pad>",
    "<s>",
    "</s>",
    "<|im_end|>",
    "<\uff5ctool\u2581calls\uff5c>",
    "\u2581",
    "<0xE4>",
]
ADDED = ["<think>", "ü", "Ãļ", "   ", "\u2581<fim>", "<0xF0>", "é<", "\u2581\u2581\u2581"]


# --- building -------------------------------------------------------------------------------------


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


def _with_bytes(*decoder: decoders.Decoder) -> Tokenizer:
    return _tokenizer(decoder, [*BYTE_PIECES, *PIECES])


def _letters(data: bytes) -> str:
    """``data`` in GPT-2's byte alphabet."""
    return "".join(_LETTER_OF[byte] for byte in data)


def _alphabet() -> dict[int, str]:
    """Byte → letter: printable Latin-1 stands for itself, the others are numbered from U+0100."""
    printable = [*range(0x21, 0x7F), *range(0xA1, 0xAD), *range(0xAE, 0x100)]
    others = (byte for byte in range(256) if byte not in printable)
    return {b: chr(b) for b in printable} | {b: chr(0x100 + n) for n, b in enumerate(others)}


_LETTER_OF = _alphabet()


# --- byte level -----------------------------------------------------------------------------------


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
    broken = [
        b"\xe0\x80",
        b"\xed\xa0\x80",
        b"\xf4\x90\x80",
        b"\xc0\xaf",
        b"a\xe4",
        b"\x80b",
        b" \xf0\x9f",
    ]
    single = [bytes([byte]) for byte in range(256)]
    return [*map(_letters, [*single, *cut, *broken, b" the", b"\n\n"]), *PIECES]


def byte_level() -> Tokenizer:
    """The byte alphabet and much that is not in it."""
    return _tokenizer(decoders.ByteLevel(), _byte_level_pieces())


def byte_level_fused() -> Tokenizer:
    """Strip and Replace on the one text that ByteLevel gives."""
    strip, replace = decoders.Strip(" ", 2, 0), decoders.Replace("xx", "y ")
    return _tokenizer([decoders.ByteLevel(), strip, replace], _byte_level_pieces())


# --- byte fallback --------------------------------------------------------------------------------


def _spaces() -> decoders.Decoder:
    return decoders.Replace("\u2581", " ")


def byte_fallback_strip() -> Tokenizer:
    """Llama 2, Mistral: one leading space is removed."""
    return _with_bytes(
        _spaces(), decoders.ByteFallback(), decoders.Fuse(), decoders.Strip(" ", 1, 0)
    )


def byte_fallback_strip_two() -> Tokenizer:
    """Up to two leading spaces are removed."""
    return _with_bytes(
        _spaces(), decoders.ByteFallback(), decoders.Fuse(), decoders.Strip(" ", 2, 0)
    )


def byte_fallback() -> Tokenizer:
    """Yi, Gemma: nothing is removed."""
    return _with_bytes(_spaces(), decoders.ByteFallback(), decoders.Fuse())


def byte_fallback_bare() -> Tokenizer:
    """ByteFallback alone."""
    return _with_bytes(decoders.ByteFallback())


def byte_fallback_replaces() -> Tokenizer:
    """Literal replaces on the whole text, after a Strip; bytes may spell what they look for."""
    return _with_bytes(
        decoders.ByteFallback(),
        decoders.Fuse(),
        decoders.Strip("\u2581", 1, 0),
        decoders.Replace("\u2581", " "),
        decoders.Replace("  ", "\u2003"),
    )


def byte_fallback_metaspace() -> Tokenizer:
    """ChatGLM3: bytes may spell U+2581."""
    return _with_bytes(decoders.ByteFallback(), decoders.Metaspace())


def byte_fallback_metaspace_never() -> Tokenizer:
    """The same without a space to remove."""
    return _with_bytes(decoders.ByteFallback(), decoders.Metaspace(prepend_scheme="never"))


def byte_fallback_silent_special() -> Tokenizer:
    """Specials whose text is deleted: nothing to see alone, but they end a run of bytes."""
    return _with_bytes(
        decoders.Replace("<s>", ""),
        decoders.Replace("<think>", ""),
        decoders.ByteFallback(),
        decoders.Fuse(),
    )


# --- Metaspace, WordPiece, suffixes, CTC ----------------------------------------------------------


def metaspace_always() -> Tokenizer:
    """T5: every U+2581 of the first piece vanishes."""
    return _tokenizer(decoders.Metaspace(prepend_scheme="always"))


def metaspace_first() -> Tokenizer:
    """Decodes as ``always`` does."""
    return _tokenizer(decoders.Metaspace(prepend_scheme="first"))


def metaspace_never() -> Tokenizer:
    """The first piece keeps its space."""
    return _tokenizer(decoders.Metaspace(prepend_scheme="never"))


def metaspace_underscore() -> Tokenizer:
    """Another letter stands for the space; Fuse and Strip follow."""
    strip = decoders.Strip("x", 1, 0)
    return _tokenizer([decoders.Metaspace(replacement="_"), decoders.Fuse(), strip])


def metaspace_unigram() -> Tokenizer:
    """A unigram model: one text may have several ids, a special's text too."""
    pieces = [*PIECES, "<s>", "<s>", "\u2581a", "l", "l"]
    tokenizer = Tokenizer(models.Unigram([(piece, -1.0) for piece in pieces], 0))
    tokenizer.decoder = decoders.Metaspace()
    tokenizer.add_special_tokens(SPECIAL)
    tokenizer.add_tokens(ADDED)
    return tokenizer


def wordpiece() -> Tokenizer:
    """BERT."""
    return _tokenizer(decoders.WordPiece())


def wordpiece_plain() -> Tokenizer:
    """No clean-up, another prefix."""
    return _tokenizer(decoders.WordPiece(prefix="_", cleanup=False))


def wordpiece_strip() -> Tokenizer:
    """Fuse and a Strip of the whole text."""
    return _tokenizer([decoders.WordPiece(), decoders.Fuse(), decoders.Strip(" ", 3, 0)])


def bpe_suffix() -> Tokenizer:
    """GPT-1."""
    return _tokenizer(decoders.BPEDecoder())


def bpe_suffix_short() -> Tokenizer:
    """A suffix of one letter, replaces on the whole text."""
    replace = decoders.Replace("e l", "E")
    return _tokenizer([decoders.BPEDecoder(suffix="|"), decoders.Fuse(), replace])


def ctc() -> Tokenizer:
    """wav2vec 2; the pad is special, so skipping takes it out before repeats are merged."""
    return _tokenizer(decoders.CTC())


def ctc_plain() -> Tokenizer:
    """No clean-up; the pad is an ordinary token."""
    return _tokenizer(decoders.CTC(pad_token="e", word_delimiter_token="_", cleanup=False))


def ctc_metaspace() -> Tokenizer:
    """CTC over pieces with U+2581."""
    return _tokenizer([decoders.CTC(), decoders.Metaspace()])


# --- pieces that are text already -----------------------------------------------------------------


def no_decoder() -> Tokenizer:
    """Pieces joined with one space."""
    return _tokenizer(None)


def word_level() -> Tokenizer:
    """Another model, no decoder."""
    tokenizer = Tokenizer(models.WordLevel(_vocabulary(PIECES), unk_token="<unk>"))
    tokenizer.pre_tokenizer = pre_tokenizers.Whitespace()
    tokenizer.add_special_tokens(SPECIAL)
    return tokenizer


def empty_sequence() -> Tokenizer:
    """Pieces joined with nothing."""
    return _tokenizer([])


def fuse() -> Tokenizer:
    """The same, said twice and in nested sequences."""
    return _tokenizer(
        [decoders.Sequence([decoders.Fuse(), decoders.Sequence([])]), decoders.Fuse()]
    )


def replace_in_pieces() -> Tokenizer:
    """Two literal replaces, each within a piece: what is split over two is left alone."""
    return _tokenizer([decoders.Replace("xx", "x"), decoders.Replace("x", "\u2581x"), _spaces()])


def regex_in_pieces() -> Tokenizer:
    """A regular expression within each piece, then byte fallback."""
    regex = decoders.Replace(Regex("[\u2581_]+"), " ")
    return _with_bytes(regex, decoders.ByteFallback(), decoders.Fuse(), decoders.Strip(" ", 1, 0))


def strip_in_pieces() -> Tokenizer:
    """Each piece loses its leading spaces, and the text its first letter."""
    strip, first = decoders.Strip(" ", 2, 0), decoders.Strip("l", 1, 0)
    return _tokenizer([_spaces(), strip, decoders.Fuse(), first])


def replaces_after_fuse() -> Tokenizer:
    """Literal replaces of the whole text that feed one another."""
    pairs = [("xx", "x"), ("x\u2581", "<"), ("l", ""), ("\u2581a", "\u2581"), ("<<", "x")]
    return _tokenizer([decoders.Fuse(), *(decoders.Replace(*pair) for pair in pairs)])


def empty_pattern_in_pieces() -> Tokenizer:
    """An empty pattern puts its content between all letters of a piece."""
    return _tokenizer([decoders.Replace("", "-"), decoders.Fuse()])


def normalized_specials() -> Tokenizer:
    """Old Llama 2 files: tokenizers 0.23 and later show these specials in another spelling."""
    tokenizer = _tokenizer([_spaces(), decoders.Fuse(), decoders.Strip(" ", 1, 0)], special=[])
    tokenizer.normalizer = normalizers.Sequence(
        [normalizers.Prepend("\u2581"), normalizers.Replace("<bos>", "")]
    )
    specials = ["<bos>", "</s>"]
    tokenizer.add_special_tokens([AddedToken(t, special=True, normalized=True) for t in specials])
    return tokenizer


def no_longer_special() -> Tokenizer:
    """Added as special, then as ordinary: the library reports the latter, and skips it still."""
    tokenizer = _tokenizer([decoders.Fuse()])
    tokenizer.add_tokens([AddedToken("<s>", special=False, normalized=False)])
    return tokenizer


# --- not to be compiled ---------------------------------------------------------------------------


def regex_after_fuse() -> Tokenizer:
    """A regular expression may look at the whole text."""
    return _tokenizer([_spaces(), decoders.Fuse(), decoders.Replace(Regex(" +"), " ")])


def strip_stop() -> Tokenizer:
    """Strip at the end waits for the end; it panics on an empty text."""
    return _tokenizer([decoders.Fuse(), decoders.Strip("x", 0, 1)])


def metaspace_after_fuse() -> Tokenizer:
    """The first piece is then the whole text."""
    return _tokenizer([decoders.Fuse(), decoders.Metaspace(prepend_scheme="never")])


def metaspace_strip_unfused() -> Tokenizer:
    """Strip of pieces that Metaspace has gone over."""
    return _tokenizer([decoders.Metaspace(), decoders.Strip(" ", 1, 0)])


def strip_after_replace() -> Tokenizer:
    """A Strip of text in which something was replaced."""
    return _tokenizer([decoders.Fuse(), _spaces(), decoders.Strip(" ", 1, 0)])


class _Upper:
    """A decoder written in Python."""

    def decode_chain(self, tokens: list[str]) -> list[str]:
        return [token.replace("\u2581", " ").upper() for token in tokens]


def python_decoder() -> Tokenizer:
    """A decoder whose rules are not known."""
    return _tokenizer(decoders.Decoder.custom(_Upper()))


# --- all of them ----------------------------------------------------------------------------------


def _by_name(*builders: Callable[[], Tokenizer]) -> dict[str, Callable[[], Tokenizer]]:
    return {builder.__name__: builder for builder in builders}


ZOO = _by_name(
    byte_level_trained,
    byte_level,
    byte_level_fused,
    byte_fallback_strip,
    byte_fallback_strip_two,
    byte_fallback,
    byte_fallback_bare,
    byte_fallback_replaces,
    byte_fallback_metaspace,
    byte_fallback_metaspace_never,
    byte_fallback_silent_special,
    metaspace_always,
    metaspace_first,
    metaspace_never,
    metaspace_underscore,
    metaspace_unigram,
    wordpiece,
    wordpiece_plain,
    wordpiece_strip,
    bpe_suffix,
    bpe_suffix_short,
    ctc,
    ctc_plain,
    ctc_metaspace,
    no_decoder,
    word_level,
    empty_sequence,
    fuse,
    replace_in_pieces,
    regex_in_pieces,
    strip_in_pieces,
    replaces_after_fuse,
    empty_pattern_in_pieces,
    normalized_specials,
    no_longer_special,
)
"""Every decoder family that compiles to a table and rules."""

UNCOMPILED = _by_name(
    regex_after_fuse,
    strip_stop,
    metaspace_after_fuse,
    metaspace_strip_unfused,
    strip_after_replace,
    python_decoder,
)
"""Decoders that only their own library can follow."""


def shared_tokenizers() -> Iterator[Path]:
    """Every ``tokenizer.json`` of the folder beside the repository, where there is one."""
    root = Path(__file__).resolve().parents[2]
    yield from sorted((root.parent / "shared" / "tokenizers").glob("*/tokenizer.json"))
