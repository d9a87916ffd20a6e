"""``python -m fuzz.byte_level``: test the laws of decoding with tokens of bytes."""

from __future__ import annotations

import sys

from fuzz.decoders import family
from fuzz.harness import main

TARGET = family("byte_level")

if __name__ == "__main__":
    sys.exit(main(TARGET))
