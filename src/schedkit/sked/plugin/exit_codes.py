"""How `kubectl sked` ends: the exit codes of every verb."""

from __future__ import annotations

DONE, FAILED, LACKS_RIGHTS = 0, 1, 3


def exit_code(*, lacks_rights: bool, has_failed: bool) -> int:
    """Of what was done as far as it could be; a right that the user lacks counts before anything else."""
    return LACKS_RIGHTS if lacks_rights else FAILED if has_failed else DONE
