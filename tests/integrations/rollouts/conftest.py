"""TRL, verl and SkyRL warn while they are imported, which would be errors here."""

from __future__ import annotations

import typing
import warnings
from contextlib import suppress
from importlib import import_module
from importlib.util import find_spec

import pytest

MODULES = (
    "trl.trainer.grpo_trainer",
    "verl.experimental.agent_loop.single_turn_agent_loop",
    "skyrl.train.generators.skyrl_gym_generator",
)

with warnings.catch_warnings(), pytest.MonkeyPatch.context() as patch:
    warnings.simplefilter("ignore")
    if find_spec("skyrl") is not None:
        # On Python 3.11 pydantic rejects the TypedDicts of SkyRL 0.3.0.
        patch.setattr(typing, "TypedDict", import_module("typing_extensions").TypedDict)
    for name in MODULES:
        with suppress(ImportError):
            import_module(name)
