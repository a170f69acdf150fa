"""Writes the CRD from the API's types, the operator's RBAC from its permissions, and tables about both.

With `--check` it changes nothing, and says which files are out of date.
"""

from __future__ import annotations

import re
import sys
import textwrap
from pathlib import Path

import rbac
import upkeep
import yaml
from crdschema import Schema, root_schema
from fieldtables import reasons, tables
from pagetables import kernel_table, permissions, reasons_by_condition

from schedkit.model.api import schedext, schedextnode
from schedkit.model.api.conditions import WARNINGS, Reason
from schedkit.model.api.schedext import GROUP, KIND, PLURAL, VERSION, SchedExt
from schedkit.model.api.schedextnode import SchedExtNode
from schedkit.model.report.kernel_table import TABLE
from schedkit.sked.permissions import EVERYWHERE, IN_OWN_NAMESPACE

_CRDS = Path("config/crd/bases")
_CHART_FILES = Path("charts/sked/files")
PAGES = "docs/sked/*.md"
_ALERTS = "config/prometheus/rules.yaml"
_PART = re.compile(
    r"(?P<head><!-- generated: (?P<part>\w+) -->\n).*?(?P<tail><!-- end of generated -->)", re.DOTALL
)


class _PlainDumper(yaml.SafeDumper):
    """YAML as people write it: a value that appears twice is written twice."""

    def ignore_aliases(self, data: object) -> bool:  # noqa: ARG002 - the name is PyYAML's
        """Of anything, so that no part refers to another."""
        return True


def crd() -> Schema:
    """The CustomResourceDefinition of SchedExts."""
    names = {"kind": KIND, "plural": PLURAL, "shortNames": ["scx"]}
    version = _version(root_schema(SchedExt, schedext.RULES), _columns(), subresources={"status": {}})
    return _definition(names, version, scope="Namespaced")


def node_crd() -> Schema:
    """That of the reports: the agent writes the whole object, so that its status is no part of its own."""
    plural, kind = schedextnode.PLURAL, schedextnode.KIND
    names = {"kind": kind, "plural": plural, "shortNames": [schedextnode.SHORT_NAME]}
    return _definition(names, _version(root_schema(SchedExtNode, ()), _node_columns()), scope="Cluster")


def _definition(names: Schema, version: Schema, *, scope: str) -> Schema:
    kind, plural = names["kind"], names["plural"]
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": f"{plural}.{GROUP}"},
        "spec": {
            "group": GROUP,
            "names": {
                "kind": kind,
                "listKind": f"{kind}List",
                "plural": plural,
                "singular": kind.lower(),
                "shortNames": names["shortNames"],
            },
            "scope": scope,
            "versions": [version],
        },
    }


def _version(schema: Schema, columns: list[Schema], **parts: Schema) -> Schema:
    return {
        "name": VERSION,
        "served": True,
        "storage": True,
        **parts,
        "additionalPrinterColumns": columns,
        "schema": {"openAPIV3Schema": schema},
    }


def _columns() -> list[Schema]:
    ready = '.status.conditions[?(@.type=="Ready")]'
    return [
        _column("Sched", "string", ".spec.sched"),
        _column("Desired", "integer", ".status.nodes.desired"),
        _column("Attached", "integer", ".status.nodes.attached"),
        _column("PodsReady", "integer", ".status.nodes.podsReady"),
        _column("Ready", "string", f"{ready}.status"),
        _column("Reason", "string", f"{ready}.reason") | {"priority": 1},
        _column("Age", "date", ".metadata.creationTimestamp"),
    ]


def _node_columns() -> list[Schema]:
    """What the kernels of a fleet run, at a glance."""
    last = ".status.exits[-1:]"
    return [
        _column("State", "string", ".status.state"),
        _column("Ops", "string", ".status.ops"),
        _column("Owner", "string", ".status.owner.kind"),
        _column("Eligible", "string", ".status.eligible"),
        _column("Kernel", "string", ".status.kernel.release"),
        _column("Since", "date", ".status.since"),
        _column("Boot", "string", ".status.kernel.bootID") | {"priority": 1},
        _column("Last-Exit", "string", f"{last}.reason") | {"priority": 1},
    ]


def _column(name: str, kind: str, path: str) -> Schema:
    return {"name": name, "type": kind, "jsonPath": path}


def generated(root: Path) -> dict[Path, bytes]:
    """Each generated file with its whole new content."""
    return {file: text.encode() for file, text in texts(root).items()}


def texts(root: Path) -> dict[Path, str]:
    """The text of each."""
    head = "# Generated from src/schedkit/model/api/{}.py and tools/manifests.py by `make manifests`.\n"
    schedexts = head.format("schedext") + _yaml(crd())
    nodes = head.format("schedextnode") + _yaml(node_crd())
    return {
        root / _CRDS / f"{GROUP}_{PLURAL}.yaml": schedexts,
        root / _CHART_FILES / "crd.yaml": schedexts,
        root / _CRDS / f"{GROUP}_{schedextnode.PLURAL}.yaml": nodes,
        root / _CHART_FILES / "node-crd.yaml": nodes,
        root / _CHART_FILES / "alerts.yaml": alerts(root),
        **{root / file: text for file, text in rbac.files().items()},
        **{page: _with_tables(page.read_text()) for page in sorted(root.glob(PAGES))},
    }


def alerts(root: Path) -> str:
    """The groups of alert rules, as the chart includes them and promtool reads them."""
    whole = (root / _ALERTS).read_text()
    head = f"# Generated from {_ALERTS} by `make manifests`.\n"
    return head + textwrap.dedent(whole.partition("\nspec:\n")[2])


def _yaml(value: Schema) -> str:
    return yaml.dump(value, Dumper=_PlainDumper, sort_keys=False, width=110)


def _with_tables(page: str) -> str:
    where = (("every namespace", EVERYWHERE), ("`sked-system`", IN_OWN_NAMESPACE))
    parts = {
        "fields": tables(SchedExt),
        "node_fields": tables(SchedExtNode, of=f" of {schedextnode.KIND}"),
        "reasons": reasons(Reason),
        "conditions": reasons_by_condition(Reason, WARNINGS, page),
        "kernels": kernel_table(TABLE, page),
        "permissions": permissions(where),
    }
    return _PART.sub(lambda found: found["head"] + parts[found["part"]] + found["tail"], page)


if __name__ == "__main__":
    sys.exit(upkeep.run(__doc__, generated, "manifests"))
