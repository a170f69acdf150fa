"""Which proxy stands between here and a server: what the usual environment variables say."""

from __future__ import annotations

import ipaddress
import re
from collections.abc import Mapping
from urllib.parse import unquote

import msgspec

from schedkit.oci.errors import RegistryError

_PLACE = re.compile(r"(\[[0-9a-fA-F:]+\]|[-.\w]+)(:[0-9]{1,5})?")
_WITH_PORT = re.compile(
    r"(\[[^\]]+\]|[^:]+):([0-9]{1,5})"
)  # an address with colons of its own is in brackets
_LAST_PORT = 65535


class Proxies(msgspec.Struct, frozen=True):
    """The proxies for each scheme, and the hosts that need none."""

    http: str = ""
    https: str = ""
    bypassed: tuple[str, ...] = ()

    def proxy_for(self, scheme: str, host: str, port: int) -> str:
        """The proxy's URL, or nothing: loopback is never asked through a proxy."""
        proxy = self.https if scheme == "https" else self.http
        if not proxy or is_loopback(host) or any(_covers(word, host, port) for word in self.bypassed):
            return ""
        return proxy if "://" in proxy else f"http://{proxy}"


def read_proxies(environment: Mapping[str, str]) -> Proxies:
    """HTTPS_PROXY, HTTP_PROXY, ALL_PROXY and NO_PROXY, in lower case or upper case."""

    def value(name: str) -> str:
        return environment.get(name) or environment.get(name.upper()) or ""

    hosts = (host.strip() for host in value("no_proxy").split(","))
    return Proxies(
        http=value("http_proxy") or value("all_proxy"),
        https=value("https_proxy") or value("all_proxy"),
        bypassed=tuple(host for host in hosts if host),
    )


def parse_proxy(url: str) -> tuple[str, tuple[str, str] | None]:
    """A proxy's address, and its name and password if the URL has them."""
    scheme, _, rest = url.partition("://")
    login, at, place = rest.rstrip("/").rpartition("@")
    if scheme not in {"http", "https"} or not _can_be_reached(place):
        raise RegistryError(f"{scheme}://{place} cannot be a proxy: write http://host:port")
    name, _, password = login.partition(":")
    return f"{scheme}://{place}", (unquote(name), unquote(password)) if at else None


def _can_be_reached(place: str) -> bool:
    found = _PLACE.fullmatch(place)
    if found is None or (found[1].startswith("[") and _address(found[1]) is None):
        return False
    return found[2] is None or 0 < int(found[2][1:]) <= _LAST_PORT


def is_loopback(host: str) -> bool:
    """Whether packets to that host stay on this machine."""
    address = _address(host)
    return address.is_loopback if address else host.lower() == "localhost"


def _covers(word: str, host: str, port: int) -> bool:
    """Whether a word of NO_PROXY means that place: with a port, that one alone."""
    found = _WITH_PORT.fullmatch(word)
    if found is None:
        return _covers_host(word, host)
    return int(found[2]) == port and _covers_host(found[1], host)


def _covers_host(pattern: str, host: str) -> bool:
    """Whether it is meant: by a name with all below it, an address or a network."""
    address = _address(host)
    if address is not None:
        try:
            return address in ipaddress.ip_network(pattern.strip("[]"), strict=False)
        except ValueError:
            return pattern == "*"
    name, whole = pattern.lower().lstrip("*").lstrip("."), host.lower()
    return pattern == "*" or whole == name or whole.endswith(f".{name}")


def _address(host: str) -> ipaddress.IPv4Address | ipaddress.IPv6Address | None:
    try:
        return ipaddress.ip_address(host.strip("[]"))
    except ValueError:
        return None
