"""``python -m fuzz.ctc``: test the laws of decoding where repeated tokens count once."""

from __future__ import annotations

import sys

from fuzz.decoders import family
from fuzz.harness import main

TARGET = family("ctc")

if __name__ == "__main__":
    sys.exit(main(TARGET))
