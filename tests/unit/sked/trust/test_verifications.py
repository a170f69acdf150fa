"""Verdicts between the manager and its verifier: what is believed, kept, asked again, and for how long."""

from __future__ import annotations

import asyncio
import re
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import msgspec
import pytest

from rig.base import polling
from rig.builders.observations import daemon_set, observation, schedext
from rig.operator.trustrules import MountedRules
from schedkit.kube.resources import Key
from schedkit.model.api.conditions import Reason
from schedkit.model.deploy.admission import question_of
from schedkit.model.deploy.observation import Observation
from schedkit.model.deploy.render import render
from schedkit.model.deploy.verdicts import Distrusted, Question, Trusted, Undecided, Verdict
from schedkit.model.images.references import Digest
from schedkit.model.trust.rules import TrustMode, built_in_rules, parse_rules
from schedkit.model.trust.rules_in_force import RulesInForce
from schedkit.oci.policy.patterns import Re2Pattern
from schedkit.sked.trust import rules_process
from schedkit.sked.trust.confined import BrokenOffError, Limits, environment
from schedkit.sked.trust.messages import Reading
from schedkit.sked.trust.rules_folder import RuleFolder
from schedkit.sked.trust.verifications import Access, Verifications, understood

IMAGE = "registry.example/scheds/rusty:v1"
GOOD, OTHER = Digest("sha256:" + "a" * 64), Digest("sha256:" + "b" * 64)
QUESTION = Question(IMAGE, None, "policy")
KEY = Key("default", "scx")


def verdict(digest: str = GOOD, repository: str = "registry.example/scheds/rusty") -> dict[str, object]:
    named = {"digest": str(digest), "repository": repository}
    return {**named, "signer": "ci", "issuer": None, "time": None, "mode": "key"}


def answer(**fields: object) -> bytes:
    return msgspec.json.encode({"ticket": "t", "kind": "trusted", "current": str(GOOD), **fields})


def read(data: bytes, question: Question = QUESTION, before: Verdict | None = None) -> Verdict:
    return understood(data, "t", question, before)


def test_a_good_answer_is_a_proof() -> None:
    found = read(answer(verdict=verdict()))

    assert isinstance(found, Trusted)
    assert (found.verified.digest, found.verified.signer, found.current) == (GOOD, "ci", GOOD)
    moved = read(answer(kind="known", current=str(OTHER)), before=found)
    assert moved == Trusted(found.verified, OTHER)
    assert read(answer(kind="known", current=""), before=moved) == moved, "an outage moves no tag back"


def test_what_an_index_lists_is_a_part_of_the_answer_and_stays_one() -> None:
    found = read(answer(verdict=verdict(), parts=[str(OTHER)]))
    again = read(answer(kind="known", current=str(OTHER)), before=found)

    for each in (found, again):
        assert isinstance(each, Trusted)
        assert (each.covers(GOOD), each.covers(OTHER), each.covers("sha256:" + "c" * 64)) == (
            True,
            True,
            False,
        )


def test_other_answers_are_what_they_say() -> None:
    assert read(answer(kind="distrusted", step=3, why="nobody signed it")) == Distrusted(
        3, "nobody signed it"
    )
    unreachable = answer(kind="unreachable", why="no route", retry_after_s=9)
    assert read(unreachable) == Undecided(Reason.REGISTRY_UNREACHABLE, "no route", 9)


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"\xff\x00",
        b"[]",
        b"[" * 100_000,
        answer(),
        answer(kind="splendid"),
        answer(ticket="of another", kind="distrusted", step=3, why="nobody signed it"),
        answer(verdict=verdict(), ticket="of another"),
        answer(verdict=verdict(repository="registry.example/scheds/other")),
        answer(verdict=verdict(), current="latest"),
        answer(verdict=verdict(digest="sha256:short")),
        answer(verdict=verdict(), parts=["sha256:short"]),
        answer(kind="known"),
        answer(verdict=verdict(), more=1),
    ],
    ids=lambda data: repr(data[:60]),
)
def test_what_is_no_answer_to_this_question_proves_nothing(data: bytes) -> None:
    with pytest.raises(BrokenOffError):
        read(data)


@pytest.mark.parametrize(
    "question", [Question(IMAGE, OTHER, "policy"), Question(f"{IMAGE}@{OTHER}", None, "p")]
)
def test_a_verdict_about_another_digest_than_the_pinned_one_proves_nothing(question: Question) -> None:
    with pytest.raises(BrokenOffError, match="about another image"):
        read(answer(verdict=verdict()), question)


def test_a_verifier_gets_the_way_to_registries_and_no_secret() -> None:
    own = {
        "PATH": "/bin",
        "HTTPS_PROXY": "http://proxy:3128",
        "no_proxy": ".local",
        "AWS_SECRET_ACCESS_KEY": "s",
    }

    assert environment(own).keys() == {"PATH", "HTTPS_PROXY", "no_proxy", "MALLOC_ARENA_MAX", "LC_ALL"}


def test_a_verifier_believes_the_authorities_that_the_manager_believes() -> None:
    own = {"SSL_CERT_FILE": "/etc/ours.pem", "SSL_CERT_DIR": "/etc/ours"}

    assert own.items() <= environment(own).items()


# The queue


def verifier(program: str) -> tuple[str, ...]:
    """In the place of the real one."""
    return (sys.executable, "-S", "-c", f"import sys, json; r = json.load(sys.stdin); {program}")


DISTRUSTS = "print(json.dumps({'ticket': r['ticket'], 'kind': 'distrusted', 'step': 3, 'why': 'nobody'}))"


def asked(verifications: Verifications, image: str | None = None) -> Observation:
    """What is known after somebody asked about a SchedExt, whose pods run that image if there are any."""
    owner = schedext(sched=IMAGE)
    there = None
    if image is not None:
        there = msgspec.structs.replace(daemon_set(owner), spec=render(owner, image).spec)
    return look_and_ask(verifications, KEY, observation(owner, daemon_set=there))


def look_and_ask(verifications: Verifications, key: Key, at: Observation) -> Observation:
    """As a reconcile does it."""
    seen = verifications.look(key, at)
    verifications.ask(key, question_of(seen))
    return seen


def made(
    program: str,
    *,
    mode: TrustMode = TrustMode.ENFORCE,
    time_s: float = 20,
    interval_s: float = 600,
    command: tuple[str, ...] = (),
) -> Verifications:
    return Verifications(
        RuleFolder(None, mode),
        Access(),
        interval_s=interval_s,
        command=command or verifier(program),
        limits=Limits(time_s, 64 << 20, 10_000),
    )


@pytest.mark.parametrize(
    ("program", "time_s", "words"),
    [
        ("import time; time.sleep(600)", 1, "it did not end within 1 s"),
        # these end by themselves, however busy the machine is
        ("import os; os.abort()", 60, "it was ended by signal 6"),
        ("print('nonsense')", 60, "its answer cannot be understood"),
        ("meal = [bytearray(1 << 20) for _ in range(200)]", 60, "it ended with code 1"),
    ],
)
def test_a_verifier_that_fails_leaves_the_answer_open_and_is_asked_again_later(
    program: str, time_s: float, words: str
) -> None:
    async def play() -> None:
        verifications = made(program, time_s=time_s)
        assert asked(verifications).verdict is None

        result = await verifications.verify(KEY)

        found = asked(verifications).verdict
        assert isinstance(found, Undecided)
        assert found.reason is Reason.VERIFIER_FAILED
        assert words in found.why
        assert result.after_s is not None
        assert 5 < result.after_s < 20

    asyncio.run(play())


def test_who_asked_is_told_once_and_the_same_question_costs_one_process(tmp_path: Path) -> None:
    marks = tmp_path / "marks"
    told: list[Key] = []

    async def play() -> None:
        verifications = made(f"open({str(marks)!r}, 'a').write('x'); {DISTRUSTS}")
        verifications.listen(told.append)
        other = Key("default", "other")
        asked(verifications)
        look_and_ask(verifications, other, observation(schedext("other", sched=IMAGE), daemon_set=None))

        await verifications.verify(KEY)
        await verifications.verify(other)

        assert isinstance(asked(verifications).verdict, Distrusted)

    asyncio.run(play())
    assert marks.read_text() == "x"
    assert told == [KEY, Key("default", "other")]


def ask(verifications: Verifications, name: str, namespace: str = "default") -> None:
    """For a SchedExt of that name, about an image of its own."""
    owner = schedext(name, namespace=namespace, sched=f"registry.example/{name}:v1")
    look_and_ask(verifications, Key(namespace, name), observation(owner, daemon_set=None))


@asynccontextmanager
async def at_work(verifications: Verifications) -> AsyncIterator[None]:
    """The queue is worked on for the length of the block."""
    worker = asyncio.create_task(verifications.controller.run())
    try:
        yield
    finally:
        worker.cancel()
        await asyncio.wait([worker])


def test_what_is_new_does_not_wait_behind_what_was_asked_before() -> None:
    done: list[str] = []
    told: dict[Key, int] = {}  # after how many answers

    async def play() -> None:
        verifications = Verifications(
            RuleFolder(None, TrustMode.WARN),
            Access(),
            interval_s=0.001,  # so that somebody is always due
            command=("true",),
            observe=lambda controller, *_: done.append(controller),
        )
        verifications.listen(lambda key: told.update({key: len(done)}) if key not in told else None)
        for number in range(10):
            ask(verifications, f"old-{number}")
        async with at_work(verifications):
            await polling.soon(lambda: len(done) > 25, "old ones are asked again and again")
            before = len(done)
            ask(verifications, "new")
            await polling.soon(lambda: Key("default", "new") in told, "the new one is answered")
            assert told[Key("default", "new")] - before <= 2

    asyncio.run(play())


def test_a_namespace_does_not_wait_behind_all_the_images_of_another() -> None:
    told: list[Key] = []

    async def play() -> None:
        verifications = made("", command=("true",))
        verifications.listen(told.append)
        for number in range(20):
            ask(verifications, f"storm-{number}", "crowded")
        ask(verifications, "calm", "quiet")
        async with at_work(verifications):
            await polling.soon(lambda: Key("quiet", "calm") in told, "the one of the other is answered")

    asyncio.run(play())
    assert told.index(Key("quiet", "calm")) <= 2


def test_processes_run_one_at_a_time(tmp_path: Path) -> None:
    marks = tmp_path / "marks"
    marks.touch()
    linger = "import time; f.write(b'<'); time.sleep(0.02); f.write(b'>')"
    program = f"f = open({str(marks)!r}, 'ab', 0); {linger}; {DISTRUSTS}"

    async def play() -> None:
        verifications = made(program, interval_s=0.001)
        for name in ("a", "b", "c"):
            ask(verifications, name)
        async with at_work(verifications):
            await polling.soon(lambda: len(marks.read_text()) > 12, "new ones and others are asked")
            ask(verifications, "d")
            await polling.soon(lambda: len(marks.read_text()) > 20, "more are asked")

    asyncio.run(play())
    assert re.fullmatch("(<>)+<?", marks.read_text())


def test_rules_are_read_when_no_verifier_runs(tmp_path: Path) -> None:
    mounted = MountedRules(tmp_path / "rules")

    async def play() -> None:
        turn = asyncio.Lock()
        began, may_end = asyncio.Event(), asyncio.Event()

        async def read_slowly(file: Path) -> Reading:
            began.set()
            await may_end.wait()
            return rules_process.read(file)

        mounted.write({"rules.yaml": b"mode: enforce\n"})
        folder = RuleFolder(mounted.folder, TrustMode.ENFORCE, read_slowly, turn=turn)
        folder.in_force = RulesInForce(built_in_rules(TrustMode.ENFORCE, Re2Pattern))
        verifications = Verifications(
            folder, Access(), interval_s=600, command=verifier(DISTRUSTS), turn=turn
        )
        asked(verifications)
        reading = asyncio.create_task(folder.look())
        await began.wait()
        verifying = asyncio.create_task(verifications.verify(KEY))
        await asyncio.wait({verifying}, timeout=0.3)
        assert not verifying.done(), "there is memory for one process"

        may_end.set()
        await asyncio.gather(reading, verifying)
        assert isinstance(asked(verifications).verdict, Distrusted)

    asyncio.run(play())


def test_who_does_not_answer_is_asked_ever_later_up_to_a_limit() -> None:
    async def play() -> list[float]:
        verifications = made("", interval_s=0.04, command=("/nowhere/at/all",))
        asked(verifications)
        waits = []
        for _ in range(8):
            waits.append((await verifications.verify(KEY)).after_s or 0)
            await asyncio.sleep(waits[-1])
        return waits

    waits = asyncio.run(play())
    assert waits[0] <= 0.04 / 40
    assert waits[-1] > 0.04 / 2
    assert max(waits) <= 3 * 0.04


def test_a_look_asks_nobody() -> None:
    async def play() -> None:
        verifications = made("raise SystemExit")
        seen = verifications.look(KEY, observation(schedext(sched=IMAGE), daemon_set=None))

        assert (seen.verdict, verifications.controller.queue.depth) == (None, 0)
        assert (await verifications.verify(KEY)).after_s is None

    asyncio.run(play())


def test_off_asks_nobody() -> None:
    async def play() -> None:
        verifications = made("raise SystemExit", mode=TrustMode.OFF)
        asked(verifications)

        assert verifications.controller.queue.depth == 0
        assert (await verifications.verify(KEY)).after_s is None

    asyncio.run(play())


TRUSTS = (
    "v = {'digest': D, 'repository': 'registry.example/scheds/rusty', 'signer': 'ci', 'issuer': None,"
    " 'time': None, 'mode': 'key'};"
    "print(json.dumps({'ticket': r['ticket'], 'kind': 'trusted', 'current': D, 'verdict': v}))"
)


def test_what_was_verified_stays_so_when_pods_are_bound_to_it_and_through_an_outage(tmp_path: Path) -> None:
    down = tmp_path / "down"
    outage = "print(json.dumps({'ticket': r['ticket'], 'kind': 'unreachable', 'why': 'down'}))"
    facts = f"import os; D = {str(GOOD)!r}"
    program = f"{facts}; exec({outage!r} if os.path.exists({str(down)!r}) else {TRUSTS!r})"

    async def play() -> None:
        verifications = made(program, interval_s=0.01)
        asked(verifications)
        await verifications.verify(KEY)
        first = asked(verifications).verdict
        assert isinstance(first, Trusted)

        assert asked(verifications, f"{IMAGE}@{GOOD}").verdict == first, "no second question is open"
        down.touch()
        await asyncio.sleep(0.02)  # the verdict is no longer young
        await verifications.verify(KEY)
        assert asked(verifications, f"{IMAGE}@{GOOD}").verdict == first

    asyncio.run(play())


def test_what_was_verified_before_is_remembered_until_the_policy_is_another(tmp_path: Path) -> None:
    named = tmp_path / "digest"
    facts = f"D = open({str(named)!r}).read()"
    command = verifier(f"{facts}; exec({TRUSTS!r})")

    async def play() -> None:
        folder = RuleFolder(None, TrustMode.WARN)
        verifications = Verifications(folder, Access(), interval_s=0.001, command=command)
        for digest in (GOOD, OTHER, GOOD):
            named.write_text(digest)
            asked(verifications)
            await asyncio.sleep(0.002)  # the verdict is no longer young
            await verifications.verify(KEY)
        assert [each.verified.digest for each in asked(verifications).vouched] == [OTHER, GOOD]

        folder.in_force = RulesInForce(parse_rules({"policy": {}}, str.encode, TrustMode.WARN, Re2Pattern))
        assert asked(verifications).vouched == ()
        folder.in_force = RulesInForce(built_in_rules(TrustMode.WARN, Re2Pattern))
        assert asked(verifications).vouched == (), "nobody looked meanwhile"

    asyncio.run(play())


def test_a_question_outlives_rules_that_change_and_change_back() -> None:
    async def play() -> None:
        folder = RuleFolder(None, TrustMode.ENFORCE)
        verifications = Verifications(folder, Access(), interval_s=600, command=verifier(DISTRUSTS))
        asked(verifications)
        first = folder.in_force

        folder.in_force = RulesInForce(parse_rules({"policy": {}}, str.encode, TrustMode.ENFORCE, Re2Pattern))
        assert (await verifications.verify(KEY)).after_s == 1, "nobody else would look again"
        folder.in_force = first
        await verifications.verify(KEY)

        assert isinstance(asked(verifications).verdict, Distrusted)

    asyncio.run(play())


def test_a_schedext_that_is_gone_is_forgotten() -> None:
    async def play() -> None:
        verifications = made(DISTRUSTS)
        asked(verifications)
        await verifications.verify(KEY)
        verifications.forget(KEY)

        assert (await verifications.verify(KEY)).after_s is None
        assert asked(verifications).verdict is None

    asyncio.run(play())
