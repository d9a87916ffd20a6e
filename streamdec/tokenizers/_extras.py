"""Import an optional library, or raise MissingExtraError with the command."""

from __future__ import annotations

from importlib import import_module
from typing import Any

from streamdec.errors import MissingExtraError


def library(name: str, extra: str, what: str = "this tokenizer needs") -> Any:
    """Import and return the library ``name``.

    Raises :class:`MissingExtraError`, which says what to install.
    """
    try:
        return import_module(name)
    except ImportError as error:
        install = f"pip install 'streamdec[{extra}]'"
        package = name.partition(".")[0]
        raise MissingExtraError(f"{what} the library {package}: {install}") from error
