from __future__ import annotations

import pytest

from schedkit.sked.plugin.exit_codes import exit_code


@pytest.mark.parametrize(
    ("lacks_rights", "has_failed", "code"),
    [(False, False, 0), (False, True, 1), (True, False, 3), (True, True, 3)],
)
def test_a_right_that_is_missing_counts_before_what_failed(
    lacks_rights: bool, has_failed: bool, code: int
) -> None:
    assert exit_code(lacks_rights=lacks_rights, has_failed=has_failed) == code
