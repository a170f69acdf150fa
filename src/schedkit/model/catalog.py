"""The catalog: schedulers by their short names, and what is known about each.

A catalog is a JSON object with one key per scheduler and nothing else, as plumbing's `manifest.json` is: who
reads the one can read the other. Only `imageURI` must be there. A fact that is absent is not known, and never
guessed.
"""

from __future__ import annotations

import difflib
import json
import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Annotated, Final, Literal, TypeAlias

import msgspec

from schedkit.model.api.schema import api_name
from schedkit.model.images import strictjson
from schedkit.model.images.grammar import IMAGE
from schedkit.model.images.strictjson import InvalidDocument

MAX_BYTES: Final = 1 << 20
MAX_ENTRIES: Final = 1000
MEDIA_TYPE: Final = "application/vnd.schedkit.catalog.v1+json"  # of a catalog that a registry keeps

Word: TypeAlias = Annotated[str, msgspec.Meta(min_length=1, max_length=256)]
Sentence: TypeAlias = Annotated[str, msgspec.Meta(min_length=1, max_length=1024)]
Name: TypeAlias = Annotated[str, msgspec.Meta(pattern=r"^[a-z0-9](?:[a-z0-9_.-]{0,61}[a-z0-9])?$")]
Image: TypeAlias = Annotated[str, msgspec.Meta(pattern=IMAGE, max_length=1024)]
Link: TypeAlias = Annotated[str, msgspec.Meta(pattern=r"^https?://[^ ]+$", max_length=1024)]
KernelVersion: TypeAlias = Annotated[str, msgspec.Meta(pattern=r"^[0-9]{1,4}\.[0-9]{1,4}(?:\.[0-9]{1,4})?$")]
OpsName: TypeAlias = Annotated[str, msgspec.Meta(pattern=r"^[A-Za-z0-9._]{1,127}$")]
Capability: TypeAlias = Annotated[str, msgspec.Meta(pattern=r"^[A-Z][A-Z0-9_]{0,63}$")]
KernelOption: TypeAlias = Annotated[str, msgspec.Meta(pattern=r"^[A-Z0-9_]{1,64}$")]  # without CONFIG_
Day: TypeAlias = Annotated[str, msgspec.Meta(pattern=r"^[0-9]{4}-[0-9]{2}-[0-9]{2}$")]
Seconds: TypeAlias = Annotated[int, msgspec.Meta(ge=1, le=30)]  # 30: more than that the kernel refuses
Flags: TypeAlias = Annotated[tuple[Word, ...], msgspec.Meta(max_length=64)]
Preset: TypeAlias = Literal["default", "server", "latency", "power"]


def _json_name(field: str) -> str:
    return "imageURI" if field == "image_uri" else api_name(field)


class Fact(msgspec.Struct, frozen=True, omit_defaults=True, forbid_unknown_fields=True, rename=_json_name):
    """A part of a catalog: what is absent is not known, and what is not declared is refused."""


class Needs(Fact, frozen=True):
    """What a scheduler cannot work without, beyond a kernel with sched_ext."""

    host_pid: bool | None = None  # the host's process ids
    boot_config: bool | None = None  # the kernel's configuration, where libbpf looks: /boot/config-<release>
    writable_run: bool | None = None  # /run/scx: without it, it ends as soon as it is attached
    capabilities: Annotated[tuple[Capability, ...], msgspec.Meta(max_length=64)] | None = None
    kernel_options: Annotated[tuple[KernelOption, ...], msgspec.Meta(max_length=64)] | None = None
    tracing: bool | None = None  # what the kernel can trace: tracefs, in /sys/kernel/tracing


class CpuContract(Fact, frozen=True):
    """Which of a cgroup's CPU settings the scheduler honours; all others it ignores."""

    honours: Annotated[tuple[Word, ...], msgspec.Meta(max_length=16)] = ()
    honours_with: Annotated[dict[Word, Flags], msgspec.Meta(max_length=16)] = {}  # only with these flags
    note: Sentence | None = None


class Measured(Fact, frozen=True, kw_only=True):
    """One measurement: what was measured, where and when, and what was seen beside the facts of its entry."""

    version: Word  # of the scheduler
    kernel: Word  # its release
    machine: Word  # what it ran on; under emulation times are upper bounds
    date: Day
    ops: Word  # the whole name that the kernel showed
    attach_seconds: Annotated[float, msgspec.Meta(ge=0)]  # from its start until the kernel said `enabled`
    exit_code: int  # after SIGTERM
    exit_words: Sentence | None = None  # the last that it said then
    exit_reason: Sentence | None = None  # what the kernel logged
    stats_socket: Word | None = None  # where it answered, in its own root
    without: dict[Word, Sentence] = {}  # what became of it without something: its last words


class Entry(Fact, frozen=True):
    """One scheduler."""

    image_uri: Image
    description: Sentence | None = None
    documentation: Link | None = None
    min_kernel: KernelVersion | None = None
    ops_name: OpsName | None = None  # what the kernel calls it, without version and target
    watchdog_seconds: Seconds | None = None
    stats: bool | None = None  # whether it answers on the socket of scx_stats
    presets: dict[Preset, Flags] = {}  # flags for a purpose, passed before the user's own
    needs: Needs | None = None
    cpu_contract: CpuContract | None = None
    architectures: Annotated[tuple[Word, ...], msgspec.Meta(max_length=16)] | None = None
    measured: Measured | bool | None = None  # how schedkit measured facts; False: they were read somewhere
    sources: Annotated[tuple[Sentence, ...], msgspec.Meta(max_length=16)] = ()  # where they come from
    version: Word | None = None  # the one that schedkit's recipe builds


Entries: TypeAlias = Mapping[str, Entry]
Document: TypeAlias = Annotated[dict[Name, Entry], msgspec.Meta(max_length=MAX_ENTRIES)]


class InvalidCatalog(ValueError):  # noqa: N818 - it names what the text is
    """A text that is no catalog; the message says what is wrong, and where."""


class UnknownName(LookupError):  # noqa: N818 - it names what the word is
    """A word that is neither a name of the catalog nor an image; the message names the nearest."""


@dataclass(frozen=True, slots=True)
class Layer:
    """One catalog, and where it came from."""

    origin: str
    entries: Entries


@dataclass(frozen=True, slots=True)
class Listed:
    """An entry under its name, and which catalog it was taken from."""

    name: str
    entry: Entry
    origin: str


def stack(layers: Iterable[Layer]) -> dict[str, Listed]:
    """All entries, sorted by name; of several with one name that of the last layer counts, as a whole."""
    found = {
        name: Listed(name, entry, layer.origin) for layer in layers for name, entry in layer.entries.items()
    }
    return dict(sorted(found.items()))


def choose(catalog: Mapping[str, Listed], word: str) -> Listed | None:
    """The entry that a user means by a name, or None when the word is an image."""
    if word in catalog:
        return catalog[word]
    if "/" in word:
        return None
    raise UnknownName(_describe_unknown(catalog, word))


def _describe_unknown(catalog: Mapping[str, Listed], word: str) -> str:
    name, _, tag = word.partition(":")
    if tag and name in catalog:
        return f"no scheduler is called {word!r}. A version is chosen with a flag: `{name} --version {tag}`"
    near = nearest(word, catalog)
    guess = f"Did you mean {' or '.join(repr(name) for name in near)}? " if near else ""
    return (
        f"no scheduler is called {word!r}. {guess}`schedctl list` shows all names; write an image with its"
        " registry, such as ghcr.io/schedkit/scx_rusty"
    )


def nearest(word: str, names: Iterable[str]) -> list[str]:
    """The names that somebody may have meant, best first; the prefix `scx_` is often left out."""
    known = list(names)
    aliases = {alias: name for name in known for alias in (name, name.removeprefix("scx_"))}
    close = difflib.get_close_matches(word.lower(), aliases, n=3, cutoff=0.7)
    return list(dict.fromkeys(aliases[alias] for alias in close))[:2]


def parse_catalog(text: bytes) -> dict[str, Entry]:
    """Read a catalog strictly: nothing unknown, nothing twice, nothing that a terminal would obey."""
    if len(text) > MAX_BYTES:
        raise InvalidCatalog(f"it is larger than {MAX_BYTES} bytes")
    try:
        document = strictjson.read_object(text, what="it")
    except InvalidDocument as error:
        raise InvalidCatalog(str(error)) from error
    if len(document) > MAX_ENTRIES:
        raise InvalidCatalog(f"it has more than {MAX_ENTRIES} schedulers")
    return {_parse_name(name): _parse_entry(name, value) for name, value in document.items()}


def render_catalog(entries: Entries) -> bytes:
    """The catalog as a file: the same entries give the same bytes, and `parse_catalog` gives them back."""
    plain = {name: msgspec.to_builtins(entry) for name, entry in sorted(entries.items())}
    return (json.dumps(plain, indent=2, ensure_ascii=False) + "\n").encode()


def _parse_name(name: str) -> str:
    try:
        return msgspec.convert(name if name.isprintable() else "", Name)
    except msgspec.ValidationError as error:
        form = "use at most 63 lower-case letters and digits, with '_', '.' and '-' only between them"
        message = f"{name!r} is not a valid name: {form}"
        raise InvalidCatalog(message) from error


def _parse_entry(name: str, value: object) -> Entry:
    if any(not text.isprintable() for text in _strings(value)):
        raise InvalidCatalog(f"{name}: it contains characters that cannot be printed")
    try:
        return msgspec.convert(value, Entry)
    except msgspec.ValidationError as error:
        raise InvalidCatalog(f"{name}: {_explain(str(error))}") from error


def _strings(value: object) -> Iterator[str]:
    if isinstance(value, str):
        yield value
    elif isinstance(value, dict):
        for key, inner in value.items():
            yield key
            yield from _strings(inner)
    elif isinstance(value, list):
        for inner in value:
            yield from _strings(inner)


def _explain(complaint: str) -> str:
    """Msgspec's words, and for an unknown field the nearest that there is."""
    unknown = re.search(r"unknown field `([^`]*)`", complaint)
    near = difflib.get_close_matches(unknown[1], _known_fields(), n=1) if unknown else []
    guess = f"; did you mean {near[0]!r}?" if near else ""
    return f"{complaint[0].lower()}{complaint[1:]}{guess}"


def _known_fields() -> list[str]:
    kinds = (Entry, Needs, CpuContract, Measured)
    return [field.encode_name for kind in kinds for field in msgspec.structs.fields(kind)]
