"""Which failures of a write are something that the user of a SchedExt is told."""

from __future__ import annotations

import pytest

from schedkit.kube.errors import FencedError, KubeError, UnavailableError, failure, read_status
from schedkit.model.deploy.plan import refusal_of
from schedkit.sked.reconcile import failed_write

BROKEN = failure(500, read_status(b"failed calling webhook"))
ENDING = b'{"message": "it ends", "details": {"causes": [{"reason": "NamespaceTerminating"}]}}'


@pytest.mark.parametrize(
    ("error", "told"),
    [
        (failure(403, read_status(b'{"message": "exceeded quota"}')), "exceeded quota"),
        (failure(422, read_status(b'{"message": "not like this"}')), "not like this"),
        (failure(405, read_status(b'{"message": "a webhook says no"}')), "a webhook says no"),
        (BROKEN, "500 Internal Server Error: failed calling webhook"),
        (failure(403, read_status(ENDING)), None),
        (failure(404, read_status(b"")), None),
        (failure(409, read_status(b"")), None),
        (failure(429, read_status(b"")), None),
        (failure(502, read_status(b"")), None),
        (failure(503, read_status(b'{"message": "apiserver is shutting down"}')), None),
        (failure(504, read_status(b'{"message": "request did not complete"}')), None),
        (UnavailableError("no route to host", acted=False), None),
        (FencedError("another leads"), None),
    ],
    ids=str,
)
def test_users_are_told_what_the_server_has_against_their_scheduler_and_not_how_we_reach_it(
    error: KubeError, told: str | None
) -> None:
    assert refusal_of(failed_write(error), again=True) == told


def test_a_server_that_broke_says_something_about_a_daemon_set_only_if_it_breaks_again() -> None:
    assert refusal_of(failed_write(BROKEN), again=False) is None
    quota = failed_write(failure(403, read_status(b'{"message": "no"}')))
    assert refusal_of(quota, again=False) == "no"
