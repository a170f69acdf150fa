"""Whether the process lives, and whether what it knows is current. Neither depends on holding the lease."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Protocol

from aiohttp import web

from schedkit.sked.http.serving import Handler, plain

_BEAT_S = 1.0
_MISSED_S = 30.0  # a heartbeat that late: something holds the event loop
# a watch of a quiet kind proves that it lives when it ends, after four minutes
_STALE_S = 300.0


class Watched(Protocol):
    """What a probe asks an informer."""

    @property
    def resource(self) -> object:
        """Of which kind it holds everything."""

    @property
    def synced(self) -> bool:
        """Whether it has held everything at least once."""

    @property
    def age_s(self) -> float:
        """How long ago that was last known to be current."""


class Health:
    """Answers probes; `run` is the heartbeat."""

    def __init__(
        self,
        informers: Sequence[Watched],
        *,
        missed_s: float = _MISSED_S,
        stale_s: float = _STALE_S,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._informers, self._missed_s, self._stale_s, self._clock = informers, missed_s, stale_s, clock
        self._beat_at = clock()

    @property
    def routes(self) -> Mapping[str, Handler]:
        """Where a kubelet asks."""
        return {"/healthz": self._healthz, "/readyz": self._readyz}

    async def run(self) -> None:
        """Beat until cancelled."""
        while True:
            self._beat_at = self._clock()
            await asyncio.sleep(_BEAT_S)

    async def _healthz(self, _: web.BaseRequest) -> web.Response:
        """An API server that is away is no reason to restart this process."""
        late_s = self._clock() - self._beat_at
        is_late = late_s > self._missed_s
        return plain(500, f"no heartbeat for {late_s:.0f} s") if is_late else plain(200, "ok")

    async def _readyz(self, _: web.BaseRequest) -> web.Response:
        missing = "; ".join(self._complaints())
        return plain(503, missing) if missing else plain(200, "ok")

    def _complaints(self) -> Iterator[str]:
        for informer in self._informers:
            if not informer.synced:
                yield f"{informer.resource} have not been listed yet"
            elif informer.age_s > self._stale_s:
                yield f"{informer.resource} were last seen {informer.age_s:.0f} s ago"
