"""What is added where another firewall refuses to forward."""

from __future__ import annotations

from typing import Any

import pytest

from sampan.network.pods.firewall import (
    ForwardRules,
    NftChain,
    accept_rules,
    deletions,
    dropping_chains,
    iptables_chains,
    legacy_rules,
    own_handles,
)

FORWARD = {"name": "FORWARD", "type": "filter", "hook": "forward", "prio": 0}


def listing(*chains: dict[str, Any]) -> dict[str, Any]:
    return {"nftables": [{"metainfo": {}}, *({"chain": chain} for chain in chains)]}


def test_only_chains_that_refuse_count() -> None:
    rules = listing(
        {**FORWARD, "family": "ip", "table": "filter", "policy": "drop"},
        {**FORWARD, "family": "ip6", "table": "filter", "policy": "accept"},
        {"family": "ip", "table": "filter", "name": "DOCKER"},
        {"family": "ip", "table": "filter", "name": "INPUT", "hook": "input", "policy": "drop"},
        {"family": "inet", "table": "firewall", "name": "forward", "hook": "forward", "policy": "drop"},
        {"family": "inet", "table": "sampan-pods-tst0", "name": "forward", "hook": "forward", "policy": "drop"},
    )
    refusing = list(dropping_chains(rules, "tst0"))
    assert refusing == [NftChain("ip", "filter", "FORWARD"), NftChain("inet", "firewall", "forward")]
    assert [chain.is_of_iptables for chain in refusing] == [True, False]
    assert [str(chain) for chain in iptables_chains(rules)] == ["ip filter FORWARD", "ip6 filter FORWARD"]


def test_others_firewalls_are_named_once(caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch) -> None:
    rules = listing(
        {"family": "inet", "table": "firewall", "name": "forward", "hook": "forward", "policy": "drop"},
        {"family": "inet", "table": "firewalld", "name": "filter_FORWARD", "hook": "forward", "policy": "accept"},
    )
    monkeypatch.setattr("shutil.which", lambda name: None)  # of iptables nothing is asked
    consent = ForwardRules("tst0")
    for _ in range(2):
        consent.ensure(rules)
    assert [record.message for record in caplog.records] == [
        "nftables chain inet firewall forward drops packets by default, possibly also packets of pods",
        "firewalld is running and blocks traffic of pods; to allow it, run: "
        "firewall-cmd --zone=trusted --add-interface=tst0",
    ]


def test_rules_with_our_mark() -> None:
    chain = NftChain("ip", "filter", "FORWARD")
    assert accept_rules(chain, "tst0").splitlines() == [
        'add rule ip filter FORWARD iifname "tst0" counter accept comment "sampan: pods of tst0"',
        'add rule ip filter FORWARD oifname "tst0" counter accept comment "sampan: pods of tst0"',
    ]
    rules = [
        {"handle": 1},
        {"handle": 2, "comment": "sampan: pods of tst0"},
        {"handle": 3, "comment": "sampan: pods of a"},
    ]
    listed = {"nftables": [{"rule": rule} for rule in rules]}
    assert own_handles(listed, "tst0") == [2]
    assert deletions(chain, [2]) == "delete rule ip filter FORWARD handle 2\n"


def test_the_same_for_iptables_of_old() -> None:
    assert legacy_rules("tst0")[0] == [
        "FORWARD", "-i", "tst0", "-m", "comment", "--comment", "sampan: pods of tst0", "-j", "ACCEPT",
    ]  # fmt: skip
