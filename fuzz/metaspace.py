"""``python -m fuzz.metaspace``: test the laws of decoding where a letter stands for a space."""

from __future__ import annotations

import sys

from fuzz.decoders import family
from fuzz.harness import main

TARGET = family("metaspace")

if __name__ == "__main__":
    sys.exit(main(TARGET))
