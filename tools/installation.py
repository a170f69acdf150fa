"""Puts the operator into the cluster that kubectl points at, or takes it out again; `make` calls it.

What is applied is what `kubectl kustomize` makes of `config/`, with the image of `IMG=…`.
"""

from __future__ import annotations

import argparse
import os
import re
import shutil
import sys
from collections.abc import Callable, Mapping
from pathlib import Path

import children
from children import ROOT

from schedkit.model.images.grammar import IMAGE

_PLACEHOLDER = "image: controller:latest\n"
_WITH_IMAGE = ("config/manager/manager.yaml", "config/agent/daemonset.yaml")  # both run the same
_ENFORCING = "--trust-mode=enforce"
_ANSWERS_WITHIN_S = 10
_CRDS = ("crd/schedexts.sked.schedkit.io", "crd/schedextnodes.sked.schedkit.io")
_INTERRUPTED = 130  # as a shell has it


class CannotInstallError(Exception):
    """Something is missing; the message says what to do about it."""


def say(*words: str) -> None:
    """Tell the person at the terminal; stdout is for results."""
    sys.stderr.write(f"{' '.join(words)}\n")
    sys.stderr.flush()


def attempt(action: Callable[[], None]) -> int:
    """Do it, or say in one line why not; the exit code."""
    try:
        action()
    except CannotInstallError as error:
        say(str(error))
        return 1
    except KeyboardInterrupt:
        say("interrupted: a part of it may be done already; the same command again does the rest")
        return _INTERRUPTED
    return 0


def kubectl_program() -> str:
    """The machine's kubectl; without one, that of the tests."""
    found = shutil.which("kubectl")
    if found:
        return found
    from rig.cluster import kubernetes  # noqa: PLC0415 - of no use where kubectl is installed

    return str(kubernetes.binaries() / "kubectl")


def kubectl(*arguments: str, stdin: str | None = None) -> None:
    """Run kubectl in the open, as a person would; its words reach the terminal."""
    say("kubectl", *arguments)
    if code := children.run([kubectl_program(), *arguments], stdin=stdin):
        raise CannotInstallError(f"kubectl ended with {code}: its reason is above")


def asked(*arguments: str) -> str:
    """What kubectl answers."""
    done = children.ask([kubectl_program(), *arguments])
    if done.returncode:
        raise CannotInstallError(done.stderr.strip())
    return done.stdout


def require_kubeconfigs(variable: str) -> None:
    """Refuse what kubectl passes over in silence, only to look for a cluster on this machine."""
    files = [Path(name) for name in variable.split(os.pathsep) if name]
    if files and not any(file.exists() for file in files):
        named = " and ".join(map(str, files))
        remedy = "name a file that is there; `make cluster` starts a cluster and prints one"
        raise CannotInstallError(f"KUBECONFIG names {named}, and nothing is there: {remedy}")


def require_cluster() -> None:
    """Refuse while no cluster answers, before kubectl gets lost in retries."""
    require_kubeconfigs(os.environ.get("KUBECONFIG", ""))
    try:
        asked("get", "--raw", "/readyz", f"--request-timeout={_ANSWERS_WITHIN_S}s")
    except CannotInstallError as error:
        why = str(error).splitlines()[-1]
        remedy = "point KUBECONFIG at a cluster; `make cluster` starts one to play with"
        raise CannotInstallError(f"no cluster answers ({why}): {remedy}") from error


def require_image(image: str) -> str:
    """The image, if it is a reference; refuse to install the placeholder, which nobody can pull."""
    if not image:
        what = "the operator's image is not known"
        raise CannotInstallError(
            f"{what}: add IMG=registry/repository:tag; `make docker-build IMG=…` builds one"
        )
    if not re.fullmatch(IMAGE, image):
        raise CannotInstallError(f"IMG={image} is no image reference: write registry/repository:tag")
    return image


def require_current() -> None:
    """Refuse to install what its sources no longer say; nothing in the checkout is changed for it."""
    if children.run([sys.executable, "tools/manifests.py", "--check"]):
        raise CannotInstallError("nothing was installed: first bring the files above up to date")


def chosen_config() -> str:
    """The folder to install from: who enforces by the manager's flags goes on to do so."""
    where = ("deployment/sked-controller-manager", "--namespace", "sked-system", "--ignore-not-found")
    flags = asked("get", *where, "--output=jsonpath={.spec.template.spec.containers[*].args}")
    if _ENFORCING not in flags:
        return "config/default"
    say(f"the manager that is installed has {_ENFORCING}: it is replaced from config/secure, and keeps it")
    return "config/secure"


def rendered(image: str, config: str = "config/default") -> str:
    """All objects of that folder as YAML, with that image."""
    text = asked("kustomize", config)
    if text.count(_PLACEHOLDER) != len(_WITH_IMAGE):
        where = " and ".join(_WITH_IMAGE)
        raise CannotInstallError(
            f"{config} has not `{_PLACEHOLDER.strip()}` once in each of {where}: put it back there"
        )
    return text.replace(_PLACEHOLDER, f"image: {image}\n")


def install() -> None:
    """The CRDs alone, for a manager that runs elsewhere (`make run`)."""
    require_cluster()
    require_current()
    kubectl("apply", "-k", "config/crd")
    # a manager that starts at once finds them served, and a removal nothing that is still being set up
    kubectl("wait", "--for=condition=Established", "--timeout=60s", *_CRDS)


def uninstall() -> None:
    """Take the CRDs away, and with them every SchedExt and its schedulers."""
    require_cluster()
    kubectl("delete", "--ignore-not-found", "-k", "config/crd")


def deploy() -> None:
    """Everything, with `IMG=…` as the manager and the agents."""
    image = require_image(os.environ.get("OPERATOR_IMAGE", ""))
    require_cluster()
    require_current()
    kubectl("apply", "-f", "-", stdin=rendered(image, chosen_config()))
    say("next: kubectl --namespace sked-system get pods")


def undeploy() -> None:
    """Take everything away, and with the CRDs every SchedExt and its schedulers; first of all who reports."""
    require_cluster()
    kubectl("delete", "--ignore-not-found", "-k", "config/agent")
    kubectl("delete", "--ignore-not-found", "-k", "config/agentless")


def build_installer() -> None:
    """`dist/install.yaml`, for `kubectl apply -f`; no cluster is asked."""
    image = require_image(os.environ.get("OPERATOR_IMAGE", ""))
    require_current()
    text = rendered(image)
    file = ROOT / "dist/install.yaml"
    file.parent.mkdir(exist_ok=True)
    file.write_text(text)
    say(f"wrote {file.relative_to(ROOT)}: kubectl apply -f {file.relative_to(ROOT)}")


ACTIONS: Mapping[str, Callable[[], None]] = {
    "install": install,
    "uninstall": uninstall,
    "deploy": deploy,
    "undeploy": undeploy,
    "build-installer": build_installer,
}


def main() -> int:
    """Do what the command line names."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("action", choices=ACTIONS)
    return attempt(ACTIONS[parser.parse_args().action])


if __name__ == "__main__":
    sys.exit(main())
