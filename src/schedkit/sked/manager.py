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


@click.command("manager", epilog="A flag on the command line counts more than its environment variable.")
@_flag("--kubeconfig", "File that says how to reach the API server.", type=click.Path(path_type=Path))
@_flag("--context", "Context of the kubeconfig, if not the current one.")
@_flag("--namespace", "Namespace of the lease. That of the pod, or of the context, if left out.", "-n")
@_switch("--leader-elect", "Act only while holding the lease, so that one of several acts.", default=False)
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
@_switch("--metrics-secure", "Serve metrics over HTTPS, to those who may read them.", default=True)
@_flag(
    "--metrics-cert-path",
    "Folder with tls.crt and tls.key for metrics. A certificate is made if left out.",
    type=click.Path(path_type=Path),
)
@_switch("--enable-http2", "Accepted for old manifests; servers speak HTTP/1.1 only.", default=False)
@_flag(
    "--trust-mode",
    "The least that becomes of images that nobody trusted has signed, whatever the rules say.",
    type=_MODE,
    default="off",
    show_default=True,
)
@_flag(
    "--default-trust-mode",
    "What becomes of such images while --trust-config has no rules, unless --trust-mode is stricter.",
    type=_MODE,
    default="off",
    show_default=True,
)
@_flag(
    "--trust-config",
    "Folder with the administrator's rules.yaml, or trust.yaml as it was called. Read again when it changes.",
    type=click.Path(path_type=Path),
)
@_flag(
    "--trust-interval",
    "Seconds until a tag is looked at again; outages are retried sooner at first, then later.",
    type=click.FloatRange(min=1),
    default=600,
    show_default=True,
)
@_flag("--registry-auth", "File with logins, as Docker and Podman write it.", type=click.Path(path_type=Path))
@_flag("--registry-ca", "Authorities that registries may use.", type=click.Path(path_type=Path))
@_flag("--insecure-registry", "A registry that is asked without TLS.", multiple=True, metavar="HOST")
@_flag(
    "--log-format",
    "How logs look. auto: as text in a terminal, otherwise as JSON.",
    type=click.Choice(["auto", "json", "text"]),
    default="auto",
    show_default=True,
)
@_flag(
    "--log-level",
    "What is worth a line.",
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
