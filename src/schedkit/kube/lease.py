"""One leader among several processes, and the proof before each request that it still is one.

A Lease names its holder and for how long. Others take it over when they have not seen it renewed for that
long, by their own clock. The holder must therefore stop earlier by its own: `fence` keeps back every request
after `act_s` since the last renewal *was sent*, and bounds the ones before so that they end within the lease.
The clock runs on while the machine is suspended, and while the process is frozen.
"""

from __future__ import annotations

import asyncio
import datetime as dt
import math
import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Any, TypeAlias

import msgspec
import structlog

from schedkit.kube.backoff import Patience
from schedkit.kube.client import Client
from schedkit.kube.errors import (
    AlreadyExistsError,
    ConflictError,
    FencedError,
    KubeError,
    NotFoundError,
)
from schedkit.kube.resources import Metadata, Resource, timestamp

_log = structlog.get_logger()

# Requests end within this part of the lease; the rest is for clocks that do not run equally fast.
_REQUESTS_END = 0.9
_RELEASE_ATTEMPTS = 3

Clock: TypeAlias = Callable[[], float]


class LeaseLostError(KubeError):
    """Another process leads, or may do so soon."""


def boot_time() -> float:
    """Seconds on a clock that never jumps and does not stop in suspend."""
    return time.clock_gettime(time.CLOCK_BOOTTIME)


class LeaseSpec(msgspec.Struct, gc=False, rename="camel"):
    """What a Lease says."""

    holder_identity: str | None = None
    lease_duration_seconds: int | None = None
    renew_time: str | None = None
    lease_transitions: int | None = None


class Lease(msgspec.Struct, gc=False):
    """A Lease as the API has it."""

    metadata: Metadata | None = None
    spec: LeaseSpec | None = None


LEASES = Resource("coordination.k8s.io", "v1", "leases", "Lease", Lease)


@dataclass(frozen=True, slots=True)
class Terms:
    """The times of a lease; each is well below the one before."""

    lease_s: float = 15  # others wait this long after the last renewal they saw
    act_s: float = 10  # the holder sends nothing later than this after its last renewal
    retry_s: float = 2  # between renewals, and between looks at somebody else's lease

    def __post_init__(self) -> None:
        if not 0 < 2 * self.retry_s <= self.act_s < _REQUESTS_END * self.lease_s:
            raise ValueError(
                f"{self} does not work: act_s must be at least twice retry_s, "
                f"and below {_REQUESTS_END} times lease_s"
            )


class Elector:
    """One process's part in the election for one Lease; no two processes may have the same identity."""

    def __init__(
        self,
        client: Client,
        *,
        name: str,
        namespace: str,
        identity: str,
        terms: Terms | None = None,
        release_s: float = 3,
        clock: Clock = boot_time,
    ) -> None:
        self.name, self.namespace, self.identity = name, namespace, identity
        self.holder = ""  # who holds it as far as we saw; "": nobody
        self._terms, self._release_s, self._clock = terms or Terms(), release_s, clock
        # one attempt each: a renewal that is repeated by itself would hide how old it is
        one = Patience(attempts=1, attempt_s=self._terms.retry_s * 1.5, total_s=self._terms.retry_s * 1.5)
        self._client = client.fenced(lambda: self._terms.lease_s, patience=one)
        self._seen: Lease | None = None  # None: there is none, or we have not looked
        self._seen_at = clock()
        self._lasts_s = self._terms.lease_s  # after it was seen, by its own word
        self._renewed_at = float("-inf")  # when the renewal that succeeded last was sent

    # What others ask

    @property
    def leads(self) -> bool:
        """Whether this process may act now."""
        return self._clock() < self._renewed_at + self._terms.act_s

    @property
    def age_s(self) -> float:
        """Seconds since the lease was last seen to change."""
        return self._clock() - self._seen_at

    def fence(self) -> float:
        """For `Client.fenced`: seconds a request may take; raises when none may be sent."""
        if not self.leads:
            raise FencedError(
                f"{self.identity} no longer holds the lease {self.namespace}/{self.name}: nothing was sent"
            )
        return self._renewed_at + self._terms.lease_s * _REQUESTS_END - self._clock()

    # Leading

    async def lead(self, work: Callable[[], Awaitable[None]]) -> None:
        """Wait for the lease, then do the work to its end; raise `LeaseLostError` if it is lost before.

        The work is over, finished or cancelled, before the lease is given back.
        """
        await self.acquire()
        keeper = asyncio.ensure_future(self.keep())
        worker = asyncio.ensure_future(work())
        try:
            await asyncio.wait({keeper, worker}, return_when=asyncio.FIRST_COMPLETED)
            if keeper.done():
                keeper.result()
            worker.result()
        finally:
            keeper.cancel()
            worker.cancel()
            await asyncio.gather(keeper, worker, return_exceptions=True)
            await self.release()

    async def acquire(self) -> None:
        """Return once this process holds the lease."""
        while True:
            if await self._try("lease_not_reached"):
                break
            await asyncio.sleep(self._terms.retry_s)
        _log.info("lease_acquired", lease=self.name, namespace=self.namespace, holder=self.identity)

    async def keep(self) -> None:
        """Renew for ever; raise `LeaseLostError` when it was taken or could not be renewed in time.

        A Lease that somebody deleted is made anew; until it is there this process does not act.
        """
        while True:
            await asyncio.sleep(self._terms.retry_s)
            if not self.leads:
                raise LeaseLostError(f"the lease {self.namespace}/{self.name} {self._why_lost()}")
            if not await self._try("lease_not_renewed") and self.holder != self.identity:
                self._stop_acting()
                raise LeaseLostError(f"the lease {self.namespace}/{self.name} was taken by {self.holder!r}")

    def _why_lost(self) -> str:
        if self._renewed_at == float("-inf"):
            return "was deleted and could not be created again"
        return f"was not renewed for {self._terms.act_s:.0f} s"

    async def release(self) -> None:
        """Stop acting, and let another lead at once; best effort, the lease ends by itself anyway.

        It takes `release_s` at most.
        """
        held = self.leads
        self._stop_acting()
        if not held:
            return
        try:
            async with asyncio.timeout(self._release_s):
                await self._give_back()
        except (KubeError, TimeoutError) as error:
            reason = str(error) or f"the server did not answer for {self._release_s:.0f} s"
            _log.warning("lease_not_released", lease=self.name, reason=reason)

    async def _give_back(self) -> None:
        for _ in range(_RELEASE_ATTEMPTS):
            if self._seen is None or self.holder != self.identity:
                return
            try:
                self._saw(await self._write(self._seen, holder="", lease_s=1))
            except ConflictError:
                await self._look()  # a renewal was under way when the work ended, and came first

    # Steps

    async def _try(self, complaint: str) -> bool:
        """Take or renew the lease if that may be done; whether it was."""
        try:
            return await self._step()
        except (ConflictError, AlreadyExistsError):
            await self._look_again()
        except KubeError as error:
            _log.warning(complaint, lease=self.name, namespace=self.namespace, reason=str(error))
        return False

    async def _step(self) -> bool:
        if self.holder != self.identity or self._seen is None:
            await self._look()
        if not self._is_free():
            return False
        sent_at = self._clock()
        self._saw(await self._take())
        self._renewed_at = sent_at
        return True

    async def _take(self) -> Lease:
        """Make it ours, or keep it so."""
        if self._seen is not None:
            try:
                return await self._write(self._seen, holder=self.identity, lease_s=self._terms.lease_s)
            except NotFoundError:
                self._stop_acting()  # somebody deleted it, and another may have made one
                self._seen = None
        return await self._client.create(LEASES, self._body(transitions=0), self.namespace)

    def _stop_acting(self) -> None:
        self._renewed_at = float("-inf")

    async def _look_again(self) -> None:
        """Somebody else wrote to it: find out who holds it now."""
        try:
            await self._look()
        except KubeError as error:
            _log.warning("lease_not_reached", lease=self.name, reason=str(error))

    async def _look(self) -> None:
        try:
            self._saw(await self._client.get(LEASES, self.name, self.namespace))
        except NotFoundError:
            self._seen = None  # whoever held it may act until it finds out

    def _saw(self, lease: Lease) -> None:
        """Note when it changed: by our own clock, since clocks of other machines may be wrong."""
        before, self._seen = self._seen, lease
        if before is None or _version(before) != _version(lease):
            self._seen_at = self._clock()
        spec = lease.spec or LeaseSpec()
        self._lasts_s = spec.lease_duration_seconds or self._terms.lease_s
        holder = spec.holder_identity or ""
        if holder not in {self.holder, self.identity, ""}:
            _log.info(
                "lease_held_elsewhere",
                lease=self.name,
                namespace=self.namespace,
                holder=holder,
                age_s=_age_s(lease),
            )
        self.holder = holder

    def _is_free(self) -> bool:
        return self.holder in {"", self.identity} or self.age_s > self._lasts_s

    async def _write(self, lease: Lease, *, holder: str, lease_s: float) -> Lease:
        """Change that very version of it, and only what is ours to change."""
        transitions = (lease.spec.lease_transitions if lease.spec else None) or 0
        taken = holder == self.identity and self.holder != self.identity
        body = self._body(holder=holder, lease_s=lease_s, transitions=transitions + taken, acquired=taken)
        body["metadata"]["resourceVersion"] = _version(lease)
        return await self._client.patch(LEASES, body, self.name, self.namespace)

    def _body(
        self,
        *,
        holder: str | None = None,
        lease_s: float | None = None,
        transitions: int = 0,
        acquired: bool = True,
    ) -> dict[str, Any]:
        now = timestamp(dt.datetime.now(dt.UTC))
        spec = {
            "holderIdentity": self.identity if holder is None else holder,
            "leaseDurationSeconds": math.ceil(lease_s or self._terms.lease_s),
            "renewTime": now,
            "leaseTransitions": transitions,
            **({"acquireTime": now} if acquired else {}),
        }
        return {"metadata": {"name": self.name}, "spec": spec}


def _age_s(lease: Lease) -> int | None:
    """Seconds since its holder last renewed it, by both clocks; None: the holder did not say."""
    renewed = lease.spec.renew_time if lease.spec else None
    try:
        return round((dt.datetime.now(dt.UTC) - dt.datetime.fromisoformat(renewed or "")).total_seconds())
    except (ValueError, TypeError):
        return None


def _version(lease: Lease) -> str | None:
    return lease.metadata.resource_version if lease.metadata else None
