"""lm-eval and what it depends on warn while they are imported, which would be errors here."""

from __future__ import annotations

import warnings
from contextlib import suppress
from importlib import import_module

with warnings.catch_warnings(), suppress(ImportError):
    warnings.simplefilter("ignore")
    import_module("lm_eval.models.huggingface")
