"""What pods run, as far as they or their nodes say it."""

from __future__ import annotations

from schedkit.model.api.pods import Pod
from schedkit.model.deploy.observation import Observation
from schedkit.model.deploy.render import CONTAINER


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
