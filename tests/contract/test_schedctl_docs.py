"""The pages of docs/schedctl, followed: commands print what they show, and the playbook plays."""

from __future__ import annotations

import re
import sys
from collections.abc import Mapping
from pathlib import Path

import pytest

from rig.base import processes
from rig.build import ansible, debian
from rig.consoles import Command, File, steps

ROOT = Path(__file__).parents[2]
PAGES = sorted((ROOT / "docs/schedctl").glob("*.md"))
FOLLOWED = [page for page in PAGES if any(isinstance(step, Command) for step in steps(page.read_text()))]
SCRIPTING = ROOT / "docs/schedctl/scripting.md"
SHELLS = {"bash": ["bash", "-n"], "zsh": ["zsh", "-n"], "fish": ["fish", "--no-execute"]}


@pytest.fixture(scope="module")
def tools() -> Path:
    """Programs that readers have: jq, two more shells, and a strict reader of manuals."""
    return debian.machine().tree("reader", ["jq", "zsh", "fish", "mandoc"])


@pytest.fixture
def environment(tools: Path, tmp_path: Path) -> dict[str, str]:
    """Of somebody with an empty home, no container runtime, and these tools."""
    folders = [str(Path(sys.executable).parent), *(f"{tools}/{each}" for each in ("usr/bin", "bin"))]
    return {
        "PATH": ":".join([*folders, "/usr/bin", "/bin"]),
        "LD_LIBRARY_PATH": debian.library_path(tools),
        "HOME": str(tmp_path),
        "SCHEDCTL_PODMAN_SOCKET": str(tmp_path / "none.sock"),
        "SCHEDCTL_CONTAINERD_SOCKET": str(tmp_path / "none.sock"),
    }


def test_some_pages_are_followed() -> None:
    assert {page.stem for page in FOLLOWED} == {"configuration", "install", "scripting"}


@pytest.mark.parametrize("page", FOLLOWED, ids=lambda page: page.stem)
def test_the_commands_of_a_page_print_what_it_shows(
    page: Path, environment: Mapping[str, str], tmp_path: Path
) -> None:
    for step in steps(page.read_text()):
        match step:
            case File(name, text):
                (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
                (tmp_path / name).write_text(text)
            case Command():
                follow(step, page, environment, tmp_path)


def follow(command: Command, page: Path, environment: Mapping[str, str], home: Path) -> None:
    done = processes.run(
        ["bash", "-c", f"exec 2>&1; {command.words}"], env=environment, cwd=home, check=False
    )
    said = done.stdout.replace(str(home), "~")
    shown = "\n".join(command.shown)
    complaint = f"{page.name}:{command.line}: $ {command.words}\nshown:\n{shown}\nsaid:\n{said}"
    assert command.matches(said), complaint


# Ansible


def test_the_playbook_says_what_has_to_be_mended_where_no_scheduler_can_run(
    environment: Mapping[str, str], tmp_path: Path
) -> None:
    [playbook] = [step for step in steps(SCRIPTING.read_text()) if isinstance(step, File)]
    (tmp_path / playbook.name).write_text(playbook.text)
    catalog = tmp_path / "catalog.json"
    catalog.write_text('{"mini": {"imageURI": "registry.invalid/mini"}}')

    played = ansible.play(
        tmp_path / playbook.name,
        home=tmp_path,
        env={**environment, "SCHEDCTL_CATALOG": str(catalog)},
        values={"scheduler": "mini"},
    )

    assert played.returncode == 2, played.stdout + played.stderr
    assert "systemctl enable --now podman.socket" in played.stdout
    assert re.search(r"ok=1 +changed=0 +unreachable=0 +failed=1", played.stdout), played.stdout


# The manual, and what completes commands


def test_the_manual_is_well_formed(environment: Mapping[str, str]) -> None:
    pages = sorted((ROOT / "man").glob("*.1"))

    read = processes.run(["mandoc", "-T", "lint", "-W", "error", *pages], env=environment, check=False)

    assert (read.returncode, read.stdout) == (0, "")


def test_a_reader_of_the_manual_sees_flags_exit_codes_and_files(environment: Mapping[str, str]) -> None:
    shown = processes.run(["mandoc", "-T", "ascii", ROOT / "man/schedctl.1"], env=environment).stdout

    plain = re.sub(".\b", "", shown)
    assert "--podman-socket PATH" in plain
    assert "/etc/schedkit/config.toml" in plain
    assert re.search(r"^ +64 +the command line cannot be understood$", plain, re.MULTILINE)


@pytest.mark.parametrize("shell", SHELLS)
def test_the_script_for_a_shell_is_one_that_it_understands(
    shell: str, environment: Mapping[str, str], tmp_path: Path
) -> None:
    script = tmp_path / "script"
    script.write_text(processes.run(["schedctl", "completion", shell], env=environment).stdout)

    read = processes.run([*SHELLS[shell], script], env=environment, check=False)

    assert (read.returncode, read.stderr) == (0, "")
    assert "_SCHEDCTL_COMPLETE" in script.read_text()


def test_bash_completes_a_scheduler(environment: Mapping[str, str]) -> None:
    typed = "COMP_WORDS=(schedctl run scx_rus); COMP_CWORD=2; _schedctl_completion schedctl"
    words = f"source <(schedctl completion bash); {typed}; echo ${{COMPREPLY[@]}}"

    assert processes.run(["bash", "-c", words], env=environment).stdout == "scx_rustland scx_rusty\n"
