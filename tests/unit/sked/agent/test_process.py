"""The agent as a whole: from a kernel in a folder to an object of the API server, and what it imports."""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
from collections.abc import Awaitable, Callable, Iterator
from pathlib import Path

import msgspec
import pytest

from rig.operator import reportstore
from rig.operator.reportstore import Failure, ReportStore
from schedkit import __version__
from schedkit.kube.direct import DirectClient
from schedkit.model.api.schedextnode import SchedExtNodeStatus
from schedkit.sked.agent.identity import Place
from schedkit.sked.agent.process import Agent, AgentSettings, look_once
from schedkit.sked.agent.reporter import Reporter

PLACE = Place("node-1", "node-uid", "pod-uid")
TIMEOUT_S = 20.0
# beside the standard library; msgspec takes typing_extensions where it happens to be installed
MAY_IMPORT = {"schedkit", "msgspec", "click", "typing_extensions"}


class Kernel:
    """sysfs and procfs in a folder."""

    def __init__(self, root: Path) -> None:
        self.root = root
        (root / "sys/kernel/sched_ext/root").mkdir(parents=True)
        (root / "proc/sys/kernel/random").mkdir(parents=True)
        self.boots("boot-1")
        self.says("disabled", seq=0)

    def boots(self, boot_id: str) -> None:
        (self.root / "proc/sys/kernel/random/boot_id").write_text(f"{boot_id}\n")

    def says(self, state: str, seq: int = 1) -> None:
        folder = self.root / "sys/kernel/sched_ext"
        (folder / "root/ops").write_text("mini\n" if state == "enabled" else "")
        (folder / "enable_seq").write_text(f"{seq}\n")
        (folder / "state").write_text(f"{state}\n")


@pytest.fixture
def kernel(tmp_path: Path) -> Kernel:
    return Kernel(tmp_path)


@pytest.fixture
def store() -> Iterator[ReportStore]:
    with reportstore.serving() as store:
        yield store


async def until(holds: Callable[[], bool]) -> None:
    async with asyncio.timeout(TIMEOUT_S):
        while not holds():  # noqa: ASYNC110 - the store is in another thread
            await asyncio.sleep(0.01)


def play(kernel: Kernel, store: ReportStore, do: Callable[[Agent], Awaitable[None]]) -> None:
    """Do it while an agent runs, which ends when it is told to."""

    async def whole() -> None:
        stop = asyncio.Event()
        settings = AgentSettings(None, None, None, kernel.root)
        agent = Agent(settings, PLACE, Reporter(DirectClient(store.connection, "sked/1 agent"), PLACE))
        work = asyncio.ensure_future(agent.run(stop))
        await do(agent)
        assert not work.done()
        stop.set()
        await asyncio.wait_for(work, TIMEOUT_S)

    asyncio.run(whole())


def test_what_the_kernel_says_is_reported_and_what_it_says_then(kernel: Kernel, store: ReportStore) -> None:
    async def do(_: Agent) -> None:
        kernel.says("enabling")
        await until(lambda: store.status("node-1").get("state") == "enabling")
        kernel.says("enabled")
        await until(lambda: store.status("node-1").get("state") == "enabled")

    play(kernel, store, do)

    status = store.status("node-1")
    assert (status["ops"], status["enableSeq"], status["nodeUID"]) == ("mini", 1, "node-uid")
    assert status["kernel"] == {
        "release": os.uname().release,
        "architecture": os.uname().machine,
        "bootID": "boot-1",
    }
    assert status["agent"] == {"version": __version__, "podUID": "pod-uid"}
    assert status["owner"]["kind"] == "Unknown"  # nobody's processes are in the folder
    assert {each["id"].partition(".")[0] for each in status["findings"]} == {"kernel"}


def test_an_agent_is_ready_when_the_api_server_has_its_report(kernel: Kernel, store: ReportStore) -> None:
    store.failures.append(Failure(503, "ServiceUnavailable"))

    async def do(agent: Agent) -> None:
        assert agent.troubles() == (
            "the kernel was not looked at for 60 s",
            "the API server has not taken the report",
        )
        await until(lambda: agent.troubles() == ())
        assert store.status("node-1")["state"] == "disabled"

    play(kernel, store, do)


def test_an_agent_that_starts_again_keeps_the_date_of_what_has_not_changed(
    kernel: Kernel, store: ReportStore
) -> None:
    async def do(agent: Agent) -> None:
        await until(lambda: agent.troubles() == ())

    play(kernel, store, do)
    since = store.status("node-1")["since"]
    play(kernel, store, do)

    assert store.status("node-1")["since"] == since


def test_what_an_agent_of_an_earlier_boot_wrote_counts_for_nothing(
    kernel: Kernel, store: ReportStore
) -> None:
    exits = [{"ops": "old", "kind": 1026, "logTime": 7}]
    earlier = {"kernel": {"bootID": "boot-0"}, "since": "2020-01-01T00:00:00Z", "state": "disabled"}
    store.put("node-1", {"metadata": {}, "status": {**earlier, "exits": exits}})

    async def do(agent: Agent) -> None:
        await until(lambda: agent.troubles() == ())

    play(kernel, store, do)

    status = store.status("node-1")
    assert status["kernel"]["bootID"] == "boot-1"
    assert status["since"] > "2021"
    assert "old" not in [each["ops"] for each in status.get("exits", ())]


def test_one_look_is_printed_without_an_api_server_and_without_a_token(tmp_path: Path) -> None:
    """For a person in the agent's container, where nothing can be written."""
    tmp_path.chmod(0o555)
    done = subprocess.run(
        [Path(sys.executable).with_name("sked"), "agent", "--once"],
        capture_output=True,
        env={"HOME": str(tmp_path), "SKED_KUBECONFIG": str(tmp_path / "nowhere")},
        cwd=tmp_path,
        timeout=60,
        check=True,
    )

    said = msgspec.json.decode(done.stdout, type=SchedExtNodeStatus)
    assert said.kernel.release == os.uname().release
    assert said.agent.version == __version__
    assert done.stderr == b""


def test_one_look_says_the_same_as_a_report(kernel: Kernel, store: ReportStore) -> None:
    async def do(agent: Agent) -> None:
        await until(lambda: agent.troubles() == ())

    play(kernel, store, do)
    once = msgspec.json.decode(look_once(kernel.root))

    of_the_moment = ("since", "reportedAt", "nodeUID", "agent")
    reported = store.status("node-1")
    assert {key: once[key] for key in once if key not in of_the_moment} == {
        key: reported[key] for key in reported if key not in of_the_moment
    }


PROBE = """
import asyncio, sys
from pathlib import Path
before = set(sys.modules)
from schedkit.sked.main import main
from schedkit.sked.agent import command, journal, process
from schedkit.kube.access.config import Connection
from schedkit.kube.direct import DirectClient
from schedkit.sked.agent.identity import Place
from schedkit.sked.settings import parse_address

async def run():
    place, stop = Place("node-1", "node-uid", "pod-uid"), asyncio.Event()
    settings = process.AgentSettings(None, None, parse_address("127.0.0.1:0"), Path(sys.argv[1]))
    reporter = process.Reporter(DirectClient(Connection(sys.argv[2]), "sked/1 agent"), place)
    agent = process.Agent(settings, place, reporter)
    work = asyncio.ensure_future(agent.run(stop))
    while agent.troubles():
        await asyncio.sleep(0.01)
    stop.set()
    await work

asyncio.run(run())
print(*(set(sys.modules) - before))
"""


def test_an_agent_at_work_has_imported_little(kernel: Kernel, store: ReportStore) -> None:
    """It runs on every node of a fleet. With a scheduler attached, so that proving is among it."""
    kernel.says("enabled")
    done = subprocess.run(
        [sys.executable, "-c", PROBE, str(kernel.root), store.url],
        capture_output=True,
        text=True,
        timeout=60,
        check=True,
    )

    imported = {name.partition(".")[0] for name in done.stdout.split()}
    assert {"schedkit.kernel.held_objects", "schedkit.sked.agent.watcher"} <= set(done.stdout.split())
    assert store.status("node-1")["state"] == "enabled"
    assert imported - set(sys.stdlib_module_names) <= MAY_IMPORT, imported
    assert imported.isdisjoint({"aiohttp", "structlog", "prometheus_client", "yaml", "cryptography"})
