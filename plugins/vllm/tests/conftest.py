"""vLLM and torch warn while they are imported, which would be errors here."""

from __future__ import annotations

import warnings
from contextlib import suppress
from importlib import import_module

with warnings.catch_warnings(), suppress(ImportError):
    warnings.simplefilter("ignore")
    for _name in ("sampling_params", "v1.engine.output_processor"):
        import_module(f"vllm.{_name}")
