"""Loads the plugins that every tier shares."""

import os

import pytest

pytest_plugins = [
    "rig.session.tiers",
    "rig.session.reporting",
    "rig.session.guestpytest",
    "rig.session.garbage",
    "pytester",
]
# rig.session.reporting.IN_GUEST, by its value: what is imported here can be no plugin any more
if "RIG_GUEST_REPORTS" not in os.environ:
    pytest_plugins.append("rig.session.properties")

# assertions outside of test modules say what they compared only if they are asked to
pytest.register_assert_rewrite("rig.guest.kernel_contract")
