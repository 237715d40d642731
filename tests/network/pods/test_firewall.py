"""Rules that accept traffic of pods in chains of other firewalls that drop forwarded packets."""

from __future__ import annotations

import shutil
from typing import Any

import pytest

from sampan.network.pods.firewall import (
    ForwardRules,
    NftChain,
    accept_rules,
    deletions,
    dropping_chains,
    find_rule_handles,
    iptables_chains,
    legacy_rules,
)

FORWARD = {"name": "FORWARD", "type": "filter", "hook": "forward", "prio": 0}


def nft_listing(*chains: dict[str, Any]) -> dict[str, Any]:
    return {"nftables": [{"metainfo": {}}, *({"chain": chain} for chain in chains)]}


def test_forward_chains_with_a_drop_policy_are_found() -> None:
    rules = nft_listing(
        {**FORWARD, "family": "ip", "table": "filter", "policy": "drop"},
        {**FORWARD, "family": "ip6", "table": "filter", "policy": "accept"},
        {"family": "ip", "table": "filter", "name": "DOCKER"},
        {"family": "ip", "table": "filter", "name": "INPUT", "hook": "input", "policy": "drop"},
        {"family": "inet", "table": "firewall", "name": "forward", "hook": "forward", "policy": "drop"},
        {"family": "inet", "table": "sampan-pods-tst0", "name": "forward", "hook": "forward", "policy": "drop"},
    )
    chains = list(dropping_chains(rules, "tst0"))
    assert chains == [NftChain("ip", "filter", "FORWARD"), NftChain("inet", "firewall", "forward")]
    assert [chain.is_of_iptables for chain in chains] == [True, False]
    assert [str(chain) for chain in iptables_chains(rules)] == ["ip filter FORWARD", "ip6 filter FORWARD"]


def test_blocking_firewalls_are_logged_once(caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch) -> None:
    rules = nft_listing(
        {"family": "inet", "table": "firewall", "name": "forward", "hook": "forward", "policy": "drop"},
        {"family": "inet", "table": "firewalld", "name": "filter_FORWARD", "hook": "forward", "policy": "accept"},
    )
    monkeypatch.setattr(shutil, "which", lambda name: None)  # iptables is not called
    forward_rules = ForwardRules("tst0")
    for _ in range(2):
        forward_rules.ensure(rules)
    assert [record.message for record in caplog.records] == [
        "nftables chain inet firewall forward drops packets by default, possibly also packets of pods",
        "firewalld is running and blocks traffic of pods; to allow it, run: "
        "firewall-cmd --zone=trusted --add-interface=tst0",
    ]


def test_accept_rules_are_recognized_by_their_comment() -> None:
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
    assert find_rule_handles(listed, "tst0") == [2]
    assert deletions(chain, [2]) == "delete rule ip filter FORWARD handle 2\n"


def test_iptables_legacy_accept_rules() -> None:
    assert legacy_rules("tst0")[0] == [
        "FORWARD", "-i", "tst0", "-m", "comment", "--comment", "sampan: pods of tst0", "-j", "ACCEPT",
    ]  # fmt: skip
