"""``functools.cached_property``, which type checkers are to read as a property.

They are the same to who reads them. But pyright compares the members of a protocol as they are
declared, so a class with a ``cached_property`` would be no Tokenizer to it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from builtins import property as cached_property
else:
    from functools import cached_property

__all__ = ["cached_property"]
