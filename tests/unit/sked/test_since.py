"""Since when something has been so, by one clock."""

from __future__ import annotations

from rig.builders.observations import NOW, ago
from schedkit.sked.since import Since, Wait


def test_what_stays_the_same_keeps_its_moment() -> None:
    since = Since()

    assert since.see(Wait.AGENT, "a", value=True, now=ago(60)) == ago(60)
    assert since.see(Wait.AGENT, "a", value=True, now=NOW) == ago(60)
    assert since.known(Wait.AGENT, "a") == ago(60)


def test_what_changes_gets_a_new_moment() -> None:
    since = Since()
    since.see(Wait.ATTACHMENT, "pod", "first run", ago(60))

    assert since.see(Wait.ATTACHMENT, "pod", "second run", NOW) == NOW


def test_what_ends_or_goes_is_forgotten() -> None:
    since = Since()
    since.see(Wait.AGENT, "a", value=True, now=ago(60))
    since.see(Wait.STRANGER, "a", "uid", ago(60))

    assert since.see(Wait.AGENT, "a", None, NOW) is None
    assert since.known(Wait.AGENT, "a") is None
    since.forget("a")
    assert len(since) == 0
