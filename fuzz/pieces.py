"""``python -m fuzz.pieces``: test the laws of decoding with tokens of text."""

from __future__ import annotations

import sys

from fuzz.decoders import family
from fuzz.harness import main

TARGET = family("pieces")

if __name__ == "__main__":
    sys.exit(main(TARGET))
