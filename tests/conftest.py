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
# The same examples each time, so that a change that turns it red is to blame; fuzz/ draws new ones.
settings.register_profile("ci", COMMON, max_examples=20, derandomize=True)
DEFAULT = "ci" if os.environ.get("CI") else "quick"
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", DEFAULT))
