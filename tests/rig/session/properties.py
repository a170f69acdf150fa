"""How thoroughly properties are tried: a pytest plugin, apart because guests try none and import slowly."""

from __future__ import annotations

from hypothesis import HealthCheck, settings

# a busy machine is no reason to fail: what may take how long is said by the tiers' limits
_COMMON = settings(deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.register_profile("usual", _COMMON)
settings.register_profile("quick", _COMMON, max_examples=20)  # for `make check`
settings.load_profile("usual")
