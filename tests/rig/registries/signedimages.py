"""The images of the rig's schedulers with signatures of a real cosign, in one layout that needs no registry.

Guests have no network: what they run is signed on the host, in a registry that is gone afterwards.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from functools import cache as once
from pathlib import Path

from rig.base import cache, processes
from rig.base.certificates import Authority
from rig.base.progress import step
from rig.registries.registry import NAME, Kind, Registry
from rig.runtimes import images
from rig.signatures.cosign import Cosign
from schedkit.model.images.references import parse_reference
from schedkit.oci.images.copying import copy
from schedkit.oci.images.layout import Layout
from schedkit.oci.registry.client import Registry as Source
from schedkit.oci.registry.client import Settings

SIGNER = "rig.pub"  # the name of the key, by which the policy knows the signer
UNSIGNED = "partial"
_LAYOUT, _POLICY = "layout", "policy.yaml"
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
    return layout_in(_built())


def policy() -> Path:
    """The trust policy by which they are verified."""
    return policy_in(_built())


def layout_in(folder: Path) -> Path:
    """The layout that `sign` has put there."""
    return folder / _LAYOUT


def policy_in(folder: Path) -> Path:
    """The trust policy that `sign` has put there."""
    return folder / _POLICY


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
    wanted = {reference(name): image(name) for name in _names()}
    digests = [images.digest(each) for each in wanted.values()]
    key = cache.digest(*digests, Path(__file__).read_bytes())
    return cache.entry(
        "signed-images", key, lambda folder: sign(folder, wanted, unsigned=[reference(UNSIGNED)])
    )


def sign(folder: Path, wanted: Mapping[str, Path], *, unsigned: Collection[str] = ()) -> None:
    """Put images by their names into one layout in the folder, signed, and beside it who is trusted."""
    scratch = processes.run_folder("signed-images")
    authority = Authority(scratch / "authority")
    cosign = Cosign(3, scratch / "cosign", ca_file=authority.ca_file)
    key = cosign.new_key()
    (folder / SIGNER).write_bytes(key.public.read_bytes())
    policy_in(folder).write_text(f"keys: [{{path: {SIGNER}}}]\n")
    with (
        step(f"images: signing {len(wanted) - len(unsigned)} of them"),
        Registry(Kind.REFERRERS, scratch / "registry", authority) as registry,
        Source(Settings(ca_file=authority.ca_file)) as source,
    ):
        for number, (name, found) in enumerate(wanted.items()):
            pushed = f"{registry.host}/rig/{number}@{registry.client.push(found, f'rig/{number}', 'v1')}"
            if name not in unsigned:
                cosign.sign(pushed, key)
            copy(source, Layout(layout_in(folder)), parse_reference(pushed), parse_reference(name))
