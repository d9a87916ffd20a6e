"""When fastokens is built: the options of a hybrid tokenizer, checked."""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import dataclass
from typing import Self, get_args

from streamdec.errors import warn
from streamdec.mistakes import check_flag
from streamdec.tokenizers.tokenizer_report import FastMode, RequestedBy

VARIABLE = "STREAMDEC_FAST"
MODES: tuple[FastMode, ...] = get_args(FastMode)
"""The values of ``fast``."""
_LISTED = ", ".join(MODES)


@dataclass(frozen=True, slots=True)
class FastOptions:
    """Checked options of a hybrid tokenizer, with the environment applied."""

    fast: FastMode = "background"
    """``"off"``: never use fastokens. ``"now"``: build and compare it while loading.
    ``"background"``: build and compare it in a thread when it is worth it."""
    requested_by: RequestedBy = "default"
    strict: bool = False
    """Raise an error if fastokens cannot be used. Only with ``"now"``."""
    trial: Callable[[], None] | None = None
    """For a file of a stranger: builds fastokens in a child process first."""

    @classmethod
    def of(cls, fast: str | None = None, *, strict: bool = False) -> Self:
        """Check the options of :class:`~streamdec.tokenizers.HybridTokenizer`.

        Raises ValueError if an option is not valid; TypeError if ``strict`` is not a bool.
        """
        check_flag("strict", strict)
        if fast is not None and fast not in MODES:
            raise ValueError(f"fast must be one of {_LISTED}, got {fast!r:.40}")
        if strict and fast != "now":
            raise ValueError(f"strict=True needs fast='now', got fast={fast!r}")
        if fast is not None:
            return cls(fast, "argument", strict)
        value = os.environ.get(VARIABLE, "").strip().lower()
        for mode in MODES:
            if value == mode:
                return cls(mode, "environment")
        if value:
            warn(
                f"the environment variable {VARIABLE} must be one of {_LISTED}, got {value!r:.40}: "
                "it is ignored, and 'background' is used"
            )
        return cls()
