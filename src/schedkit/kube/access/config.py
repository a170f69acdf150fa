"""Where the API server is and how to talk to it: from kubeconfig files, or from inside a pod."""

from __future__ import annotations

import os
import re
import ssl
import urllib.request
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from urllib.parse import urlsplit

from schedkit.kube.access.credentials import Credentials, FixedToken, TokenFile
from schedkit.kube.errors import ConfigError

_IN_CLUSTER = Path("/var/run/secrets/kubernetes.io/serviceaccount")


@dataclass(frozen=True)
class Connection:
    """Everything a client needs to know about one API server and one user of it."""

    server: str
    tls: ssl.SSLContext | None = None  # None: plain HTTP
    credentials: Credentials = field(default_factory=FixedToken)
    namespace: str = "default"
    server_name: str | None = None  # None: the name in `server` is the one in its certificate
    proxy: str | None = None  # None: connect directly

    @property
    def address(self) -> str:
        """The server, as messages and logs may name it."""
        return without_userinfo(self.server)


def without_userinfo(url: str) -> str:
    """The same without user and password, however badly it is written: too much is left out, if anything."""
    return re.sub(r"^([a-z][a-z0-9+.-]*://)?.*@", r"\1", url, flags=re.IGNORECASE | re.DOTALL)


def discover(
    kubeconfig: Path | None = None, *, context: str | None = None, env: Mapping[str, str] | None = None
) -> Connection:
    """The kubeconfig that was named, or `KUBECONFIG`, or the pod this runs in, or the user's own file."""
    env = os.environ if env is None else env
    if kubeconfig is not None:
        return _read([kubeconfig], context, env)
    if named := [Path(part) for part in env.get("KUBECONFIG", "").split(os.pathsep) if part]:
        return _read(named, context, env)
    if "KUBERNETES_SERVICE_HOST" in env:
        return in_cluster(env)
    own = Path(env.get("HOME", "/")) / ".kube" / "config"
    if own.exists():
        return _read([own], context, env)
    raise ConfigError(
        f"no API server is known: there is no KUBECONFIG, no {own}, and this is no pod; name a kubeconfig"
    )


def _read(files: Sequence[Path], context: str | None, env: Mapping[str, str]) -> Connection:
    # imported here: in a pod nobody needs YAML
    from schedkit.kube.access import kubeconfigs  # noqa: PLC0415

    return kubeconfigs.load(files, context=context, env=env)


def in_cluster(env: Mapping[str, str], folder: Path = _IN_CLUSTER) -> Connection:
    """The API server of the cluster in which this pod runs, as the pod's service account."""
    try:
        host, port = env["KUBERNETES_SERVICE_HOST"], env["KUBERNETES_SERVICE_PORT"]
    except KeyError as error:
        raise ConfigError(f"this is no pod: {error.args[0]} is not set; name a kubeconfig") from error
    if not (folder / "token").exists():
        raise ConfigError(f"{folder}/token does not exist: set automountServiceAccountToken to true")
    server = f"https://[{host}]:{port}" if ":" in host else f"https://{host}:{port}"
    namespace = folder / "namespace"
    return Connection(
        server,
        tls=trusting(cafile=folder / "ca.crt"),
        credentials=TokenFile(folder / "token"),
        namespace=namespace.read_text().strip() if namespace.exists() else "default",
        proxy=proxy_for(server, None, env),
    )


def trusting(*, cafile: Path | None = None, cadata: str | None = None) -> ssl.SSLContext:
    """TLS that trusts these authorities, or the system's without any."""
    try:
        return ssl.create_default_context(cafile=cafile, cadata=cadata)
    except (OSError, ssl.SSLError) as error:
        raise ConfigError(f"the certificate authority {cafile or 'in the file'} is wrong: {error}") from error


def proxy_for(server: str, configured: str | None, env: Mapping[str, str]) -> str | None:
    """The proxy a kubeconfig names, or the environment's unless it excepts this server."""
    proxy = configured or _environments_proxy(server, env)
    if proxy and urlsplit(proxy).scheme not in {"http", "https"}:
        shown = without_userinfo(proxy)
        raise ConfigError(f"the proxy {shown} cannot be used: only http:// and https:// proxies work")
    return proxy or None


def _environments_proxy(server: str, env: Mapping[str, str]) -> str | None:
    where = urlsplit(server)
    variable = f"{where.scheme}_proxy"
    proxy = env.get(variable) or env.get(variable.upper())
    if not proxy:
        return None
    excepted = {"no": env.get("no_proxy") or env.get("NO_PROXY") or ""}
    return None if urllib.request.proxy_bypass_environment(where.netloc, excepted) else proxy  # type: ignore[attr-defined]  # documented nowhere, in every Python
