"""What is asked about sched_ext while its owner goes away has an answer."""

from __future__ import annotations

import os
import subprocess

from rig.guest import schedext


def test_a_process_that_has_ended_holds_no_links() -> None:
    with subprocess.Popen(["true"]) as ended:
        ended.wait(10)

    assert schedext.links(ended.pid) == []


def test_ordinary_files_are_no_links() -> None:
    assert schedext.links(os.getpid()) == []
