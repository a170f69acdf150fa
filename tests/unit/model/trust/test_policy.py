"""What a policy file means, and what is said about a wrong one."""

from __future__ import annotations

import ast
from functools import partial
from pathlib import Path

import pytest
import yaml

from schedkit.model.images.references import parse_reference
from schedkit.model.trust import policy as trust
from schedkit.model.trust.policy import (
    Identity,
    InvalidPolicy,
    SourceRepository,
    TrustPolicy,
    parse_policy,
)
from schedkit.oci.policy.patterns import parse_pattern

SOURCE = Path(__file__).parents[4] / "src/schedkit"
WORKFLOW = "https://github.com/schedkit/plumbing/.github/workflows/build.yml@refs/heads/main"

OURS = SourceRepository("https://github.com/schedkit/plumbing", "https://github.com/schedkit")


def read(path: str) -> bytes:
    return {"a.pub": b"key a", "b.pub": b"key b", "root.json": b"{}"}[path]


def parsed(text: str) -> TrustPolicy:
    return parse_policy(yaml.safe_load(text), read, parse_pattern)


def test_a_policy_of_the_contract_is_read() -> None:
    policy = parsed(r"""
        keys: [{path: a.pub}]
        identities:
          - {issuer: "https://i.test", subjectRegExp: '^https://github\.com/me/.*'}
        rekorURL: https://rekor.sigstore.dev
        trustedRoot: root.json
        requireLog: true
    """)

    (identity,) = policy.rule.identities
    nowhere = SourceRepository()
    assert identity.matches(issuer="https://i.test", subject="https://github.com/me/x", source=nowhere)
    assert not identity.matches(issuer="https://i.test/", subject="https://github.com/me/x", source=nowhere)
    assert policy.rule.keys == (trust.NamedFile("a.pub", b"key a"),)
    assert (policy.rule.require_log, policy.log_host) == (True, "rekor.sigstore.dev")
    assert policy.trusted_root == trust.NamedFile("root.json", b"{}")


def test_without_a_file_our_own_workflows_are_trusted() -> None:
    policy = trust.default_policy(parse_pattern)
    (identity,) = policy.rule.identities
    github = partial(identity.matches, issuer=trust.GITHUB_ACTIONS, source=OURS)

    assert github(subject=WORKFLOW)
    assert not github(subject=f"https://evil.test/{WORKFLOW}")
    assert not github(subject=WORKFLOW, issuer="https://evil.test")


@pytest.mark.parametrize(
    "source",
    [
        SourceRepository(),
        SourceRepository("https://github.com/schedkit/plumbing"),
        SourceRepository("https://github.com/evil/schedkit", "https://github.com/evil"),
        SourceRepository("https://github.com/schedkit-x/x", "https://github.com/schedkit-x"),
        SourceRepository("https://github.com/schedkit/x", "https://evil.test/https://github.com/schedkit"),
    ],
)
def test_our_own_workflows_are_trusted_only_where_we_called_them(source: SourceRepository) -> None:
    (identity,) = trust.default_policy(parse_pattern).rule.identities

    assert identity.names(issuer=trust.GITHUB_ACTIONS, subject=WORKFLOW)
    assert not identity.matches(issuer=trust.GITHUB_ACTIONS, subject=WORKFLOW, source=source)


@pytest.mark.parametrize(
    ("asked", "accepted"),
    [
        ("{}", True),
        ("{sourceRepository: 'https://f.test/a/b'}", True),
        ("{sourceRepository: 'https://f.test/a'}", False),
        ("{sourceRepositoryRegExp: 'https://f\\.test/.*/b'}", True),
        ("{sourceRepositoryRegExp: 'f\\.test/.*/b'}", False),
        ("{sourceRepositoryOwner: 'https://f.test/a'}", True),
        ("{sourceRepositoryOwnerRegExp: 'https://f\\.test/[ab]'}", True),
        ("{sourceRepositoryOwnerRegExp: 'https://f\\.test/[bc]'}", False),
        ("{sourceRepository: 'https://f.test/a/b', sourceRepositoryOwner: 'https://f.test/x'}", False),
    ],
)
def test_an_identity_may_ask_what_a_workflow_ran_for(asked: str, *, accepted: bool) -> None:
    fields = {"issuer": "i", "subject": "s"} | yaml.safe_load(asked)
    (identity,) = parse_policy({"identities": [fields]}, read, parse_pattern).rule.identities
    source = SourceRepository("https://f.test/a/b", "https://f.test/a")

    assert identity.matches(issuer="i", subject="s", source=source) is accepted
    assert identity.matches(issuer="i", subject="s", source=SourceRepository()) is (asked == "{}")


@pytest.mark.parametrize("text", ["", "{}", "keys: []", "rekorURL: https://rekor.sigstore.dev"])
def test_an_empty_policy_trusts_nobody(text: str) -> None:
    assert parsed(text).rule_for("registry.test/image").trusts_nobody


def test_the_longest_name_that_fits_a_repository_counts_alone() -> None:
    policy = parsed("""
        keys: [{path: a.pub}]
        repositories:
          - {match: registry.test/team, keys: [{path: b.pub}]}
          - {match: registry.test/team/secret}
    """)

    paths = {
        name: [key.path for key in policy.rule_for(name).keys]
        for name in ("registry.test/x", "registry.test/team", "registry.test/team/x", "registry.test/teams")
    }

    assert paths == {
        "registry.test/x": ["a.pub"],
        "registry.test/team": ["b.pub"],
        "registry.test/team/x": ["b.pub"],
        "registry.test/teams": ["a.pub"],
    }
    assert policy.rule_for("registry.test/team/secret/x").trusts_nobody


@pytest.mark.parametrize("match", ["docker.io/nginx", "docker.io/library/nginx"])
def test_a_rule_for_one_of_dockers_short_names_is_narrower_than_that_for_all_of_them(match: str) -> None:
    rule = f"{{match: {match}, keys: [{{path: a.pub}}]}}"
    policy = parsed(f"repositories: [{rule}, {{match: docker.io/library}}]")

    assert not policy.rule_for("docker.io/library/nginx").trusts_nobody
    assert policy.rule_for("docker.io/library/nginx2").trusts_nobody


@pytest.mark.parametrize(
    ("match", "image"),
    [
        ("registry.test/x", "registry.test:443/x"),
        ("registry.test/x", "REGISTRY.test/x"),
        ("Registry.Test:443/x", "registry.test/x"),
        ("docker.io/acme/x", "registry-1.docker.io/acme/x"),
        ("docker.io/acme/x", "Docker.io/acme/x"),
        ("docker.io/acme/x", "acme/x"),
        ("index.docker.io/acme", "acme/x"),
        ("docker.io/acme/x", "registry.hub.docker.com/acme/x"),
        ("registry.hub.docker.com/acme", "acme/x"),
        ("registry.hub.docker.com", "index.docker.io/acme/x"),
        ("docker.io/nginx", "docker.io/nginx"),
        ("docker.io/nginx", "docker.io/library/nginx"),
        ("docker.io/nginx", "docker.io/nginx/ingress"),
        ("registry.test:5000", "registry.test:5000/x"),
        ("[::1]:5000/x", "[::1]:5000/x"),
    ],
)
def test_a_rule_is_not_escaped_by_another_spelling_of_its_host(match: str, image: str) -> None:
    policy = parsed(f"{{keys: [{{path: a.pub}}], repositories: [{{match: '{match}'}}]}}")

    assert policy.rule_for(str(parse_reference(image).repository)).trusts_nobody
    assert policy.rule_for(image).trusts_nobody or image == "acme/x"


@pytest.mark.parametrize("order", [1, -1])
@pytest.mark.parametrize(
    ("today", "late", "image"),
    [
        ("docker.io/acme", "registry.hub.docker.com/acme", "docker.io/acme/x"),
        ("docker.io/acme", "registry.hub.docker.com/acme/x", "docker.io/acme/x"),
        ("docker.io", "registry.hub.docker.com:443/acme", "docker.io/acme/x"),
        ("docker.io/foo", "registry.hub.docker.com/library/foo", "docker.io/library/foo"),
    ],
)
def test_a_rule_from_when_a_name_of_dockers_registry_was_another_gives_way_to_that_of_today(
    order: int, today: str, late: str, image: str
) -> None:
    """Such a policy was accepted before, so that it is still; a narrower rule overrules nothing either."""
    rules = [f"{{match: {today}, keys: [{{path: a.pub}}]}}", f"{{match: '{late}'}}"]
    policy = parsed(f"repositories: [{', '.join(rules[::order])}]")

    assert [key.path for key in policy.rule_for(image).keys] == ["a.pub"]


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("repositories: [{match: docker.io/a}, {match: index.docker.io/a}]", "already has a rule"),
        (
            "repositories: [{match: registry.hub.docker.com/a}, {match: Registry.hub.docker.com:443/a}]",
            "already has a rule",
        ),
        (
            "identities: [{issuer: a, subject: b, sourceRepository:}]",
            "identities[0] needs exactly one of sourceRepository and sourceRepositoryRegExp",
        ),
        (
            "identities: [{issuer: a, subject: b, sourceRepositoryOwner: c, sourceRepositoryOwnerRegExp: d}]",
            "identities[0] needs exactly one of sourceRepositoryOwner and sourceRepositoryOwnerRegExp",
        ),
        ("identities: [{issuer: a, subject: b, sourceOwner: c}]", "did you mean sourceRepositoryOwner?"),
        (
            "identities: [{issuer: a, subject: b, sourceRepositoryRegExp: '('}]",
            "identities[0].sourceRepositoryRegExp is not an accepted regular expression",
        ),
        ("keyz: []", "unknown key 'keyz'; did you mean keys?"),
        ("identity: []", "did you mean identities?"),
        ("identities: [{issuer: a, subjectRegexp: b}]", "did you mean subjectRegExp?"),
        ("identities: [{issuer: a}]", "identities[0] needs exactly one of subject and subjectRegExp"),
        ("identities: [{issuer: a, issuerRegExp: b, subject: c}]", "exactly one of issuer and issuerRegExp"),
        (
            "identities: [{issuer: a, subjectRegExp: '(?=x)'}]",
            "identities[0].subjectRegExp is not an accepted regular expression",
        ),
        ("identities: [{issuer: a, subject: ''}]", "identities[0].subject is ''"),
        ("identities: {issuer: a}", "identities is not a list"),
        ("keys: [a.pub]", "keys[0] is not a mapping"),
        ("keys: [{}]", "keys[0] names no file"),
        ("requireLog: yes please", "write true or false"),
        ("rekorURL: rekor.sigstore.dev", "is not a URL"),
        ("rekorURL:", "rekorURL is None; write a text"),
        (f"requireLog: {'a' * 100_000}", "write true or false"),
        (f"{'a' * 1000}: 1", "has the unknown key"),
        (f"trustedRoot: [{'a, ' * 1_000}]", "write a text"),
        ("repositories: [{match: 'https://registry.test'}]", "repositories[0].match 'https://registry.test'"),
        ("repositories: [{match: a.test}, {match: a.test}]", "already has a rule"),
        ("repositories: [{match: a.test}, {match: 'A.test:443'}]", "already has a rule"),
        ("repositories: [{match: team/x}]", "repositories[0].match 'team/x' does not begin with a registry"),
        ("repositories: [{match: a.test, key: []}]", "did you mean keys?"),
        ("just a text", "the policy is not a mapping"),
        (
            r'identities: [{issuer: a, subject: "\ud800"}]',
            "identities[0].subject is '\\ud800', with an incomplete",
        ),
        (r'identities: [{issuer: "\udfff", subject: a}]', "write the whole character"),
        (f"identities: [{{issuer: {'a' * 3000}, subject: b}}]", "at most 2048"),
        ("keys: [" + "{path: a.pub}," * 65 + "]", "at most 64"),
    ],
)
def test_a_wrong_policy_is_told_where_and_what_to_write(text: str, says: str) -> None:
    with pytest.raises(InvalidPolicy) as wrong:
        parsed(text)

    assert says in str(wrong.value)
    assert len(str(wrong.value)) < 400


def test_a_fingerprint_changes_with_everything_that_could_change_a_verdict() -> None:
    texts = [
        "keys: [{path: a.pub}]",
        "keys: [{path: b.pub}]",
        "{keys: [{path: a.pub}], requireLog: true}",
        "identities: [{issuer: a, subject: b}]",
        "identities: [{issuer: a, subjectRegExp: b}]",
        "identities: [{issuer: b, subject: a}]",
        "identities: [{issuer: a, subject: b, sourceRepository: c}]",
        "identities: [{issuer: a, subject: b, sourceRepositoryRegExp: c}]",
        "identities: [{issuer: a, subject: b, sourceRepositoryOwner: c}]",
        "identities: [{issuer: a, subject: b, sourceRepository: c, sourceRepositoryOwner: c}]",
        "{keys: [{path: a.pub}], rekorURL: 'https://a.test'}",
        "{keys: [{path: a.pub}], trustedRoot: root.json}",
        "repositories: [{match: a.test, keys: [{path: a.pub}]}]",
        "repositories: [{match: b.test, keys: [{path: a.pub}]}]",
    ]

    assert len({parsed(text).fingerprint for text in texts}) == len(texts)
    assert parsed(texts[0]).fingerprint == parsed(texts[0]).fingerprint


def test_a_fingerprint_changes_with_the_bytes_of_a_key() -> None:
    document = {"keys": [{"path": "a.pub"}]}
    before = parse_policy(document, lambda _: b"one", parse_pattern).fingerprint
    after = parse_policy(document, lambda _: b"two", parse_pattern).fingerprint

    assert before != after


# --- the proof


def test_a_verified_is_made_in_three_places_each_of_which_knows_why() -> None:
    """Python hides nothing; this test is what keeps others from it."""
    made = {
        (str(file.relative_to(SOURCE)), function.name)
        for file in SOURCE.rglob("*.py")
        if "Verified" in (text := file.read_text())  # most need not be parsed
        for function in ast.walk(ast.parse(text))
        if isinstance(function, ast.FunctionDef | ast.AsyncFunctionDef)
        for call in ast.walk(function)
        if isinstance(call, ast.Call) and ast.unparse(call.func).rpartition(".")[2] == "Verified"
    }

    assert made == {
        ("oci/sigstore/verify.py", "_judge_keyless"),
        ("oci/sigstore/verify.py", "_judge_key"),
        ("oci/policy/verdict_cache.py", "believe_kept"),
        ("sked/trust/messages.py", "believe_process"),
    }


def test_a_name_longer_than_any_is_not_compared() -> None:
    assert not trust.Exactly("a" * 2049).matches("a" * 2049)


def test_an_identity_needs_both_to_fit() -> None:
    identity = Identity(trust.Exactly("i"), parse_pattern("s"))

    answers = {pair: identity.names(issuer=pair[0], subject=pair[1]) for pair in ("is", "ix", "xs", "xx")}

    assert answers == {"is": True, "ix": False, "xs": False, "xx": False}
