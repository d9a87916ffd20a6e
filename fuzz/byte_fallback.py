"""``python -m fuzz.byte_fallback``: test the laws of decoding with tokens for single bytes."""

from __future__ import annotations

import sys

from fuzz.decoders import family
from fuzz.harness import main

TARGET = family("byte_fallback")

if __name__ == "__main__":
    sys.exit(main(TARGET))
