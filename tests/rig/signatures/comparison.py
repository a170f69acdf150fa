"""What cosign says to each forgery, beside what our verifier says; also as the table in the documentation.

`python -m rig.signatures.comparison` asks, and writes docs/trust/comparison.md anew.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from rig.base import processes
from rig.registries.distribution import Client
from rig.registries.registry import Kind, Registry
from rig.signatures.cosign import Cosign
from rig.signatures.forgeries import CASES, Case, Policy
from rig.signatures.forging import Made, Recipe, Workshop
from rig.signatures.sigstore import Trust
from schedkit.model.trust.policy import Exactly, TrustPolicy
from schedkit.model.trust.steps import Refusal
from schedkit.oci.sigstore.trusted_root import parse_root
from schedkit.oci.sigstore.verify import verify

PAGE = Path(__file__).parents[3] / "docs/trust/comparison.md"
_ROWS = ("<!-- forgeries -->\n", "<!-- end of forgeries -->\n")


def publish(made: Made, client: Client, repository: str) -> str:
    """Put everything on the shelf into a registry; return what to ask for."""
    for digest, data in made.shelf.blobs.items():
        _put_blob(client, repository, digest, data)
    tags = {digest: tag for tag, digest in made.shelf.named.items()}
    for digest, content in made.shelf.manifests.items():
        path = f"/v2/{repository}/manifests/{tags.get(digest, digest)}"
        headers = {"Content-Type": content.descriptor.media_type}
        _expect(client.request("PUT", path, body=content.data, headers=headers).status)
    return f"{repository}@{made.digest}"


def _put_blob(client: Client, repository: str, digest: str, data: bytes) -> None:
    begun = client.request("POST", f"/v2/{repository}/blobs/uploads/", body=b"")
    location = begun.headers["Location"]
    target = f"{location}{'&' if '?' in location else '?'}digest={digest}"
    headers = {"Content-Type": "application/octet-stream"}
    _expect(client.request("PUT", target, body=data, headers=headers).status)


def _expect(status: int) -> None:
    if status != 201:
        raise ValueError(f"the registry answered {status}")


@dataclass(frozen=True)
class Bench:
    """Everything that is needed to ask cosign."""

    workshop: Workshop
    registry: Registry
    folder: Path
    cosigns: Sequence[Cosign]

    def answers(self, number: int, recipe: Recipe, policy: Policy) -> dict[int, bool]:
        """Whether each major that can read the artifact accepts it."""
        made = self.workshop.make(recipe)
        reference = publish(made, self.registry.client, f"rig/forgery-{number}")
        trust, who = self._trust(made, number), self._who(policy(made), number)
        asked = [cosign for cosign in self.cosigns if _can_read(cosign, recipe)]
        return {
            cosign.major: cosign.verify_for(f"{self.registry.host}/{reference}", trust, who).accepted
            for cosign in asked
        }

    def _trust(self, made: Made, number: int) -> Trust:
        shop = self.workshop
        trust = Trust(self.folder / f"trust-{number}", shop.authority, shop.ct_log, shop.log)
        trust.trusted_root.write_bytes(made.root)
        return trust

    def _who(self, policy: TrustPolicy, number: int) -> list[str]:
        """The policy as cosign's flags."""
        rule = policy.rule
        if rule.keys:
            file = self.folder / f"key-{number}.pub"
            file.write_bytes(rule.keys[0].content)
            return ["--key", str(file), *([] if rule.require_log else ["--insecure-ignore-tlog"])]
        flags = []
        for name, wanted in (
            ("identity", rule.identities[0].subject),
            ("oidc-issuer", rule.identities[0].issuer),
        ):
            if isinstance(wanted, Exactly):
                flags += [f"--certificate-{name}", wanted.text]
            else:
                flags += [f"--certificate-{name}-regexp", wanted.expression]
        return flags


def _can_read(cosign: Cosign, recipe: Recipe) -> bool:
    """Cosign 2 knows no bundles, and takes its trusted keys one by one, without their times."""
    return cosign.major == 3 or (recipe.simple and not recipe.changes_root)


def ours(workshop: Workshop, recipe: Recipe, policy: Policy, *, pinned: bool = False) -> Refusal | None:
    """Our verdict on an artifact; None: accepted."""
    made = workshop.make(recipe)
    reference = made.reference.pinned(made.digest) if pinned else made.reference
    try:
        verify(made.shelf, reference, policy(made), parse_root(made.root))
    except Refusal as refusal:
        return refusal
    return None


def row(case: Case, answers: dict[int, bool]) -> str:
    """One line of the table."""
    said = {major: "accepts" if accepted else "refuses" for major, accepted in answers.items()}
    form = f"{case.form}, key" if case.good.leaf is None else case.form
    return f"| {int(case.step)} | {form} | {case.name} | refuses | {said.get(3, '-')} | {said.get(2, '-')} |"


def table(answer: Callable[[int, Case], dict[int, bool]]) -> str:
    """All lines, in the order of the steps."""
    head = ["| step | form | forgery | schedkit | cosign 3 | cosign 2 |", "|---|---|---|---|---|---|"]
    return "\n".join([*head, *(row(case, answer(at, case)) for at, case in enumerate(CASES))])


def page(rows: str) -> str:
    """The documentation's page with these rows."""
    before, _, rest = PAGE.read_text().partition(_ROWS[0])
    return f"{before}{_ROWS[0]}\n{rows}\n\n{_ROWS[1]}{rest.partition(_ROWS[1])[2]}"


def main() -> int:
    """Ask about everything that can be asked, and write the page."""
    folder = processes.run_folder("comparison")
    with Registry(Kind.REFERRERS, folder / "registry") as registry:
        cosigns = [Cosign(major, folder / f"cosign-{major}") for major in (2, 3)]
        bench = Bench(Workshop(), registry, folder, cosigns)

        def answer(number: int, case: Case) -> dict[int, bool]:
            return bench.answers(number, case.bad, case.bad_policy) if case.askable else {}

        PAGE.write_text(page(table(answer)))
    return 0


if __name__ == "__main__":
    sys.exit(main())
