"""What the operator counts, in the text form that Prometheus reads."""

from __future__ import annotations

import platform
from collections import Counter as Tally
from collections.abc import Iterable, Iterator, Mapping

import msgspec
import prometheus_client as prometheus
from aiohttp import web
from prometheus_client.core import GaugeMetricFamily
from prometheus_client.metrics_core import Metric
from prometheus_client.process_collector import ProcessCollector
from prometheus_client.registry import Collector, CollectorRegistry

from schedkit import __version__
from schedkit.kube.controller import Controller
from schedkit.kube.resources import Key
from schedkit.model.api.schedext import ConditionType, NodeCounts, SchedExt, SchedExtStatus
from schedkit.model.report.pod_checks import Bucket
from schedkit.sked.cache import Cluster
from schedkit.sked.trust.rules_folder import RuleFolder

_DURATIONS_S = (0.001, 0.005, 0.02, 0.1, 0.5, 2, 10, 60)
_CONTENT = {"Content-Type": prometheus.CONTENT_TYPE_LATEST}


class Metrics:
    """Told about everything that is counted; `page` shows it."""

    def __init__(self) -> None:
        self.registry = CollectorRegistry()
        self._reconciles = prometheus.Counter(
            "sked_reconciles", "Reconciles by outcome.", ["controller", "outcome"], registry=self.registry
        )
        self._durations = prometheus.Histogram(
            "sked_reconcile_duration_seconds",
            "How long reconciles took.",
            ["controller"],
            buckets=_DURATIONS_S,
            registry=self.registry,
        )
        self._requests = prometheus.Counter(
            "sked_api_requests",
            "Requests to the API server by verb and by the code of the answer; 0: no answer.",
            ["verb", "code"],
            registry=self.registry,
        )
        self._verifications = prometheus.Counter(
            "sked_verifications", "Verdicts of the verifier by kind.", ["outcome"], registry=self.registry
        )
        build = {"version": __version__, "python": platform.python_version()}
        prometheus.Info("sked_build", "Versions of sked and Python.", registry=self.registry).info(build)
        ProcessCollector(registry=self.registry)

    def count_reconcile(self, controller: str, outcome: str, took_s: float) -> None:
        """For `Controller`."""
        self._reconciles.labels(controller, outcome).inc()
        self._durations.labels(controller).observe(took_s)

    def count_request(self, verb: str, path: str, code: int, took_s: float) -> None:  # noqa: ARG002  # too many values to count by
        """For `Client`."""
        self._requests.labels(verb, str(code)).inc()

    def count_verification(self, outcome: str) -> None:
        """For `Verifications`."""
        self._verifications.labels(outcome).inc()

    def watch(self, cluster: Cluster, controllers: Iterable[Controller[Key]], rules: RuleFolder) -> None:
        """Show what these hold, too, whenever somebody asks."""
        self.registry.register(_Gauges(cluster, tuple(controllers), rules))

    async def page(self, _: web.BaseRequest) -> web.Response:
        """All of it."""
        return web.Response(body=prometheus.generate_latest(self.registry), headers=_CONTENT)


class _Gauges(Collector):
    """Numbers that are looked up when asked for."""

    def __init__(self, cluster: Cluster, controllers: tuple[Controller[Key], ...], rules: RuleFolder) -> None:
        self._cluster, self._controllers, self._rules = cluster, controllers, rules

    def describe(self) -> Iterable[Metric]:
        """Nothing before it is asked for."""
        return ()

    def collect(self) -> Iterator[Metric]:
        """As things are now."""
        informers = self._cluster.informers
        depths = {each.name: each.queue.depth for each in self._controllers}
        yield _gauge("sked_queue_depth", "Objects that wait in the queue.", "controller", depths)
        ages = {str(each.resource): each.age_s for each in informers if each.synced}
        yield _gauge("sked_watch_age_seconds", "Seconds since the server last sent data.", "resource", ages)
        sizes = {str(each.resource): len(each.store) for each in informers}
        yield _gauge("sked_cached_objects", "Objects that are held in memory.", "resource", sizes)
        states = Tally(_state(each) for each in self._cluster.schedexts.store)
        yield _gauge("sked_schedexts", "SchedExts by the reason of the Deployed condition.", "state", states)
        yield from self._of_nodes()
        yield from self._of_rules()

    def _of_nodes(self) -> Iterator[Metric]:
        """From each status, where they are counted already: a scrape looks at no node."""
        nodes = GaugeMetricFamily(
            "sked_schedext_nodes", "Nodes of a SchedExt by bucket.", labels=["namespace", "name", "bucket"]
        )
        troubled = GaugeMetricFamily(
            "sked_schedext_troubled_nodes",
            "Nodes of a SchedExt that need attention, by reason.",
            labels=["namespace", "name", "reason"],
        )
        for each in self._cluster.schedexts.store:
            whose, status = [each.metadata.namespace, each.metadata.name], each.status or SchedExtStatus()
            counts = msgspec.structs.asdict(status.nodes or NodeCounts())
            for bucket in Bucket:
                nodes.add_metric([*whose, bucket.value], counts[bucket.value])
            for trouble in status.troubles:
                troubled.add_metric([*whose, trouble.reason], trouble.nodes)
        yield nodes
        yield troubled

    def _of_rules(self) -> Iterator[Metric]:
        rules = self._rules.rules
        readable = {str(rules.mode) if rules else "unknown": float(not self._rules.complaint)}
        yield _gauge(
            "sked_trust_rules_readable",
            "1: the current rules apply; 0: they do not apply, and must be corrected.",
            "mode",
            readable,
        )
        # rules that were deleted are missed for two minutes; that there are none is seen for ever
        written = {rules.place or "nowhere": 1.0} if rules else {}
        yield _gauge("sked_trust_rules_written", "Source of the rules that apply.", "place", written)


def _gauge(name: str, text: str, label: str, values: Mapping[str, float]) -> Metric:
    family = GaugeMetricFamily(name, text, labels=[label])
    for value, amount in values.items():
        family.add_metric([value], amount)
    return family


def _state(schedext: SchedExt) -> str:
    conditions = schedext.status.conditions if schedext.status else ()
    return next((each.reason for each in conditions if each.type == ConditionType.DEPLOYED), "New")
