"""What pods run, as far as they or their nodes say it."""

from __future__ import annotations

from schedkit.model.objects import CONTAINER
from schedkit.model.observed import Observation, Pod


def running_digests(observation: Observation) -> frozenset[str]:
    """Of the images that our pods were bound to or pulled; runtimes that name no digest say nothing."""
    images = set(map(_image_of, observation.pods)) if observation.is_ours else set()
    return frozenset(digest for _, at, digest in (image.rpartition("@") for image in images) if at)


def _image_of(pod: Pod) -> str:
    """By the digest that the pod itself names, else by the one that its node says, whatever came of it.

    A container that has ended has done what it was made for, and may do it again.
    """
    for asked in pod.spec.containers:
        if asked.name == CONTAINER and "@" in asked.image:
            return asked.image
    for each in pod.status.container_statuses:
        if each.name == CONTAINER:
            return each.image_id
    return ""
