"""Loads the plugins that every tier shares."""

pytest_plugins = ["rig.tiers", "rig.reporting", "rig.guestpytest", "pytester"]
