"""Loads the plugins that every tier shares."""

import os

pytest_plugins = ["rig.tiers", "rig.reporting", "rig.guestpytest", "pytester"]
if "RIG_GUEST_REPORTS" not in os.environ:  # the rig must not be imported here: plugins would be too late
    pytest_plugins.append("rig.properties")
