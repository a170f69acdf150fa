"""Specs of SchedExts for property tests: every field, alone and together, valid or nearly so."""

from __future__ import annotations

from collections.abc import Mapping

from hypothesis import strategies as st

from rig.cluster.kubeclient import JsonObject

_DIGEST = "sha256:" + "0123456789abcdef" * 4
_LABELS = ("pool", "example.com/pool", "kubernetes.io/arch", "a.b_c-D")
_VALUES = ("a", "amd64", "1", "x.y_z-1")

images = st.sampled_from(
    ["scx_rusty", "ghcr.io/schedkit/scx_rusty:latest", "ghcr.io/x/y:v1", f"ghcr.io/x/y@{_DIGEST}"]
)
_tuples = st.lists(st.sampled_from(_VALUES), min_size=1, max_size=3, unique=True)
_requirements = st.one_of(
    st.fixed_dictionaries(
        {"key": st.sampled_from(_LABELS), "operator": st.sampled_from(["In", "NotIn"]), "values": _tuples}
    ),
    st.fixed_dictionaries(
        {"key": st.sampled_from(_LABELS), "operator": st.sampled_from(["Exists", "DoesNotExist"])}
    ),
    st.fixed_dictionaries(
        {
            "key": st.sampled_from(_LABELS),
            "operator": st.sampled_from(["Gt", "Lt"]),
            "values": st.sampled_from([["0"], ["42"]]),
        }
    ),
)
_field_requirements = st.fixed_dictionaries(
    {
        "key": st.just("metadata.name"),
        "operator": st.sampled_from(["In", "NotIn"]),
        "values": st.sampled_from([["node-1"], ["node-2.example.com"]]),
    }
)
_terms = st.fixed_dictionaries(
    {},
    optional={
        "matchExpressions": st.lists(_requirements, max_size=2),
        "matchFields": st.lists(_field_requirements, max_size=1),
    },
)
_affinities = st.fixed_dictionaries(
    {},
    optional={
        "nodeAffinity": st.fixed_dictionaries(
            {},
            optional={
                "requiredDuringSchedulingIgnoredDuringExecution": st.fixed_dictionaries(
                    {"nodeSelectorTerms": st.lists(_terms, min_size=1, max_size=3)}
                ),
                "preferredDuringSchedulingIgnoredDuringExecution": st.lists(
                    st.fixed_dictionaries({"weight": st.integers(1, 100), "preference": _terms}), max_size=2
                ),
            },
        )
    },
)
_tolerations = st.sampled_from(
    [
        {"operator": "Exists"},
        {"key": "gpu"},
        {"key": "example.com/gpu", "operator": "Equal", "value": "yes", "effect": "NoSchedule"},
        {"key": "gpu", "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": 60},
        {"key": "gpu", "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": 0},
    ]
)
_variables: st.SearchStrategy[JsonObject] = st.sampled_from(
    [
        {"name": "EMPTY"},
        {"name": "RUST_LOG", "value": "debug"},
        {"name": "REF", "value": "$(RUST_LOG)"},
        {"name": "NODE", "valueFrom": {"fieldRef": {"fieldPath": "spec.nodeName"}}},
        {"name": "SECRET", "valueFrom": {"secretKeyRef": {"name": "s", "key": "k", "optional": True}}},
        {"name": "CONFIG", "valueFrom": {"configMapKeyRef": {"name": "c", "key": "k.txt"}}},
    ]
)
_secrets: st.SearchStrategy[JsonObject] = st.sampled_from([{"name": "a"}, {"name": "b.c"}])
_small = st.sampled_from([0, 1, "0", "1m", "100m", "0.1", "1e-1", "1.0005", "64Mi", "65536Ki", "0.0001"])
_large = st.sampled_from([10**10, "10Gi", "10240Mi", "1e10", "11G", "9.5Gi"])
_resource_names = st.sampled_from(["cpu", "memory", "ephemeral-storage"])
_resources = st.fixed_dictionaries(
    {},
    optional={
        "requests": st.dictionaries(_resource_names, _small),
        "limits": st.dictionaries(_resource_names, _large),
    },
)
_strategies = st.sampled_from(
    [
        {},
        {"type": "RollingUpdate"},
        {"type": "OnDelete"},
        {"rollingUpdate": {}},
        {"rollingUpdate": {"maxUnavailable": 3}},
        {"rollingUpdate": {"maxUnavailable": "10%", "maxSurge": 0}},
        {"rollingUpdate": {"maxUnavailable": "100%", "maxSurge": "0%"}},
    ]
)


def _unique(items: list[JsonObject]) -> object:
    """Each name once."""
    return list({item["name"]: item for item in items}.values())


FIELDS: Mapping[str, st.SearchStrategy[object]] = {
    "args": st.lists(st.sampled_from(["--fast", "", "-v", "$(NODE)", "two words"]), max_size=3),
    "env": st.lists(_variables, max_size=3).map(_unique),
    "resources": _resources,
    "imagePullPolicy": st.sampled_from(["Always", "IfNotPresent", "Never"]),
    "imagePullSecrets": st.lists(_secrets, max_size=2).map(_unique),
    "priorityClassName": st.sampled_from(["", "system-node-critical"]),
    "hostPID": st.booleans(),
    "hostMounts": st.lists(st.sampled_from(["Boot", "Stats", "Tracing"]), unique=True),
    "nodeSelector": st.dictionaries(st.sampled_from(_LABELS), st.sampled_from((*_VALUES, "")), max_size=3),
    "tolerations": st.lists(_tolerations, max_size=3),
    "affinity": _affinities,
    "securityProfile": st.sampled_from(["Privileged", "LeastPrivilege"]),
    "suspend": st.booleans(),
    "updateStrategy": _strategies,
}

# any spec that the API server accepts
specs: st.SearchStrategy[JsonObject] = st.fixed_dictionaries({"sched": images}, optional=dict(FIELDS))
