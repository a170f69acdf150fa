"""The SchedExts that a person names to `stop` or `resume`, and the one annotation that both write."""

from __future__ import annotations

import click
import msgspec

from schedkit.kube.errors import ConflictError, ForbiddenError, KubeError, NotFoundError, UnauthorizedError
from schedkit.kube.resources import Resource
from schedkit.model.api.schedext import GROUP, KIND, PLURAL, VERSION
from schedkit.model.api.schema import ApiType
from schedkit.model.deploy.stops import Stop, annotations_with, annotations_without
from schedkit.sked.plugin.cluster import Cluster
from schedkit.sked.plugin.printing import login_words

_TRIES = 5  # somebody else writes the same object now and then


class _TargetMeta(ApiType, frozen=True):
    name: str = ""
    namespace: str = ""
    uid: str = ""
    resource_version: str = ""
    annotations: dict[str, str] = msgspec.field(default_factory=dict)


class Target(ApiType, frozen=True):
    """A SchedExt, whatever its spec says: an older plugin stops what a newer operator runs."""

    metadata: _TargetMeta = _TargetMeta()

    @property
    def full_name(self) -> str:
        """Its namespace and name."""
        return f"{self.metadata.namespace}/{self.metadata.name}"


_TARGETS = Resource(GROUP, VERSION, PLURAL, KIND, Target)


# Which are meant

_OPTIONS = (
    click.argument("names", nargs=-1, metavar="[NAME]..."),
    click.option(
        "--all",
        "is_all",
        is_flag=True,
        help="All SchedExts, or all of the namespace that -n names.",
    ),
    click.option("-n", "--namespace", help="Namespace of the SchedExts. The context's if left out."),
)


def with_targets(command: click.decorators.FC) -> click.decorators.FC:
    """The arguments that name them, for a verb."""
    for each in reversed(_OPTIONS):
        command = each(command)
    return command


def demand_targets(names: tuple[str, ...], *, is_all: bool) -> None:
    """Either some are named, or all are meant."""
    if is_all == bool(names):
        raise click.UsageError("Name SchedExts, or give --all.")


def chosen_targets(
    cluster: Cluster, names: tuple[str, ...], namespace: str | None, *, is_all: bool
) -> list[Target]:
    """Those that are meant; one that does not exist is a mistake of the caller's."""
    if is_all:
        return list(cluster.every(_TARGETS, namespace))
    place = namespace or cluster.namespace
    found = {each: cluster.find(_TARGETS, each, place) for each in names}
    if absent := [name for name, each in found.items() if each is None]:
        raise click.UsageError(
            f"there is no SchedExt {', '.join(absent)} in the namespace {place}: "
            "`kubectl sked get` lists them; -n names another namespace"
        )
    return [each for each in found.values() if each is not None]


# What is written


def annotate(cluster: Cluster, schedext: Target, why: Stop | None) -> bool:
    """Write the stop, or take it away; everybody else's annotations stay. False: it was deleted meanwhile."""
    meta = schedext.metadata
    for attempt in range(_TRIES):
        found = cluster.find(_TARGETS, meta.name, meta.namespace)
        if found is None:
            return False
        try:
            cluster.change(_TARGETS, _patch(found, why), meta.name, meta.namespace)
        except NotFoundError:
            return False
        except ConflictError:
            if attempt == _TRIES - 1:
                raise
        else:
            return True
    raise AssertionError("the last attempt succeeds or raises")


def _patch(found: Target, why: Stop | None) -> list[dict[str, object]]:
    meta = found.metadata
    wanted = annotations_with(why, meta.annotations) if why else annotations_without(meta.annotations)
    return [
        {"op": "replace", "path": "/metadata/resourceVersion", "value": meta.resource_version},
        {"op": "add", "path": "/metadata/annotations", "value": wanted},
    ]


# What fails


class Gaps:
    """What could not be done or seen; the rest goes on."""

    def __init__(self) -> None:
        self.rights: dict[str, None] = {}
        self.problems: dict[str, None] = {}

    def __enter__(self) -> None:
        """Begin something that may fail."""

    def __exit__(self, _: object, error: BaseException | None, __: object) -> bool:
        """Note a failure of the API server, and go on behind the block."""
        if isinstance(error, UnauthorizedError):
            self.problems[login_words(error)] = None
        elif isinstance(error, ForbiddenError):
            self.rights[str(error)] = None
        elif isinstance(error, KubeError):
            self.problems[str(error)] = None
        return isinstance(error, KubeError)
