"""`kubectl sked` and a SchedExt that is deleted meanwhile, or a login that is not valid."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from rig.operator import reportstore
from rig.operator.reportstore import Failure, ReportStore
from schedkit.kube.errors import ForbiddenError, KubeError, Status, UnauthorizedError, failure
from schedkit.model.deploy.stops import Stop
from schedkit.sked.plugin import explain, resume, stop
from schedkit.sked.plugin.cluster import Cluster
from schedkit.sked.plugin.exit_codes import FAILED, LACKS_RIGHTS
from schedkit.sked.plugin.printing import told_plainly
from schedkit.sked.plugin.targets import Gaps, Target, annotate, chosen_targets

PLACE = "/apis/sked.schedkit.io/v1/namespaces/ns/schedexts"
WHY = Stop(reason="it burns")


@pytest.fixture
def store() -> Iterator[ReportStore]:
    """An API server with one SchedExt."""
    with reportstore.serving(collection=PLACE) as store:
        store.put("a", {"metadata": {"namespace": "ns"}})
        yield store


@pytest.fixture
def cluster(store: ReportStore) -> Cluster:
    return Cluster(store.connection)


@pytest.fixture
def target(cluster: Cluster) -> Target:
    (found,) = chosen_targets(cluster, ("a",), "ns", is_all=False)
    return found


def test_whether_a_schedext_was_there_to_be_stopped_is_told(
    store: ReportStore, cluster: Cluster, target: Target
) -> None:
    assert annotate(cluster, target, WHY)
    assert "it burns" in str(store.objects["a"]["metadata"]["annotations"])

    store.delete("a")

    assert not annotate(cluster, target, WHY)


def test_one_that_is_deleted_between_a_look_and_the_patch_is_gone_as_well(
    store: ReportStore, cluster: Cluster, target: Target
) -> None:
    store.failures = [None, Failure(404, "NotFound")]

    assert not annotate(cluster, target, WHY)
    assert store.asked[-2:] == ["GET", "PATCH"]


def test_what_was_deleted_meanwhile_neither_starts_again_nor_is_called_stopped() -> None:
    resumed = list(resume._lines(resume.Resumed((), deleted=("ns/a",))))  # noqa: SLF001 - what people read
    stopped = list(stop._lines(stop.Stopping((), nodes=2, deleted=("ns/a",))))  # noqa: SLF001 - as above

    assert resumed == ["ns/a was deleted meanwhile: nothing of it starts again"]
    assert stopped == [
        "no SchedExt was stopped",
        "ns/a was deleted meanwhile: its nodes end it, and nothing starts it again",
        "2 of 2 nodes have ended it",
    ]


def refused(code: int) -> KubeError:
    return failure(code, Status(message="no"))


def test_a_login_that_is_not_valid_is_no_missing_right(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ended, told_plainly():
        raise refused(401)

    assert ended.value.code == FAILED
    said = capsys.readouterr().err
    assert "does not accept the login of this context (401 Unauthorized: no): log in again" in said
    assert "right" not in said


def test_explain_calls_no_login_that_is_not_valid_a_missing_right(
    store: ReportStore, cluster: Cluster
) -> None:
    store.failures = [Failure(401, "Unauthorized")]

    with pytest.raises(UnauthorizedError):
        explain._look(cluster, "node-1")  # noqa: SLF001 - what it says is told_plainly's, as above


def test_a_missing_right_is_told_as_one(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ended, told_plainly():
        raise refused(403)

    assert ended.value.code == LACKS_RIGHTS
    assert "a right is missing" in capsys.readouterr().err


def test_a_login_that_ends_halfway_is_a_problem_of_what_is_left() -> None:
    gaps = Gaps()
    for code in (401, 403):
        with gaps:
            raise refused(code)

    assert [each.partition(" (")[0] for each in gaps.problems] == [
        "the API server does not accept the login of this context"
    ]
    assert list(gaps.rights) == ["403 Forbidden: no"]
    assert issubclass(UnauthorizedError, ForbiddenError)  # whoever does not tell them apart goes on as before
