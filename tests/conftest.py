"""Loads the plugins that every tier shares, and says how thorough properties are tried."""

from hypothesis import HealthCheck, settings

pytest_plugins = ["rig.tiers", "rig.reporting", "rig.guestpytest", "pytester"]

# a busy machine is no reason to fail: what may take how long is said by the tiers' limits
_COMMON = settings(deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.register_profile("usual", _COMMON)
settings.register_profile("quick", _COMMON, max_examples=20)  # for `make check`
settings.load_profile("usual")
