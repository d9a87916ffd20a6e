"""``python -m fuzz.wordpiece``: test the laws of decoding where a prefix continues a word."""

from __future__ import annotations

import sys

from fuzz.decoders import family
from fuzz.harness import main

TARGET = family("wordpiece")

if __name__ == "__main__":
    sys.exit(main(TARGET))
