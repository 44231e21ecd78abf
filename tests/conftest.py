"""What holds for every test."""

from __future__ import annotations

from hypothesis import HealthCheck, settings

# How long a case takes says how busy the machine is, and nothing of the code.
untimed = settings(deadline=None, suppress_health_check=[HealthCheck.too_slow])
# The same cases in every run: what fails is the change. `--hypothesis-profile=chance` looks for new ones.
settings.register_profile("repeatable", untimed, derandomize=True)
settings.register_profile("chance", untimed)
settings.load_profile("repeatable")
