"""`sked manager`: the operator as a process.

Each flag is also an environment variable: `SKED_` and its name in capitals, so `--leader-elect` is
`SKED_LEADER_ELECT`. A flag on the command line counts more.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from schedkit.sked.flags import ADDRESS, context_flag, flag, health_probe_flag, kubeconfig_flag, switch
from schedkit.sked.settings import Settings

_MODE = click.Choice(["off", "warn", "enforce"])


@click.command("manager", epilog="A flag on the command line overrides its environment variable.")
@kubeconfig_flag
@context_flag
@flag("--namespace", "Namespace of the lease. The pod's or the context's namespace if left out.", "-n")
@switch("--leader-elect", "Act only with the lease, so that only one manager acts.", default=False)
@health_probe_flag
@flag(
    "--metrics-bind-address",
    "Where /metrics is served; 0: nowhere.",
    type=ADDRESS,
    default="0",
    show_default=True,
)
@switch("--metrics-secure", "Serve metrics over HTTPS, only to clients that may read them.", default=True)
@flag(
    "--metrics-cert-path",
    "Folder with tls.crt and tls.key for metrics. If left out, a certificate is made.",
    type=click.Path(path_type=Path),
)
@switch(
    "--enable-http2",
    "Has no effect, and is accepted only for old manifests: servers speak HTTP/1.1 only.",
    default=False,
)
@flag(
    "--trust-mode",
    "Least strict mode for images without a trusted signature; rules can only make it stricter.",
    type=_MODE,
    default="off",
    show_default=True,
)
@flag(
    "--default-trust-mode",
    "Mode for images without a trusted signature while there are no rules. "
    "It counts only if it is stricter than --trust-mode.",
    type=_MODE,
    default="off",
    show_default=True,
)
@flag(
    "--trust-config",
    "Folder with the administrator's rules.yaml (formerly trust.yaml). Read again when it changes.",
    type=click.Path(path_type=Path),
)
@flag(
    "--trust-interval",
    "Seconds until a tag is checked again. During an outage, the first retries come sooner, "
    "and further retries after up to three times as long.",
    type=click.FloatRange(min=1),
    default=600,
    show_default=True,
)
@flag("--registry-auth", "File with logins, as Docker and Podman write it.", type=click.Path(path_type=Path))
@flag("--registry-ca", "CA certificates to trust for registries.", type=click.Path(path_type=Path))
@flag("--insecure-registry", "A registry to use without TLS.", multiple=True, metavar="HOST")
@flag(
    "--log-format",
    "Format of the logs. auto: text in a terminal, otherwise JSON.",
    type=click.Choice(["auto", "json", "text"]),
    default="auto",
    show_default=True,
)
@flag(
    "--log-level",
    "The lowest level that is logged.",
    type=click.Choice(["debug", "info", "warning", "error"]),
    default="info",
    show_default=True,
)
def command(**given: Any) -> None:  # noqa: ANN401  # one field of `Settings` each
    """Run the operator until SIGTERM, or until it loses the lease."""
    # help and wrong usage need none of this
    from schedkit.kube.errors import KubeError  # noqa: PLC0415
    from schedkit.sked import logs, wiring  # noqa: PLC0415

    settings = Settings(**given)
    logs.set_up(settings.log_format, settings.log_level)
    try:
        wiring.run(settings)
    except (KubeError, OSError) as error:
        logs.say_last_words(str(error))
        raise SystemExit(1) from error
