"""``python -m fuzz.pieces``: the laws of decoding, where tokens are text already."""

from __future__ import annotations

import sys

from fuzz.decoders import family
from fuzz.harness import main

TARGET = family("pieces")

if __name__ == "__main__":
    sys.exit(main(TARGET))
