"""When garbage is looked for: not while tests are collected, and never again among what that has loaded.

A pytest plugin. Each worker of `make check` loads all of the tree, which makes no garbage.
"""

from __future__ import annotations

import gc
from collections.abc import Generator

import pytest


@pytest.hookimpl(wrapper=True)
def pytest_collection() -> Generator[None, object, object]:
    gc.disable()
    try:
        return (yield)
    finally:
        gc.freeze()
        gc.enable()
