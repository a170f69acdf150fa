"""A copy of the tree with a `.venv` of its own, so that what is broken is what runs."""

from __future__ import annotations

import importlib.util
import os
import shutil
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Self

from breakages import outcomes
from breakages.listed import ROOT, Breakage
from breakages.outcomes import Phase
from rig.base import processes

_RUN_TIMEOUT_S = 3600  # tests have limits of their own
_OPTIONS = ("-q", "-p", "no:cacheprovider", "-p", outcomes.__name__)
_LINES = 12


class Copy:
    """All files of the clone that git knows or would add, elsewhere; gone at the end of the block."""

    def __init__(self) -> None:
        self._folder = processes.run_folder("breakages")
        self._tree = self._folder / "tree"
        self._told = self._folder / "outcomes.jsonl"
        self.said = ""  # the last lines of the run before

    def __enter__(self) -> Self:
        try:
            self._fill()
        except BaseException:
            self.__exit__()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        shutil.rmtree(self._folder, ignore_errors=True)

    def _fill(self) -> None:
        listing = ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"]
        for name in processes.run(listing, cwd=ROOT).stdout.split("\0"):
            if (ROOT / name).is_file():  # git lists what was deleted as well
                place = self._tree / name
                place.parent.mkdir(parents=True, exist_ok=True)
                shutil.copy2(ROOT / name, place, follow_symlinks=False)
        # commands that tests start are found beside their Python: both must be the copy's
        uv = [str(self._tree / "tools/uv"), "sync", "--frozen", "--quiet"]
        processes.run(uv, cwd=self._tree, env=self._environment(), timeout_s=600)

    @contextmanager
    def broken(self, breakage: Breakage) -> Iterator[None]:
        """Break it, and mend it at the end of the block."""
        file = self._tree / breakage.file
        whole = file.read_text()
        _write(file, breakage.applied_to(whole))
        try:
            yield
        finally:
            _write(file, whole)

    def run(self, tests: Sequence[str], *, until_failure: bool = False) -> list[Phase]:
        """What becomes of these tests in the copy as it is now."""
        self._told.unlink(missing_ok=True)
        options = [*_OPTIONS, *(["-x"] if until_failure else [])]
        pytest = [str(self._tree / ".venv/bin/python"), "-m", "pytest", *options, *tests]
        env = self._environment()
        done = processes.run(pytest, cwd=self._tree, env=env, timeout_s=_RUN_TIMEOUT_S, check=False)
        self.said = "\n".join([*done.stdout.splitlines(), *done.stderr.splitlines()][-_LINES:])
        return outcomes.read(self._told)

    def _environment(self) -> dict[str, str]:
        inherited = {name: value for name, value in os.environ.items() if name not in {"CI", "VIRTUAL_ENV"}}
        own = {"PYTHONPATH": str(self._tree / "tests"), "UV": str(self._tree / "tools/uv")}
        return inherited | own | {outcomes.VARIABLE: str(self._told)}


def _write(file: Path, text: str) -> None:
    """Python takes a file of the same size, written in the same second, for the one it has compiled."""
    file.write_text(text)
    Path(importlib.util.cache_from_source(str(file))).unlink(missing_ok=True)
