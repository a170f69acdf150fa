"""What the benchmark of agents makes of its figures."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
from pathlib import Path

from benchmarks.node import crowd, report
from benchmarks.node.targets import CROWDED, PLAIN, WITH_METRICS, Idle, Results, Sizes, compare, percentile

GOOD = Results(
    (
        Idle(PLAIN, 30.0, 25.0, 36.0, 0.1, 0, 1.0),
        Idle(WITH_METRICS, 47.0, 40.0, 50.0, 0.15, 0, 1.0),
        Idle(CROWDED, 31.0, 26.0, 36.0, 0.2, 0, 1.0),
    ),
    [0.2] * 99 + [3.0],
)


def test_a_good_run_meets_every_target() -> None:
    assert [each.is_met for each in compare(GOOD)] == [True] * 10


def test_the_slowest_of_a_hundred_does_not_count_and_the_second_slowest_does() -> None:
    assert percentile([0.1] * 99 + [5.0], 99) == 0.1
    assert percentile([0.1] * 98 + [5.0, 5.0], 99) == 5.0
    assert percentile([7.0], 99) == 7.0


def test_what_is_missed_is_marked_and_told_to_programs() -> None:
    bad = Results((Idle(PLAIN, 41.0, 25.0, 60.0, 0.3, 1, 9.0),))

    assert report.render_text(Sizes(), bad).count("MISSED") == 3
    told = json.loads(report.render_json(Sizes(idle_s=5), bad))
    assert [each["met"] for each in told["targets"]] == [False, False, False]
    assert told["sizes"]["idle_s"] == 5


def test_a_crowd_ends_with_the_process_that_made_it() -> None:
    words = [sys.executable, crowd.__file__, "20", "300"]
    with subprocess.Popen(words, stdout=subprocess.PIPE, start_new_session=True) as made:
        assert made.stdout is not None
        assert made.stdout.readline() == b"ready\n"
        members = of_session(made.pid)
        made.send_signal(signal.SIGKILL)
        made.wait()

    assert len(members) >= 22
    while of_session(made.pid):  # they end by themselves, at once
        pass


def of_session(leader: int) -> list[int]:
    found = []
    for stat in Path("/proc").glob("[0-9]*/stat"):
        try:
            fields = stat.read_text().rpartition(")")[2].split()
        except OSError:
            continue
        if int(fields[3]) == leader and fields[0] != "Z":
            found.append(int(stat.parent.name))
    return found
