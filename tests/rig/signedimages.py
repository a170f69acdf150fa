"""The images of the rig's schedulers with signatures of a real cosign, in one layout that needs no registry.

Guests have no network: what they run is signed on the host, in a registry that is gone afterwards.
"""

from __future__ import annotations

from functools import cache as once
from pathlib import Path

from rig import cache, images, processes
from rig.certificates import Authority
from rig.cosign import Cosign
from rig.progress import step
from rig.registry import NAME, Kind, Registry
from schedkit.model.images import parse_reference
from schedkit.oci.copying import copy
from schedkit.oci.layout import Layout
from schedkit.oci.registry import Registry as Source
from schedkit.oci.registry import Settings

SIGNER = "rig.pub"  # the name of the key, by which the policy knows the signer
UNSIGNED = "partial"
_SIGNED = (
    "fifo",
    "alias",
    "bad_init",
    "staller",
    "stubborn",
    "lingering",
    "hotplug",
    "orphan",
    "slow",
)


def layout() -> Path:
    """The folder that `schedctl --layout` reads: signed images, and the one that nobody signed."""
    return _built() / "layout"


def policy() -> Path:
    """The trust policy by which they are verified."""
    return _built() / "policy.yaml"


def reference(name: str) -> str:
    """What an image is called there; `arm64` is the FIFO for another kind of machine."""
    return f"{NAME}/rig/{name}:v1"


def image(name: str) -> Path:
    """The layout of an image alone, without signatures."""
    return images.foreign_scheduler() if name == "arm64" else images.scheduler(name)


def _names() -> tuple[str, ...]:
    return (*_SIGNED, "arm64", UNSIGNED)


@once
def _built() -> Path:
    digests = [images.digest(image(name)) for name in _names()]
    return cache.entry("signed-images", cache.digest(*digests, Path(__file__).read_bytes()), _build)


def _build(folder: Path) -> None:
    scratch = processes.run_folder("signed-images")
    authority = Authority(scratch / "authority")
    cosign = Cosign(3, scratch / "cosign", ca_file=authority.ca_file)
    key = cosign.new_key()
    (folder / SIGNER).write_bytes(key.public.read_bytes())
    (folder / "policy.yaml").write_text(f"keys: [{{path: {SIGNER}}}]\n")
    with (
        step(f"images: signing {len(_names()) - 1} of them"),
        Registry(Kind.REFERRERS, scratch / "registry", authority) as registry,
        Source(Settings(ca_file=authority.ca_file)) as source,
    ):
        for name in _names():
            digest = registry.client.push(image(name), f"rig/{name}", "v1")
            pushed = f"{registry.host}/rig/{name}@{digest}"
            if name != UNSIGNED:
                cosign.sign(pushed, key)
            copy(source, Layout(folder / "layout"), parse_reference(pushed), parse_reference(reference(name)))
