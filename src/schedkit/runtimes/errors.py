"""What can go wrong with a container runtime; a class for each thing a caller does next.

ContainerRuntimeError
├── NotAnsweringError         look after the runtime; `acted` says whether it may have done what it was asked
│   ├── NoSocketError         install or start it, or name another socket
│   ├── NotPermittedError     become root
│   ├── SilentError           it has not answered in time
│   └── HungUpError           it went away without a word: what may be done twice can be asked again
├── MissingSupportError       install what this runtime needs on our side
├── TooOldError               update the runtime
├── ImageMissingError         load the image first
├── BrokenImageError          the image's bytes are not what they should be: nothing of it is kept
├── DiskFullError             make room
├── NoSuchContainerError      it is gone
├── NameTakenError            remove the container of that name, or choose another
├── StartError                the program could not be started; the runtime says why
├── LogsMissingError          this container's output was never kept
├── StillThereError           it was killed, and is not gone: look at its processes
└── RefusedError              the runtime refused for a reason that has no class here
"""

from __future__ import annotations


class ContainerRuntimeError(Exception):
    """What happened and why, and in `hint` what to do next."""

    def __init__(self, message: str, hint: str) -> None:
        super().__init__(f"{message}; {hint}")
        self.hint = hint


class NotAnsweringError(ContainerRuntimeError):
    """The runtime could not be reached, or fell silent."""

    def __init__(self, message: str, hint: str, *, acted: bool = False) -> None:
        super().__init__(message, hint)
        self.acted = acted  # True: it was asked, and may have done it


class NoSocketError(NotAnsweringError):
    """There is no socket at that path."""


class NotPermittedError(NotAnsweringError):
    """This user may not use the socket."""


class SilentError(NotAnsweringError):
    """It was asked, and the time to answer is over."""


class HungUpError(NotAnsweringError):
    """It took the call, and ended it before the first word of an answer."""


class MissingSupportError(ContainerRuntimeError):
    """A package that only this runtime needs is not installed."""


class TooOldError(ContainerRuntimeError):
    """The runtime lacks what we rely on."""


class ImageMissingError(ContainerRuntimeError):
    """The runtime does not have that image."""


class BrokenImageError(ContainerRuntimeError):
    """An image's manifest, configuration or layer is not what its digest promises."""


class DiskFullError(ContainerRuntimeError):
    """The runtime has no room left."""


class NoSuchContainerError(ContainerRuntimeError):
    """The runtime knows no such container."""


class NameTakenError(ContainerRuntimeError):
    """Another container has that name."""


class StartError(ContainerRuntimeError):
    """The container's program could not be started."""


class LogsMissingError(ContainerRuntimeError):
    """Nobody kept the output of that container."""


class StillThereError(ContainerRuntimeError):
    """A container was killed, and some of it is left."""


class RefusedError(ContainerRuntimeError):
    """The runtime understood, and refused."""


def refusal(runtime: str, doing: str, said: str) -> ContainerRuntimeError:
    """The error for a refusal in the runtime's own words."""
    said = said.strip() or "it gave no reason"
    if "no space left on device" in said:
        hint = "free disk space where it keeps its images, then try again"
        return DiskFullError(f"{runtime} has no disk space left for {doing}: {said}", hint)
    return RefusedError(
        f"{runtime} refused {doing}: {said}", f"its log may say more about it (`{_LOGS[runtime]}`)"
    )


def not_started(runtime: str, container: str, said: str) -> ContainerRuntimeError:
    """The error for a container whose program the runtime could not start."""
    found = refusal(runtime, f"to start {container}", said)
    if isinstance(found, DiskFullError):
        return found
    hint = "check that the image is for this machine, and what its entry point needs"
    return StartError(f"{runtime} could not start {container}: {said}", hint)


def no_such_container(runtime: str, container: str) -> NoSuchContainerError:
    """The error for a name that a runtime does not know."""
    return NoSuchContainerError(
        f"{runtime} has no container {container}", "`schedctl ps` lists the containers"
    )


def still_there(runtime: str, container: str) -> StillThereError:
    """The error for a container that SIGKILL does not end."""
    hint = "check what its processes wait for (`ps -eo pid,stat,wchan:32,args`), then try again"
    return StillThereError(f"{runtime} killed {container}, but it is still there", hint)


_LOGS = {"Podman": "journalctl -u podman", "containerd": "journalctl -u containerd"}
