"""Finding what a dynamically linked program needs, in folders that the user named."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from schedkit.model.images.elf import InvalidProgram, Program, parse_program
from schedkit.model.images.references import shown
from schedkit.schedctl.problems.problem import Problem

_LONGEST = 90  # the archive's format has names of up to 100


@dataclass(frozen=True, slots=True)
class Found:
    """Everything that must lie beside a program."""

    libraries: dict[str, bytes]
    interpreter: tuple[str, bytes] | None


def read_program(file: Path) -> tuple[bytes, Program]:
    """The file, and what it says about itself."""
    data = file.read_bytes()
    try:
        return data, parse_program(data)
    except InvalidProgram as error:
        remedy = "give a program that was built for 64-bit Linux, and is whole"
        raise Problem(f"{file} cannot be packaged", why=str(error), remedy=remedy) from error


def collect(file: Path, program: Program, folders: Sequence[Path]) -> Found:
    """All libraries that the program needs, those that they need, and its interpreter."""
    if program.interpreter is None:
        return Found({}, None)
    if not folders:
        raise _unnamed(file, program)
    libraries: dict[str, bytes] = {}
    wanted = [*program.libraries]
    interpreter = Path(program.interpreter)
    if not interpreter.is_absolute() or ".." in interpreter.parts or len(program.interpreter) > _LONGEST:
        why = "its path must be absolute, without `..`, and of at most 90 characters"
        what = f"the interpreter {shown(program.interpreter)} is not packaged"
        raise Problem(what, why=why, remedy="link the program statically, or to another interpreter")
    while wanted:
        name = wanted.pop()
        if name in libraries or name == interpreter.name:
            continue
        libraries[name], needed = _find(name, program, folders)
        wanted += needed
    loader, _ = _find(interpreter.name, program, folders)
    return Found(dict(sorted(libraries.items())), (program.interpreter, loader))


def _find(name: str, program: Program, folders: Sequence[Path]) -> tuple[bytes, tuple[str, ...]]:
    """The first library of that name for the program's platform; a machine may have several platforms'."""
    if "/" in name or len(name) > _LONGEST:
        why = "the program names it by a path, not by a name" if "/" in name else "its name is too long"
        remedy = "link the program statically, or to the library by a short name without a path"
        raise Problem(f"the library {shown(name)} is not packaged", why=why, remedy=remedy)
    for folder in folders:
        if (file := folder / name).is_file():
            data, library = read_program(file)
            if library.platform == program.platform:
                return data, library.libraries
    looked = ", ".join(map(str, folders))
    remedy = "add its folder with another --libraries"
    raise Problem(
        f"{name} for {program.platform} was not found", why=f"schedctl looked in {looked}", remedy=remedy
    )


def _unnamed(file: Path, program: Program) -> Problem:
    needed = ", ".join((*program.libraries, program.interpreter or ""))
    remedy = "link it statically, or name the folders of its libraries with --libraries"
    return Problem(f"{file} needs shared libraries", why=f"it is linked to {needed}", remedy=remedy)
