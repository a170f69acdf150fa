"""Real cosign, majors 2 and 3, signing and verifying without reaching anything beyond loopback.

The two store signatures differently: cosign 2 under a tag `sha256-….sig`, cosign 3 as a bundle that refers to
the image. Their flags differ as well; this module knows them, so that tests can speak of signing.
"""

from __future__ import annotations

import gzip
import json
import re
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache as once
from pathlib import Path

from rig.base import processes
from rig.base.errors import RigError, Unavailable
from rig.build import debian
from rig.signatures.sigstore import Sigstore, Trust
from rig.signatures.sigstore.transparency import Entry

# The suites where a major was last seen come first; archives move, so their neighbours are asked next.
_SUITES = {2: ("trixie", "trixie-backports", "forky", "sid"), 3: ("sid", "forky", "trixie-backports")}
# Nothing listens on the discard port: whatever is not loopback fails at once instead of reaching the world.
_NOWHERE = "http://127.0.0.1:9"


@dataclass(frozen=True)
class Key:
    """A signing key of cosign's own format; its password is empty."""

    private: Path
    public: Path


@dataclass(frozen=True)
class Verdict:
    """What `cosign verify` decided, and its words."""

    accepted: bool
    message: str


@once
def program(major: int) -> Path:
    """The newest packaged cosign of that major."""
    seen = []
    for suite in _SUITES[major]:
        try:
            tree = debian.Suite(suite).tree("cosign", ["cosign"], needs=False)
        except (RigError, Unavailable) as error:
            seen.append(f"{suite}: {str(error).splitlines()[0]}")
            continue
        version = _version(tree)
        if version.startswith(f"{major}."):
            return tree / "usr/bin/cosign"
        seen.append(f"{suite}: {version}")
    why = f"no Debian suite offers it ({'; '.join(seen)})"
    raise Unavailable(f"cosign {major}", why, "add the suite that does to _SUITES in rig/cosign.py")


def _version(tree: Path) -> str:
    """Debian builds say `devel` when asked, but their changelog knows."""
    with gzip.open(tree / "usr/share/doc/cosign/changelog.Debian.gz", "rt") as changelog:
        match = re.match(r"cosign \(([^)]+)\)", changelog.readline())
    return match[1] if match else "unknown"


class Cosign:
    """One cosign with a home of its own; `ca_file` is the authority of the registry's certificate."""

    def __init__(self, major: int, folder: Path, *, ca_file: Path | None = None) -> None:
        self.major = major
        self._program = program(major)
        self._folder = folder
        self._registry = ["--registry-cacert", str(ca_file)] if ca_file else []
        folder.mkdir(parents=True, exist_ok=True)

    def new_key(self) -> Key:
        """A fresh key pair; either major can use it."""
        prefix = Path(tempfile.mkdtemp(dir=self._folder)) / "cosign"
        self._run("generate-key-pair", "--output-key-prefix", str(prefix))
        return Key(prefix.with_suffix(".key"), prefix.with_suffix(".pub"))

    def import_key(self, pem: bytes) -> Key:
        """A key pair from a private key that another tool made."""
        folder = Path(tempfile.mkdtemp(dir=self._folder))
        (folder / "foreign.pem").write_bytes(pem)
        prefix = folder / "cosign"
        self._run("import-key-pair", "--key", str(folder / "foreign.pem"), "--output-key-prefix", str(prefix))
        return Key(prefix.with_suffix(".key"), prefix.with_suffix(".pub"))

    def sign(self, reference: str, key: Key) -> None:
        """Sign with a key, without any log."""
        if self.major == 2:
            where = ["--tlog-upload=false"]
        else:
            where = ["--signing-config", str(self._nowhere("signing-config")), *self._trust_nobody()]
        self._run("sign", "--key", str(key.private), *where, *self._registry, "--yes", reference)

    def sign_logged(self, reference: str, key: Key, sigstore: Sigstore) -> None:
        """Sign with a key, and have the stand-in's log keep it."""
        trust = sigstore.trust
        if self.major == 2:
            where = ["--rekor-url", sigstore.url]
        else:
            where = [
                "--signing-config",
                str(sigstore.signing_config),
                "--trusted-root",
                str(trust.trusted_root),
            ]
        arguments = ["--key", str(key.private), *where, *self._registry, "--yes", reference]
        self._run("sign", *arguments, trust=trust)

    def payload(self, reference: str) -> bytes:
        """What has to be signed, for those who sign with something else."""
        return self._run("generate", *self._registry, reference).stdout.encode()

    def sign_blob(self, payload: bytes, key: Key, sigstore: Sigstore) -> processes.Completed:
        """Sign bytes as major 3 does, and have the stand-in's log keep it; cosign may fail after that."""
        folder = Path(tempfile.mkdtemp(dir=self._folder))
        (folder / "payload").write_bytes(payload)
        where = ["--signing-config", str(sigstore.signing_config)]
        where += ["--trusted-root", str(sigstore.trust.trusted_root), "--bundle", str(folder / "bundle")]
        arguments = ["--key", str(key.private), *where, "--yes", str(folder / "payload")]
        return self._run("sign-blob", *arguments, check=False)

    def attach(self, reference: str, payload: bytes, signature: str, entry: Entry | None = None) -> None:
        """Attach a signature that something else made; its file has that text. The entry is a log's."""
        folder = Path(tempfile.mkdtemp(dir=self._folder))
        (folder / "payload").write_bytes(payload)
        (folder / "signature").write_text(signature)
        what = ["--payload", str(folder / "payload"), "--signature", str(folder / "signature")]
        if entry is not None:
            (folder / "entry").write_text(json.dumps({"rekorBundle": entry.promised()}))
            what += ["--rekor-response", str(folder / "entry")]
        self._run("attach", "signature", *what, *self._registry, reference)

    def verify(self, reference: str, key: Key) -> Verdict:
        """Ask whether this key signed that image; cosign 3 knows both kinds of signature."""
        how = ["--offline"] if self.major == 2 else self._trust_nobody()
        return self._verdict(["--key", str(key.public), "--insecure-ignore-tlog", *how], reference)

    def sign_keyless(self, reference: str, sigstore: Sigstore, token: str) -> None:
        """Sign as the identity of a token, with certificate and log entry of the stand-in."""
        if self.major == 2:
            where = ["--fulcio-url", sigstore.url, "--rekor-url", sigstore.url]
        else:
            where = [
                "--signing-config",
                str(sigstore.signing_config),
                "--trusted-root",
                str(sigstore.trust.trusted_root),
            ]
        token_file = self._folder / "token.jwt"  # cosign 3 takes nothing but a file
        token_file.write_text(token)
        arguments = [*where, "--identity-token", str(token_file), *self._registry, "--yes", reference]
        self._run("sign", *arguments, trust=sigstore.trust)

    def verify_keyless(self, reference: str, trust: Trust, *, identity: str, issuer: str) -> Verdict:
        """Ask whether that identity signed the image, by the evidence of those whom `trust` names."""
        who = ["--certificate-identity", identity, "--certificate-oidc-issuer", issuer]
        return self.verify_for(reference, trust, who)

    def verify_for(self, reference: str, trust: Trust, who: Sequence[str]) -> Verdict:
        """Ask with flags that say who may have signed."""
        how = ["--offline"] if self.major == 2 else ["--trusted-root", str(trust.trusted_root)]
        return self._verdict([*how, *who], reference, trust=trust)

    def verification(
        self, reference: str, trust: Trust, who: Sequence[str]
    ) -> tuple[list[str | Path], dict[str, str]]:
        """The command line and the environment of that question, for those who measure it."""
        how = ["--trusted-root", str(trust.trusted_root), *who, *self._registry]
        return [self._program, "verify", *how, reference], self._environment()

    def trusted_root(self, trust: Trust) -> bytes:
        """The trusted root that cosign itself writes, for the same authority and logs."""
        file = Path(tempfile.mkdtemp(dir=self._folder)) / "root.json"
        chain, log, ct_log = trust.chain_file, trust.log_key_file, trust.ct_key_file
        if self.major == 2:
            whom = [f"--certificate-chain={chain}", f"--rekor-key={log}", f"--ctfe-key={ct_log}"]
        else:
            since = "start-time=2021-01-01T00:00:00Z"
            whom = [
                f"--fulcio=url=https://fulcio.rig.test,certificate-chain={chain}",
                f"--rekor=url=https://rekor.rig.test,public-key={log},{since}",
                f"--ctfe=url=https://ctfe.rig.test,public-key={ct_log},{since}",
            ]
        self._run("trusted-root", "create", *whom, "--out", str(file))
        return file.read_bytes()

    def _verdict(self, arguments: Sequence[str], reference: str, trust: Trust | None = None) -> Verdict:
        done = self._run("verify", *arguments, *self._registry, reference, trust=trust, check=False)
        return Verdict(done.returncode == 0, done.stdout + done.stderr)

    def _trust_nobody(self) -> list[str]:
        """With a trusted root of its own, even an empty one, cosign 3 does not look for the public one."""
        return ["--trusted-root", str(self._nowhere("trusted-root"))]

    def _nowhere(self, kind: str) -> Path:
        """An empty signing config or trusted root, as cosign itself writes it."""
        file = self._folder / f"empty-{kind}.json"
        if not file.exists():
            self._run(kind, "create", "--out", str(file))
        return file

    def _run(self, *arguments: str, trust: Trust | None = None, check: bool = True) -> processes.Completed:
        believed = _settings_of(trust) if trust is not None and self.major == 2 else {}
        environment = self._environment() | believed
        return processes.run([self._program, *arguments], env=environment, timeout_s=60, check=check)

    def _environment(self) -> dict[str, str]:
        home = str(self._folder)
        return {
            "HOME": home,
            "DOCKER_CONFIG": home,
            "TUF_ROOT": f"{home}/tuf",
            "SIGSTORE_NO_CACHE": "true",
            "COSIGN_PASSWORD": "",
            "HTTP_PROXY": _NOWHERE,
            "HTTPS_PROXY": _NOWHERE,
            "NO_PROXY": "127.0.0.1,localhost,.rig.test",
        }


def _settings_of(trust: Trust) -> dict[str, str]:
    """Cosign 2 reads the keys it trusts one by one from the environment."""
    return {
        "SIGSTORE_ROOT_FILE": str(trust.chain_file),
        "SIGSTORE_REKOR_PUBLIC_KEY": str(trust.log_key_file),
        "SIGSTORE_CT_LOG_PUBLIC_KEY_FILE": str(trust.ct_key_file),
    }
