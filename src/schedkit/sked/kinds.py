"""The kinds of objects that sked reads or writes, each decoded into the few fields that matter to it."""

from __future__ import annotations

from schedkit.kube.resources import Resource
from schedkit.model.api import schedextnode
from schedkit.model.api.daemonset import DaemonSet
from schedkit.model.api.nodes import Node
from schedkit.model.api.pods import AgentPod, Event, Pod
from schedkit.model.api.reports import Report
from schedkit.model.api.schedext import GROUP, KIND, PLURAL, VERSION, SchedExt
from schedkit.model.api.schedextnode import SchedExtNode

SCHEDEXTS = Resource(GROUP, VERSION, PLURAL, KIND, SchedExt)
DAEMON_SETS = Resource("apps", "v1", "daemonsets", "DaemonSet", DaemonSet)
PODS = Resource("", "v1", "pods", "Pod", Pod)
AGENT_PODS = Resource("", "v1", "pods", "Pod", AgentPod, label="agent pods")
NODES = Resource("", "v1", "nodes", "Node", Node, namespaced=False)
SCHEDEXT_NODES = Resource(
    GROUP, VERSION, schedextnode.PLURAL, schedextnode.KIND, SchedExtNode, namespaced=False
)
REPORTS = Resource(GROUP, VERSION, schedextnode.PLURAL, schedextnode.KIND, Report, namespaced=False)
EVENTS = Resource("", "v1", "events", "Event", Event)
