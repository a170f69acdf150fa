"""Looking at a machine: its kernel, and our containers in every runtime that answers.

`status` imports this: nothing here may import msgspec, a network or cryptography, and runtimes only if there
are any.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from schedkit.model.host.containers import Container
from schedkit.model.host.snapshot import Snapshot
from schedkit.model.host.status_words import should_wait
from schedkit.schedctl.settings.table import DRIVERS

if TYPE_CHECKING:
    from schedkit.runtimes.errors import ContainerRuntimeError
    from schedkit.runtimes.port import Runtime
    from schedkit.schedctl.change.kernel_port import Kernel

_POLL_S = 0.05


def look(kernel: Kernel, runtimes: Mapping[str, Runtime], *, is_thorough: bool = False) -> Snapshot:
    """Ask the runtimes, then the kernel once it is settled: what it runs may be in a container just seen.

    What starts another scheduler is decided by a thorough look: it shows what is left of ejected ones.
    """
    answers = {driver: _containers(runtime) for driver, runtime in runtimes.items()}
    errors = {each: answer for each, answer in answers.items() if not isinstance(answer, tuple)}
    found = [each for answer in answers.values() if isinstance(answer, tuple) for each in answer]
    return settled(kernel, is_thorough=is_thorough)._replace(
        containers=tuple(found) if len(errors) < len(answers) else None,
        # one whose socket is missing may have been stopped, or listen elsewhere: its containers live on
        silent=tuple(each for each in DRIVERS if each in errors or each not in answers),
        problems=tuple(str(error) for error in errors.values() if _is_there(error)),
    )


def _containers(runtime: Runtime) -> tuple[Container, ...] | ContainerRuntimeError:
    from schedkit.runtimes.errors import ContainerRuntimeError  # noqa: PLC0415 - see above

    try:
        return runtime.containers()
    except ContainerRuntimeError as error:
        return error


def _is_there(silent: ContainerRuntimeError) -> bool:
    """Whether the runtime that gave no answer has a socket."""
    from schedkit.runtimes.errors import NoSocketError  # noqa: PLC0415 - as above

    return not isinstance(silent, NoSocketError)


def settled(kernel: Kernel, *, is_thorough: bool = False) -> Snapshot:
    """What the kernel runs and whose it is; a kernel between schedulers is given a few seconds.

    Every process is looked into once at most; if `is_thorough`, also while no scheduler is attached.
    """
    began = kernel.now()
    seen = kernel.observe()
    while should_wait(seen, waited_s=kernel.now() - began):
        kernel.sleep(_POLL_S)
        seen = kernel.observe()
    return kernel.observe(is_thorough=True) if is_thorough and seen.held is None else seen
