"""A vocabulary of all bytes and some texts, for tests of the wire formats."""

from __future__ import annotations

from streamdec import MockTokenizer

TOKENS = [
    *(bytes([byte]) for byte in range(256)),
    *(b"Hello", b" world", b"\nUser:", b"\nUs", b"er:", "你好".encode(), "😀".encode(), b" " * 9),
    b"<|end|>",
]
END = len(TOKENS) - 1
TOKENIZER = MockTokenizer.from_tokens(TOKENS, special_ids=[END])
