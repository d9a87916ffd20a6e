"""``python -m streamdec`` is the command ``streamdec``."""

from streamdec.cli import main

__all__: list[str] = []

if __name__ == "__main__":
    main()
