"""`python -m benchmarks.trust`: measure, and print targets with what was reached.

A missed target is printed as such and is no failure: the figures depend on what else the machine does.
"""

from __future__ import annotations

import argparse
import json
import os
import signal
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from benchmarks.trust import kept, loading, report
from benchmarks.trust.costs import Cost, measure
from benchmarks.trust.targets import KEPT, LOADING, NOTHING, OURS, THEIRS
from rig.base import processes
from rig.base.certificates import Authority
from rig.base.errors import RigError, Unavailable
from rig.base.progress import say, step
from rig.registries.registry import Kind, Registry
from rig.runtimes import images
from rig.signatures.cosign import Cosign
from rig.signatures.sigstore import Sigstore

_IDENTITY = "https://forge.rig.test/schedulers/.build.yml@refs/heads/main"
_ISSUER = "https://issuer.rig.test"
_SCHEDCTL = Path(sys.executable).with_name("schedctl")


def main(arguments: list[str] | None = None) -> int:
    """Run it all; the exit code."""
    options = _parser().parse_args(arguments)
    signal.signal(signal.SIGTERM, signal.default_int_handler)  # ends as cleanly as Ctrl-C does
    try:
        processes.sweep()
        costs = run(options.rounds)
    except KeyboardInterrupt:
        return 130
    except (RigError, Unavailable) as error:
        print(f"bench: {error}", file=sys.stderr)
        return 1
    print((report.render_json if options.output == "json" else report.render_text)(options.rounds, costs))
    return 0


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="bench-trust", description=__doc__)
    parser.add_argument("--rounds", type=int, default=15, help="of each command; default %(default)s")
    parser.add_argument("-o", "--output", choices=("text", "json"), default="text")
    return parser


@dataclass(frozen=True)
class Scene:
    """A signed image in a registry, and what both verifiers believe."""

    image: str
    digest: str
    policy: Path
    registry: Registry
    sigstore: Sigstore
    cosign: Cosign
    home: Path

    @property
    def environment(self) -> dict[str, str]:
        """Of a user with an empty home; bytecode is compiled, as it is where schedkit was installed."""
        return {
            "PATH": os.environ["PATH"],
            "HOME": str(self.home),
            "SCHEDCTL_REGISTRY_CA": str(self.registry.ca_file),
        }

    def ours(self) -> Cost:
        """`schedctl verify` never looks for a verdict; its policy was read in the first round."""
        words: list[str | Path] = [
            _SCHEDCTL,
            "verify",
            self.image,
            "--trust-policy",
            self.policy,
            "-o",
            "json",
        ]
        cost, printed = measure(OURS, words, self.environment)
        if json.loads(printed)["signer"] != _IDENTITY:
            raise RigError(f"schedctl found another signer: {printed}")
        return cost

    def theirs(self) -> Cost:
        """With the trusted root in a file: nothing is fetched but the image's signature."""
        who = ["--certificate-identity", _IDENTITY, "--certificate-oidc-issuer", _ISSUER]
        argv, environment = self.cosign.verification(self.image, self.sigstore.trust, who)
        return measure(THEIRS, argv, environment)[0]

    def nothing(self) -> Cost:
        """What any program in Python costs."""
        return measure(NOTHING, [sys.executable, "-c", "pass"], self.environment)[0]

    def loading(self) -> Cost:
        """What the libraries cost of which a verification is made, before it begins."""
        return measure(LOADING, [sys.executable, loading.__file__], self.environment)[0]

    def kept(self) -> Cost:
        """The first call has to verify; from then on a verdict is kept."""
        image, ca_file = f"{self.image}@{self.digest}", self.registry.ca_file or ""
        words: list[str | Path] = [sys.executable, kept.__file__, image, self.policy, ca_file]
        found = json.loads(measure(KEPT, words, self.environment)[1])
        return Cost(KEPT, found["cpu_s"], found["wall_s"])


def run(rounds: int) -> list[Cost]:
    """Everything, in turns, so that what else the machine does falls on all."""
    folder = processes.run_folder("bench-trust")
    with _scene(folder) as scene:
        turns = (scene.ours, scene.theirs, scene.nothing, scene.loading, scene.kept)
        with step("one round to warm up"):
            for turn in turns:
                turn()
        say(f"{rounds} rounds")
        return [turn() for _ in range(rounds) for turn in turns]


@contextmanager
def _scene(folder: Path) -> Iterator[Scene]:
    authority = Authority(folder / "authority")
    cosign = Cosign(3, folder / "cosign", ca_file=authority.ca_file)
    with (
        Registry(Kind.REFERRERS, folder / "registry", authority) as registry,
        Sigstore(folder / "sigstore") as sigstore,
    ):
        digest = registry.client.push(images.multi_platform_scheduler("fifo"), "rig/image", "v1")
        image = f"{registry.host}/rig/image:v1"
        with step("signing with cosign 3"):
            cosign.sign_keyless(f"{image}@{digest}", sigstore, sigstore.identity_token(_IDENTITY, _ISSUER))
        (folder / "home").mkdir()
        policy = _policy(folder / "policy.yaml", sigstore)
        yield Scene(image, digest, policy, registry, sigstore, cosign, folder / "home")


def _policy(file: Path, sigstore: Sigstore) -> Path:
    root = sigstore.trust.trusted_root
    lines = (f"identities:\n  - issuer: {_ISSUER}\n    subject: {_IDENTITY}\n", f"trustedRoot: {root}\n")
    file.write_text("".join(lines))
    return file


if __name__ == "__main__":
    sys.exit(main())
