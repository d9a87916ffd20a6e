"""``python -m fuzz.bpe_suffix``: test the laws of decoding with tokens whose suffix ends a word."""

from __future__ import annotations

import sys

from fuzz.decoders import family
from fuzz.harness import main

TARGET = family("bpe_suffix")

if __name__ == "__main__":
    sys.exit(main(TARGET))
