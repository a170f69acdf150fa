"""The JSON Schemas that are published: of the catalog, and of every answer of `schedctl`."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import msgspec

from schedkit.model.catalog import Document
from schedkit.schedctl.verbs.catalog.list import Listing
from schedkit.schedctl.verbs.catalog.publish import CatalogPublished
from schedkit.schedctl.verbs.catalog.show import CatalogShown
from schedkit.schedctl.verbs.catalog.update import CatalogUpdated
from schedkit.schedctl.verbs.config import ConfigShown
from schedkit.schedctl.verbs.images.info import ImageInfo
from schedkit.schedctl.verbs.images.mirror import Mirrored
from schedkit.schedctl.verbs.images.package import Packaged
from schedkit.schedctl.verbs.images.pull import ImagePulled
from schedkit.schedctl.verbs.images.verify import Signature
from schedkit.schedctl.verbs.images.versions import Versions
from schedkit.schedctl.verbs.machine.doctor import Diagnosis
from schedkit.schedctl.verbs.machine.launch import SchedulerRun
from schedkit.schedctl.verbs.machine.ps import Processes
from schedkit.schedctl.verbs.machine.reset import SchedulerReset
from schedkit.schedctl.verbs.machine.status_schema import StatusShown
from schedkit.schedctl.verbs.machine.stop import ContainerStopped
from schedkit.schedctl.verbs.machine.supervise import SupervisionEnded
from schedkit.schedctl.verbs.machine.switch import SchedulerSwitched
from schedkit.schedctl.verbs.trust.show import TrustShown
from schedkit.schedctl.verbs.trust.update import TrustUpdated

_DIALECT = "https://json-schema.org/draft/2020-12/schema"
CATALOG = Path("catalog/schema.json")
ANSWERS = Path("docs/schedctl/schemas")
ANSWERED: dict[str, Any] = {
    "run": SchedulerRun,
    "switch": SchedulerSwitched,
    "status": StatusShown,
    "ps": Processes,
    "stop": ContainerStopped,
    "reset": SchedulerReset,
    "pull": ImagePulled,
    "supervise": SupervisionEnded,
    "doctor": Diagnosis,
    "list": Listing,
    "versions": Versions,
    "info": ImageInfo,
    "verify": Signature,
    "trust-show": TrustShown,
    "trust-update": TrustUpdated,
    "mirror": Mirrored,
    "package": Packaged,
    "catalog-show": CatalogShown,
    "catalog-update": CatalogUpdated,
    "catalog-publish": CatalogPublished,
    "config": ConfigShown,
}


def generated(root: Path) -> dict[Path, str]:
    """Each schema's file with its whole new text."""
    answers = {
        root / ANSWERS / f"{verb}.json": _schema(f"schedctl {verb}", kind) for verb, kind in ANSWERED.items()
    }
    return {root / CATALOG: _schema("A catalog of sched_ext schedulers", Document), **answers}


def _schema(title: str, kind: Any) -> str:  # noqa: ANN401 - msgspec takes any type there is
    schema = {"$schema": _DIALECT, "title": title, **msgspec.json.schema(kind)}
    return json.dumps(schema, indent=2) + "\n"
