"""The options of decoding, which streams with one table have in common."""

from __future__ import annotations

from typing import Literal, NamedTuple

from streamdec.mistakes import check_flag

ByteFallbackMode = Literal["eager", "exact"]
Route = Literal["bytes", "window"]
UnknownIds = Literal["skip", "error", "replace"]


class Options(NamedTuple):
    """The decoding options of a table; see DecodeStream."""

    skip_special_tokens: bool = True
    byte_fallback: ByteFallbackMode = "eager"
    unknown_ids: UnknownIds = "skip"
    clean_up_tokenization_spaces: bool = False

    def check(self) -> None:
        """Raise TypeError or ValueError for a value that is not allowed."""
        for name in ("skip_special_tokens", "clean_up_tokenization_spaces"):
            check_flag(name, getattr(self, name))
        for name, known in (
            ("byte_fallback", ("eager", "exact")),
            ("unknown_ids", ("skip", "error", "replace")),
        ):
            if getattr(self, name) not in known:
                raise ValueError(f"{name} must be one of {known}, not {getattr(self, name)!r:.40}")


DEFAULT_OPTIONS = Options()
