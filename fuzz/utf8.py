"""``python -m fuzz.utf8``: check the text and the held bytes of UTF-8 in pieces.

An input is bytes: the first one selects the policy for ill-formed parts, the rest is the text.
"""

from __future__ import annotations

import sys

from fuzz.harness import Target, main
from streamdec.core import utf8
from tests import reference

POLICIES = (utf8.PER_PART, utf8.PER_BYTE)
TEXTS = {
    "latin": "naïve".encode(),
    "mixed": "aé你😀\ufffd".encode(),
    "cut": "😀".encode()[:3] + "你".encode()[1:],
    "surrogate": b"\xed\xa0\x80\xed\xbf",
    "overlong": b"\xc0\xaf\xe0\x80\xaf\xf0\x80\x80\xaf",
    "beyond": b"\xf4\x90\x80\x80\xf5\xff",
    "continuations": b"\x80\xbf\x80\xf0\x9f",
}


def law(data: bytes) -> None:
    errors, data = POLICIES[sum(data[:1]) % 2], data[1:65]
    per_byte = errors == utf8.PER_BYTE
    given, pending = "", b""
    for end in range(1, len(data) + 1):
        text, pending = utf8.decode(pending + data[end - 1 : end], errors)
        given += text
        assert pending == reference.unfinished(data[:end])
        assert given == reference.text_of(data[: end - len(pending)], per_byte=per_byte)
    whole = reference.code_points(data, per_byte=per_byte)
    assert given + utf8.flush(pending, errors) == "".join(char for _, char in whole)
    assert utf8.decode(data, errors) == (given, pending)
    assert utf8.code_points(data, errors, final=True) == whole


def seeds() -> dict[str, bytes]:
    return {
        f"{name}-{policy}": bytes([number]) + text
        for name, text in TEXTS.items()
        for number, policy in enumerate(("part", "byte"))
    }


TARGET = Target("utf8", law, seeds)

if __name__ == "__main__":
    sys.exit(main(TARGET))
