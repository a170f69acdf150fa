"""Where scenarios are played: a namespace, managers that see nothing else, and a proxy that comes between.

Any number of plays run at once in one event loop. What remains at the end is compared as a `picture`, which
leaves out what differs between two runs that ended alike: times, uids, versions, and names made of them.
"""

from __future__ import annotations

import asyncio
import json
import re
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager, nullcontext
from dataclasses import dataclass, field
from typing import TypeVar

import aiohttp

from rig.base import polling
from rig.base.errors import RigError
from rig.cluster.controlplane import ControlPlane
from rig.cluster.kubeclient import ApiError, JsonObject
from rig.operator import writeproxy
from rig.operator.manager import GROUP, Manager, SchedExts
from rig.operator.writeproxy import WriteProxy

T = TypeVar("T")

NAME = "scx"
_USER = "sked-on-stage"  # in the audit log
_CLAIM = re.compile(rf"\b{NAME}-[0-9a-f]{{12}}\b")
_QUIET_S = 2.5  # longer than a manager waits between two writes of one status
_TIMEOUT_S = 90
_POLL_S = 0.5  # many plays share few cores


@dataclass
class Play:
    """One scenario: the user's objects, and the manager that looks after them."""

    cluster: ControlPlane
    proxy: WriteProxy
    schedexts: SchedExts
    nodes: dict[str, str]  # the label of those it may use
    quiet_s: float = _QUIET_S
    managers: list[Manager] = field(default_factory=list)

    async def start(self, *flags: str) -> Manager:
        """A manager behind the proxy, ready; it is stopped with the play."""
        name = f"{self.schedexts.namespace}-{len(self.managers)}"
        file = writeproxy.kubeconfig(self.cluster, self.proxy)
        made = Manager(self.cluster, name, "--metrics-bind-address=0", *flags, kubeconfig=file)
        self.managers.append(made)
        await self._eventually(lambda: asyncio.to_thread(_is_ready, made), f"{name} is ready")
        return made

    async def picture(self) -> JsonObject:
        """What a user sees now."""
        return await asyncio.to_thread(picture, self.schedexts)

    async def await_picture(
        self, fits: Callable[[JsonObject], bool], what: str, *, within_s: float = _TIMEOUT_S
    ) -> JsonObject:
        """The first picture that fits and still does when nothing has been written for a while."""
        return await self._eventually(lambda: self._lasting(fits), what, within_s)

    async def _lasting(self, fits: Callable[[JsonObject], bool]) -> JsonObject | None:
        seen = await self.picture()
        return seen if fits(seen) and self.proxy.quiet_s >= self.quiet_s else None

    async def await_end(self, manager: Manager, fits: Callable[[JsonObject], bool]) -> bool:
        """Return when the manager has died, or when nothing is left to do; whether it died."""

        async def over() -> bool:
            return manager.process.exit_code() is not None or await self._lasting(fits) is not None

        await self._eventually(over, f"{manager.name} dies or is done")
        return manager.process.exit_code() is not None

    async def _eventually(
        self, probe: Callable[[], Awaitable[T | None]], what: str, within_s: float = _TIMEOUT_S
    ) -> T:
        try:
            return await polling.eventually(probe, what, timeout_s=within_s, poll_s=_POLL_S)
        except RigError as late:
            seen = json.dumps(await self.picture(), indent=1)
            logs = "\n".join(f"{each.name}:\n{each.process.tail(20)}" for each in self.managers)
            raise RigError(f"{late}\nwrites: {self.proxy.writes}\nlast seen: {seen}\n{logs}") from late


def _is_ready(manager: Manager) -> bool:
    return manager.probe("/readyz") == (200, "ok\n")


def picture(schedexts: SchedExts) -> JsonObject:
    """The SchedExt, its DaemonSet and its pods, without what no two runs share."""
    schedext, daemon_set = _found(schedexts), schedexts.daemon_set()
    shown = {
        "schedext": _schedext(schedext) if schedext else None,
        "daemonSet": _daemon_set(daemon_set, schedext) if daemon_set else None,
        "pods": sorted(_pod(each) for each in schedexts.pods()),
    }
    result: JsonObject = json.loads(_CLAIM.sub("CLAIM", json.dumps(shown)))
    return result


def _found(schedexts: SchedExts) -> JsonObject | None:
    try:
        return schedexts.get()
    except ApiError as error:
        if error.status != 404:
            raise
        return None


def _schedext(found: JsonObject) -> JsonObject:
    status = found.get("status", {})
    conditions = [
        {name: value for name, value in each.items() if name != "lastTransitionTime"}
        for each in status.get("conditions", [])
    ]
    return {
        "generation": found["metadata"]["generation"],
        "spec": found["spec"],
        "status": {**status, "conditions": conditions},
    }


def _daemon_set(found: JsonObject, schedext: JsonObject | None) -> JsonObject:
    uid = schedext["metadata"]["uid"] if schedext else ""
    meta = found["metadata"]
    owners = [
        {**owner, "uid": "its own" if owner["uid"] == uid else "another"}
        for owner in meta.get("ownerReferences", [])
    ]
    return {"labels": meta.get("labels"), "ownerReferences": owners, "spec": found["spec"]}


def _pod(found: JsonObject) -> str:
    container, going = found["spec"]["containers"][0], "deletionTimestamp" in found["metadata"]
    return f"{found['spec'].get('nodeName')} {container['image']}{' is going' if going else ''}"


def condition(seen: JsonObject, kind: str) -> JsonObject:
    """That condition of a picture; without any field if nobody has answered it."""
    schedext: JsonObject = seen["schedext"] or {"status": {"conditions": []}}
    return next((each for each in schedext["status"]["conditions"] if each["type"] == kind), {})


@dataclass
class Stage:
    """What all plays share."""

    cluster: ControlPlane
    nodes: dict[str, str]
    at_once: asyncio.Semaphore
    session: aiohttp.ClientSession

    @asynccontextmanager
    async def play(self, name: str, *, user: str | None = None) -> AsyncIterator[Play]:
        """A play of that name; its namespace and its managers go with the block.

        Its managers are known to the API server as that user, or as the one that plays share.
        """
        async with self.at_once, self._session(user) as session:
            namespace = self.cluster.create_namespace(name)
            async with writeproxy.running(self.cluster, session, namespace) as proxy:
                schedexts = SchedExts(self.cluster, namespace)
                play = Play(self.cluster, proxy, schedexts, self.nodes)
                try:
                    yield play
                finally:
                    for manager in play.managers:
                        manager.process.kill()
                    self.cluster.client.delete(f"/api/v1/namespaces/{namespace}")

    def _session(self, user: str | None) -> AbstractAsyncContextManager[aiohttp.ClientSession]:
        return nullcontext(self.session) if user is None else _session(self.cluster, user)


def _session(cluster: ControlPlane, user: str) -> AbstractAsyncContextManager[aiohttp.ClientSession]:
    """Connections of a user who may do what managers may."""
    return writeproxy.upstream(cluster.user(user, group=GROUP))


def perform(
    cluster: ControlPlane,
    nodes: dict[str, str],
    play: Callable[[Stage], Awaitable[None]],
    *,
    at_once: int,
    limit_s: float,
) -> None:
    """Run what is played on a stage for that many plays at a time, in an event loop of its own."""

    async def performed() -> None:
        async with asyncio.timeout(limit_s), _session(cluster, _USER) as session:
            await play(Stage(cluster, nodes, asyncio.Semaphore(at_once), session))

    asyncio.run(performed())
