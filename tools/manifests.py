"""Writes the CRD from the API's types, the operator's RBAC from its permissions, and tables about both.

With `--check` it changes nothing, and says which files are out of date.
"""

from __future__ import annotations

import re
import sys
from pathlib import Path

import rbac
import upkeep
import yaml
from crdschema import Schema, root_schema
from fieldtables import reasons, tables
from pagetables import permissions, reasons_by_condition

from schedkit.model.api import schedext
from schedkit.model.api.conditions import WARNINGS, Reason
from schedkit.model.api.schedext import GROUP, KIND, PLURAL, VERSION, SchedExt
from schedkit.sked.permissions import EVERYWHERE, IN_OWN_NAMESPACE

CRD = Path("config/crd/bases") / f"{GROUP}_{PLURAL}.yaml"
CHART_CRD = Path("charts/sked/files/crd.yaml")
PAGES = "docs/sked/*.md"
_PART = re.compile(
    r"(?P<head><!-- generated: (?P<part>\w+) -->\n).*?(?P<tail><!-- end of generated -->)", re.DOTALL
)


class _PlainDumper(yaml.SafeDumper):
    """YAML as people write it: a value that appears twice is written twice."""

    def ignore_aliases(self, data: object) -> bool:  # noqa: ARG002 - the name is PyYAML's
        """Of anything, so that no part refers to another."""
        return True


def crd() -> Schema:
    """The CustomResourceDefinition."""
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": f"{PLURAL}.{GROUP}"},
        "spec": {
            "group": GROUP,
            "names": {
                "kind": KIND,
                "listKind": f"{KIND}List",
                "plural": PLURAL,
                "singular": KIND.lower(),
                "shortNames": ["scx"],
            },
            "scope": "Namespaced",
            "versions": [_version()],
        },
    }


def _version() -> Schema:
    return {
        "name": VERSION,
        "served": True,
        "storage": True,
        "subresources": {"status": {}},
        "additionalPrinterColumns": _columns(),
        "schema": {"openAPIV3Schema": root_schema(SchedExt, schedext.RULES)},
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


def _column(name: str, kind: str, path: str) -> Schema:
    return {"name": name, "type": kind, "jsonPath": path}


def generated(root: Path) -> dict[Path, bytes]:
    """Each generated file with its whole new content."""
    return {file: text.encode() for file, text in texts(root).items()}


def texts(root: Path) -> dict[Path, str]:
    """The text of each."""
    head = "# Generated from src/schedkit/model/api/schedext.py and tools/manifests.py by `make manifests`.\n"
    definition = head + yaml.dump(crd(), Dumper=_PlainDumper, sort_keys=False, width=110)
    return {
        root / CRD: definition,
        root / CHART_CRD: definition,
        **{root / file: text for file, text in rbac.files().items()},
        **{page: _with_tables(page.read_text()) for page in sorted(root.glob(PAGES))},
    }


def _with_tables(page: str) -> str:
    where = (("every namespace", EVERYWHERE), ("`sked-system`", IN_OWN_NAMESPACE))
    parts = {
        "fields": tables(SchedExt),
        "reasons": reasons(Reason),
        "conditions": reasons_by_condition(Reason, WARNINGS, page),
        "permissions": permissions(where),
    }
    return _PART.sub(lambda found: found["head"] + parts[found["part"]] + found["tail"], page)


if __name__ == "__main__":
    sys.exit(upkeep.run(__doc__, generated, "manifests"))
