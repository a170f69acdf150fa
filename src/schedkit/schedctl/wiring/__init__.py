"""Where `schedctl` is put together: nothing else constructs what talks to the outside.

Here: this machine's kernel and its runtimes, which every verb about the machine asks. `registries`: where
images and other files are fetched from and stored. `catalogs`: the catalogs that count; they ask `registries`
where a catalog is named by its URL.

`status` is to start quickly: it imports what is here, and of the runtimes those whose sockets are there.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from schedkit.schedctl.settings.table import DRIVERS, Settings

if TYPE_CHECKING:
    from schedkit.runtimes.port import Runtime
    from schedkit.schedctl.change.kernel_port import Kernel

ROOT = Path("/")  # of the machine whose kernel is looked at
LOCK = Path("/run/schedctl.lock")


def kernel() -> Kernel:
    """The kernel of this machine."""
    from schedkit.schedctl.change.this_kernel import ThisKernel  # noqa: PLC0415 - see above

    return ThisKernel(ROOT)


def runtimes(settings: Settings) -> dict[str, Runtime]:
    """The runtimes whose sockets are there, by driver, the chosen one first; none has been asked anything."""
    return {driver: runtime(settings, driver) for driver in drivers(settings) if _is_there(settings, driver)}


def drivers(settings: Settings) -> list[str]:
    """All of them, the chosen one first."""
    return sorted(DRIVERS, key=lambda driver: driver != settings.driver)


def _is_there(settings: Settings, driver: str) -> bool:
    """Whether it is worth importing; one that we may not see counts, and says so itself when it is asked."""
    try:
        socket_of(settings, driver).stat()
    except (FileNotFoundError, NotADirectoryError):
        return False
    except OSError:
        return True
    return True


def runtime(settings: Settings, driver: str) -> Runtime:
    """The runtime of that driver."""
    socket = socket_of(settings, driver)
    if driver == "podman":
        from schedkit.runtimes.podman.client import Podman  # noqa: PLC0415 - see above

        return Podman(socket)
    from schedkit.runtimes.containerd.client import Containerd  # noqa: PLC0415 - as above

    return Containerd(socket)


def socket_of(settings: Settings, driver: str) -> Path:
    """Where the runtime listens; `--socket` is about the chosen driver."""
    usual = settings.podman_socket if driver == "podman" else settings.containerd_socket
    return Path((settings.socket if driver == settings.driver else None) or usual)
