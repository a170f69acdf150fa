"""What pods run, as far as they or their nodes say it, and who vouches for that."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from schedkit.model.api.pods import Pod
from schedkit.model.deploy.observation import Observation
from schedkit.model.deploy.render import CONTAINER
from schedkit.model.deploy.verdicts import Trusted


@dataclass(frozen=True, slots=True)
class Vouching:
    """For each digest that pods run the newest good verdict about it; None: nobody is known to vouch."""

    by_digest: Mapping[str, Trusted | None] = field(default_factory=dict)

    @property
    def unvouched(self) -> str | None:
        """One that nobody is known to vouch for, the same at each look; None: there is none."""
        return min((digest for digest, by in self.by_digest.items() if by is None), default=None)

    @property
    def signers(self) -> frozenset[str]:
        """Who signed what pods run, as far as that is known."""
        return frozenset(by.verified.signer for by in self.by_digest.values() if by is not None)


def vouching_for(observation: Observation) -> Vouching:
    """By the verdict about what the image's name means, and those about what it meant before."""
    verdict, earlier = observation.verdict, tuple(reversed(observation.vouched))
    good = (verdict, *earlier) if isinstance(verdict, Trusted) else earlier
    running = running_digests(observation)
    return Vouching({each: next((word for word in good if word.covers(each)), None) for each in running})


def running_digests(observation: Observation) -> frozenset[str]:
    """Of the images that our pods were bound to or run, or ran last.

    What is in a runtime without a manifest, as it was loaded from a file, has a name of its node's own. That
    is here as it stands: nobody has signed a thing of that name.
    """
    images = set(map(_image_of, observation.pods)) if observation.is_ours else set()
    return frozenset(image.rpartition("@")[2] for image in images if image)


def _image_of(pod: Pod) -> str:
    """By the digest that the pod itself names, else by the one that its node says, whatever came of it.

    A container that has ended has done what it was made for, and may do it again.
    """
    for asked in pod.spec.containers:
        if asked.name == CONTAINER and "@" in asked.image:
            return asked.image
    for each in pod.status.container_statuses:
        if each.name == CONTAINER:
            return each.image_id  # empty: nothing is pulled yet
    return ""
