"""How long the suite looks for a counterexample."""

from __future__ import annotations

import os

from hypothesis import HealthCheck, Phase, settings

COMMON = settings(
    deadline=None,  # the machines are shared: time says nothing
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)
settings.register_profile("quick", COMMON, max_examples=20)
settings.register_profile("thorough", COMMON, max_examples=2_000)
# The same examples each time, so that a change that turns it red is to blame; fuzz/ draws new ones.
CI = settings(COMMON, max_examples=20, derandomize=True)
settings.register_profile("ci", CI)
# For those who only ask whether there is a counterexample: nothing is made small.
settings.register_profile("unshrunk", CI, phases=[Phase.explicit, Phase.generate])
DEFAULT = "ci" if os.environ.get("CI") else "quick"
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", DEFAULT))
