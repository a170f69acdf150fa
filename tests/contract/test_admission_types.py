"""What brings an image near a kernel demands an `Admission`: a string, `None` or a reference is refused."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[2]
HEAD = """
from schedkit.model.images.references import Reference
from schedkit.model.trust.verified import Admission
from schedkit.oci.images.ports import Source
from schedkit.runtimes.image_content import ImageContent
from schedkit.runtimes.port import Runtime
from schedkit.runtimes.specs import Spec
from schedkit.schedctl.change.container_spec import Order, specify
from schedkit.schedctl.source import fetch, load
from schedkit.schedctl.source.choose import Chosen
from schedkit.schedctl.source.fetch import Fetchable
from pathlib import Path


def attempts(
    runtime: Runtime, source: Source, found: Fetchable, chosen: Chosen, order: Order, root: Path,
    whole: ImageContent, parsed: Reference, admission: Admission,
) -> None:
"""
CALLS = {
    "pull": "load.pull(runtime, source, found, {})",
    "load": "runtime.load(fetch.content(source, found, {}))",
    "load what was made by hand": (
        "runtime.load(ImageContent('r', whole.manifest, whole.config, (), (), whole.read, {}))"
    ),
    "create": "runtime.create(Spec(name='n', image='i', admission={}))",
    "run": "specify(chosen, order, found, image='i', admission={}, policy=None, root=root)",
    "load without any content": "runtime.load({})",
    "create without any spec": "runtime.create({})",
}
FORGED = ("'registry.example/image:1'", "None", "parsed")


def lines_that_mypy_refuses(folder: Path, lines: list[str]) -> set[str]:
    file = folder / "attempts.py"
    file.write_text(HEAD + "".join(f"    {line}\n" for line in lines))
    # with the very settings of `make lint`, whose cache holds all that is imported: any other would spoil it
    done = subprocess.run(
        [sys.executable, "-m", "mypy", "--config-file", ROOT / "pyproject.toml", file],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    said = re.findall(r"attempts\.py:(\d+): error: (.*)", done.stdout)
    assert (done.returncode == 0) is (not said), done.stdout + done.stderr
    text = file.read_text().splitlines()
    return {text[int(number) - 1].strip() for number, _ in said}


def test_each_call_refuses_what_is_no_admission_and_takes_what_is(tmp_path: Path) -> None:
    forged = [call.format(word) for call in CALLS.values() for word in FORGED]
    admitted = [call.format("admission") for name, call in CALLS.items() if "without" not in name]

    assert lines_that_mypy_refuses(tmp_path, [*forged, *admitted]) == set(forged)
