"""Tables of the documentation that follow from the code: reasons of conditions, and permissions."""

from __future__ import annotations

import inspect
import re
from collections.abc import Container, Iterable, Iterator
from enum import StrEnum

from schedkit.model.report.kernel_table import Row
from schedkit.model.report.pod_checks import Bucket
from schedkit.sked.permissions import Permission

_GROUP = re.compile(r"^    # ([A-Za-z, ]+)")
_MEMBER = re.compile(r'= "(\w+)"  # (.+)')


def advised(page: str) -> set[str]:
    """The reasons that the page has a section of advice about."""
    return set(re.findall(r"^### `(\w+)`$", page, re.MULTILINE))


def reasons_by_condition(kind: type[StrEnum], warnings: Container[str], page: str) -> str:
    """One row for each reason, under its conditions; linked to the page's advice about it."""
    head = "\n| conditions | reason | warning | meaning |\n|---|---|---|---|\n"
    linked = advised(page)
    rows = (
        f"| {group} | {_linked(reason) if reason in linked else f'`{reason}`'} "
        f"| {'yes' if reason in warnings else ''} | {meaning} |\n"
        for group, reason, meaning in _grouped(inspect.getsource(kind).splitlines())
    )
    return head + "".join(rows) + "\n"


def _grouped(lines: Iterable[str]) -> Iterator[tuple[str, str, str]]:
    """Each member's value and meaning, after the comment that stands above its group."""
    group = ""
    for line in lines:
        if found := _GROUP.match(line):
            group = found[1]
        elif found := _MEMBER.search(line):
            yield group, found[1], found[2]


def _linked(reason: str) -> str:
    return f"[`{reason}`](#{reason.lower()})"


def kernel_table(rows: Iterable[Row], page: str) -> str:
    """One row for each reason that a check may give, in the order in which the checks are asked."""
    head = "\n| what is seen of a node | bucket | reason | what to do |\n|---|---|---|---|\n"
    linked = advised(page)
    lines = (
        f"| {row.when} | `{bucket}` | `{reason}` | {_advice(reason, bucket, linked)} |\n"
        for row in rows
        for reason, bucket in row.finds.items()
    )
    return head + "".join(lines) + "\n"


def _advice(reason: str, bucket: str, linked: Container[str]) -> str:
    """What is well needs nothing, and what has no advice ends by itself."""
    if bucket == Bucket.ATTACHED:
        return "nothing"
    return f"see {_linked(reason)}" if reason in linked else "wait"


def permissions(tables: Iterable[tuple[str, Iterable[Permission]]]) -> str:
    """One table of what a service account may do, where, and what for."""
    head = "\n| where | group | resource | verbs | what for |\n|---|---|---|---|---|\n"
    return head + "".join(_permission(where, each) for where, table in tables for each in table) + "\n"


def _permission(where: str, permission: Permission) -> str:
    named = f" named `{permission.names[0]}`" if permission.names else ""
    verbs = ", ".join(permission.verbs)
    group = f"`{permission.group}`" if permission.group else "core"
    return f"| {where} | {group} | `{permission.resource}`{named} | {verbs} | {permission.reason} |\n"
