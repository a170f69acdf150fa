"""The JSON Schemas that are published: of the catalog, and of every answer of `schedctl`."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import msgspec

from schedkit.model.catalog import Document
from schedkit.schedctl.catalog_publish import CatalogPublished
from schedkit.schedctl.catalog_show import CatalogShown
from schedkit.schedctl.catalog_update import CatalogUpdated
from schedkit.schedctl.config import ConfigShown
from schedkit.schedctl.doctor import Diagnosis
from schedkit.schedctl.info import ImageInfo
from schedkit.schedctl.launching import SchedulerRun
from schedkit.schedctl.listing import Listing
from schedkit.schedctl.mirror import Mirrored
from schedkit.schedctl.package import Packaged
from schedkit.schedctl.ps import Processes
from schedkit.schedctl.pull import ImagePulled
from schedkit.schedctl.reset import SchedulerReset
from schedkit.schedctl.status import StatusShown
from schedkit.schedctl.stop import ContainerStopped
from schedkit.schedctl.supervise import SupervisionEnded
from schedkit.schedctl.switch import SchedulerSwitched
from schedkit.schedctl.trust_show import TrustShown
from schedkit.schedctl.trust_update import TrustUpdated
from schedkit.schedctl.verify import Signature
from schedkit.schedctl.versions import Versions

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
