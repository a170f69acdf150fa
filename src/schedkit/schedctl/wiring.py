"""Where `schedctl` is put together: nothing else constructs what talks to the outside.

All that only some verbs need is imported where it is used: `status` is to start quickly.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from schedkit.schedctl.problems.problem import attempting
from schedkit.schedctl.settings.table import DRIVERS, Settings

if TYPE_CHECKING:
    from schedkit.model.catalog import Layer, Listed
    from schedkit.oci.images.layout import Layout
    from schedkit.oci.images.ports import Source, Target
    from schedkit.oci.registry.client import Registry
    from schedkit.oci.registry.download import Downloads
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


def layers(settings: Settings) -> list[Layer]:
    """The catalogs that count, from the lowest to the highest."""
    from schedkit.model.catalog import Layer  # noqa: PLC0415 - as above
    from schedkit.schedctl.source import catalog_files  # noqa: PLC0415 - as above

    copy = catalog_files.updated(catalog_files.kept(os.environ))
    named = settings.catalog
    chosen = Layer(named, catalog_files.parse_named(_read_named(settings, named), named)) if named else None
    return [layer for layer in (catalog_files.shipped(), copy, chosen) if layer is not None]


def catalog(settings: Settings) -> dict[str, Listed]:
    """All schedulers by name."""
    from schedkit.model.catalog import stack  # noqa: PLC0415 - as above

    return stack(layers(settings))


def catalog_for(settings: Settings, *words: str) -> dict[str, Listed]:
    """All schedulers by name; none where every word is an image, which no name of a catalog can be."""
    return {} if all("/" in word for word in words) else catalog(settings)


def _read_named(settings: Settings, place: str) -> bytes:
    """As `read_anywhere`, for what is obeyed as it stands: it says which images names mean."""
    from schedkit.schedctl.source import catalog_files  # noqa: PLC0415 - as above

    return read_anywhere(settings, place) if "://" in place else catalog_files.read_obeyed(Path(place))


def read_anywhere(settings: Settings, place: str) -> bytes:
    """What lies at a path or URL; of a file at most one byte more than a catalog may have."""
    from schedkit.model.catalog import MAX_BYTES  # noqa: PLC0415 - as above
    from schedkit.schedctl.source import catalog_files  # noqa: PLC0415 - as above

    if "://" not in place:
        return catalog_files.read_file(Path(place))
    from schedkit.oci.http.proxies import read_proxies  # noqa: PLC0415 - as above
    from schedkit.oci.registry import download  # noqa: PLC0415 - an HTTP client is only for those who name a URL
    from schedkit.schedctl.source.destinations import refuse_login  # noqa: PLC0415 - as above

    refuse_login(place)

    with attempting(f"fetch {place}"):
        return download.fetch(
            place, limit=MAX_BYTES, ca_file=_ca_file(settings), proxies=read_proxies(os.environ)
        )


def downloads(settings: Settings) -> Downloads:
    """Files by their URLs, as this user may reach them; to be closed."""
    from schedkit.oci.http.proxies import read_proxies  # noqa: PLC0415 - as above
    from schedkit.oci.registry.download import Downloads  # noqa: PLC0415 - as above

    return Downloads(ca_file=_ca_file(settings), proxies=read_proxies(os.environ))


def _ca_file(settings: Settings) -> Path | None:
    return Path(settings.registry_ca) if settings.registry_ca else None


def registry(settings: Settings) -> Registry:
    """Every registry there is, as this user may reach it."""
    from schedkit.oci.http.proxies import read_proxies  # noqa: PLC0415 - as above
    from schedkit.oci.registry import client as oci  # noqa: PLC0415 - as above
    from schedkit.oci.registry.logins import files_of  # noqa: PLC0415 - as above
    from schedkit.oci.registry.mirrors import Mirrors  # noqa: PLC0415 - as above
    from schedkit.schedctl.source.destinations import parse_mirrors  # noqa: PLC0415 - as above

    reached = oci.Settings(
        insecure=frozenset(settings.insecure_registries),
        ca_file=_ca_file(settings),
        proxies=read_proxies(os.environ),
        mirrors=Mirrors(parse_mirrors(settings.registry_mirrors)),
    )
    return oci.Registry(reached, files_of(os.environ, uid=os.geteuid()))


@contextmanager
def source(settings: Settings) -> Iterator[Source]:
    """Where images are read: a layout if one was named, and then no registry is asked; else registries."""
    if settings.layout is not None:
        yield _layout(Path(settings.layout))
        return
    with registry(settings) as found:
        yield found


@contextmanager
def target(settings: Settings, to: str | None) -> Iterator[Target]:
    """Where images are stored: the layout that was named, else the registry in their name."""
    from schedkit.schedctl.source.destinations import layout_folder  # noqa: PLC0415 - as above

    folder = layout_folder(to) if to else None
    if folder is not None:
        yield _layout(folder)
        return
    with registry(settings) as found:
        yield found


def _layout(folder: Path) -> Layout:
    from schedkit.oci.images.layout import Layout  # noqa: PLC0415 - as above

    return Layout(folder)
