"""How long the suite looks for a counterexample."""

from __future__ import annotations

import os

from hypothesis import HealthCheck, settings

COMMON = settings(
    deadline=None,  # the machines are shared: time says nothing
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)
settings.register_profile("quick", COMMON, max_examples=20)
settings.register_profile("thorough", COMMON, max_examples=2_000)
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "quick"))
