"""`sked manager`: the operator as a process.

Each flag is also an environment variable: `SKED_` and its name in capitals, so `--leader-elect` is
`SKED_LEADER_ELECT`. A flag on the command line counts more.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeAlias, TypeVar

import click

from schedkit.sked.settings import Settings, parse_address, parse_bool, variable_of

T = TypeVar("T")
Decorator: TypeAlias = Callable[[Callable[..., None]], Callable[..., None]]
_MODE = click.Choice(["off", "warn", "enforce"])


class _Word(click.ParamType[object]):
    """A value that is read by a function which says what is wrong with it."""

    def __init__(self, name: str, parse: Callable[[str], object]) -> None:
        self.name = name
        self._parse = parse

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> object:  # noqa: ANN401  # click's
        """Read it; a value that was read already stays."""
        if not isinstance(value, str):
            return value
        try:
            return self._parse(value)
        except ValueError as error:
            self.fail(str(error), param, ctx)


_BOOL, _ADDRESS = _Word("boolean", parse_bool), _Word("address", parse_address)


def _flag(name: str, text: str, *short: str, **settings: Any) -> Decorator:  # noqa: ANN401  # click's
    """A flag that is an environment variable, too."""
    variable = variable_of(name.removeprefix("--"))
    return click.option(name, *short, envvar=variable, show_envvar=True, help=text, **settings)


def _switch(name: str, text: str, *, default: bool) -> Decorator:
    """As Go has them: `--name`, `--name=true`, `--name=f`; never `--name false`."""
    return _flag(
        name,
        text,
        type=_BOOL,
        is_flag=False,
        flag_value="true",
        default=str(default).lower(),
        show_default=True,
        metavar="[=true|false]",
    )


@click.command("manager", epilog="A flag on the command line overrides its environment variable.")
@_flag("--kubeconfig", "File that says how to reach the API server.", type=click.Path(path_type=Path))
@_flag("--context", "Context of the kubeconfig. The current context if left out.")
@_flag("--namespace", "Namespace of the lease. The pod's or the context's namespace if left out.", "-n")
@_switch("--leader-elect", "Act only with the lease, so that only one manager acts.", default=False)
@_flag(
    "--health-probe-bind-address",
    "Where /healthz and /readyz are served; 0: nowhere.",
    type=_ADDRESS,
    default=":8081",
    show_default=True,
)
@_flag(
    "--metrics-bind-address",
    "Where /metrics is served; 0: nowhere.",
    type=_ADDRESS,
    default="0",
    show_default=True,
)
@_switch("--metrics-secure", "Serve metrics over HTTPS, only to clients that may read them.", default=True)
@_flag(
    "--metrics-cert-path",
    "Folder with tls.crt and tls.key for metrics. If left out, a certificate is made.",
    type=click.Path(path_type=Path),
)
@_switch(
    "--enable-http2",
    "Has no effect, and is accepted only for old manifests: servers speak HTTP/1.1 only.",
    default=False,
)
@_flag(
    "--trust-mode",
    "Least strict mode for images without a trusted signature; rules can only make it stricter.",
    type=_MODE,
    default="off",
    show_default=True,
)
@_flag(
    "--default-trust-mode",
    "Mode for images without a trusted signature while there are no rules. "
    "It counts only if it is stricter than --trust-mode.",
    type=_MODE,
    default="off",
    show_default=True,
)
@_flag(
    "--trust-config",
    "Folder with the administrator's rules.yaml (formerly trust.yaml). Read again when it changes.",
    type=click.Path(path_type=Path),
)
@_flag(
    "--trust-interval",
    "Seconds until a tag is checked again. During an outage, the first retries come sooner, "
    "and further retries after up to three times as long.",
    type=click.FloatRange(min=1),
    default=600,
    show_default=True,
)
@_flag("--registry-auth", "File with logins, as Docker and Podman write it.", type=click.Path(path_type=Path))
@_flag("--registry-ca", "CA certificates to trust for registries.", type=click.Path(path_type=Path))
@_flag("--insecure-registry", "A registry to use without TLS.", multiple=True, metavar="HOST")
@_flag(
    "--log-format",
    "Format of the logs. auto: text in a terminal, otherwise JSON.",
    type=click.Choice(["auto", "json", "text"]),
    default="auto",
    show_default=True,
)
@_flag(
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
