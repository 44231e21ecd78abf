"""What holds for every test."""

from __future__ import annotations

from hypothesis import HealthCheck, settings

# How long a case takes says how busy the machine is, and nothing of the code.
settings.register_profile("untimed", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("untimed")
