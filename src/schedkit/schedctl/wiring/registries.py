"""Where images and other files are fetched from and stored: registries, image layouts, and servers by URL."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from schedkit.oci.http.proxies import read_proxies
from schedkit.oci.images.layout import Layout
from schedkit.oci.images.ports import Source, Target
from schedkit.oci.registry import client, download
from schedkit.oci.registry.client import Registry
from schedkit.oci.registry.download import Downloads
from schedkit.oci.registry.logins import files_of
from schedkit.oci.registry.mirrors import Mirrors
from schedkit.schedctl.problems.problem import attempting
from schedkit.schedctl.settings.table import Settings
from schedkit.schedctl.source.destinations import layout_folder, parse_mirrors, refuse_login


def registry(settings: Settings) -> Registry:
    """Every registry there is, as this user may reach it."""
    reached = client.Settings(
        insecure=frozenset(settings.insecure_registries),
        ca_file=_ca_file(settings),
        proxies=read_proxies(os.environ),
        mirrors=Mirrors(parse_mirrors(settings.registry_mirrors)),
    )
    return Registry(reached, files_of(os.environ, uid=os.geteuid()))


@contextmanager
def source(settings: Settings) -> Iterator[Source]:
    """Where images are read: a layout if one was named, and then no registry is asked; else registries."""
    if settings.layout is not None:
        yield Layout(Path(settings.layout))
        return
    with registry(settings) as found:
        yield found


@contextmanager
def target(settings: Settings, to: str | None) -> Iterator[Target]:
    """Where images are stored: the layout that was named, else the registry in their name."""
    folder = layout_folder(to) if to else None
    if folder is not None:
        yield Layout(folder)
        return
    with registry(settings) as found:
        yield found


def downloads(settings: Settings) -> Downloads:
    """Files by their URLs, as this user may reach them; to be closed."""
    return Downloads(ca_file=_ca_file(settings), proxies=read_proxies(os.environ))


def fetch(settings: Settings, url: str, *, limit: int) -> bytes:
    """The file at a URL, of at most so many bytes."""
    refuse_login(url)
    with attempting(f"fetch {url}"):
        return download.fetch(url, limit=limit, ca_file=_ca_file(settings), proxies=read_proxies(os.environ))


def _ca_file(settings: Settings) -> Path | None:
    return Path(settings.registry_ca) if settings.registry_ca else None
