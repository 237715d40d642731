"""Firewalls of other programs that drop forwarded traffic of services, in a network namespace."""

from __future__ import annotations

import asyncio
import shutil
import subprocess

import pytest

from sampan.host.clock import VirtualClock
from sampan.host.linux.network_namespace import NetworkNamespace, run_in_network
from sampan.network.nft import run_nft
from sampan.network.proxy.firewall import COMMENT, ServiceForwardRules, accept_rules, keep_forward_rules
from tests.eventually import eventually
from tests.network.pods.lab import Lab, needs_network

MARK = 0x4000
PROGRAMS = ("iptables", "ip6tables")


def rules_of(lab: Lab) -> str:
    return run_in_network(lab.node, lambda: run_nft("list", "ruleset")).decode()


def iptables_rules(lab: Lab, program: str) -> str:
    return run_in_network(lab.node, lambda: subprocess.check_output([program, "-S", "FORWARD"], text=True))


def test_iptables_accept_rules() -> None:
    assert accept_rules(MARK)[0] == [
        "FORWARD", "-m", "mark", "--mark", "0x4000/0x4000", "-m", "comment", "--comment", COMMENT, "-j", "ACCEPT",
    ]  # fmt: skip


@needs_network
def test_dropping_nftables_chain_is_logged_once_and_not_changed(lab: Lab, caplog: pytest.LogCaptureFixture) -> None:
    text = "table inet firewall { chain forward { type filter hook forward priority 0; policy drop; }; }"
    run_in_network(lab.node, lambda: run_nft("-f", "-", text=text))
    before = rules_of(lab)
    rules = ServiceForwardRules(masquerade_mark=MARK)
    for _ in range(2):
        run_in_network(lab.node, rules.ensure)
    [record] = caplog.records
    assert "nft add rule inet firewall forward meta mark and 0x4000 == 0x4000 accept" in record.message
    assert rules_of(lab) == before
    for command in record.message.partition("until: ")[2].split(" && "):
        run_in_network(lab.node, lambda command=command: run_nft(*command.split()[1:]))  # type: ignore[misc]
    assert "0x00004000" in rules_of(lab)


@needs_network
def test_nothing_is_changed_or_logged_without_other_firewalls(lab: Lab, caplog: pytest.LogCaptureFixture) -> None:
    run_in_network(lab.node, ServiceForwardRules(masquerade_mark=MARK).ensure)
    assert rules_of(lab) == ""
    assert caplog.records == []


@needs_network
@pytest.mark.skipif(shutil.which("iptables", path="/usr/sbin:/sbin:/usr/bin") is None, reason="no iptables")
def test_accept_rules_are_added_to_iptables_and_removed(lab: Lab) -> None:
    def drop() -> None:
        for program in PROGRAMS:
            subprocess.run([program, "-P", "FORWARD", "DROP"], check=True)

    run_in_network(lab.node, drop)
    rules = ServiceForwardRules(masquerade_mark=MARK)
    for _ in range(2):
        run_in_network(lab.node, rules.ensure)
    assert [iptables_rules(lab, program).count(COMMENT) for program in PROGRAMS] == [2, 2]
    run_in_network(lab.node, rules.remove)
    assert [iptables_rules(lab, program).count(COMMENT) for program in PROGRAMS] == [0, 0]


@needs_network
@pytest.mark.skipif(shutil.which("iptables", path="/usr/sbin:/sbin:/usr/bin") is None, reason="no iptables")
def test_forward_rules_are_removed_when_the_task_is_cancelled(lab: Lab) -> None:
    run_in_network(lab.node, lambda: subprocess.run(["iptables", "-P", "FORWARD", "DROP"], check=True))
    rules, clock = ServiceForwardRules(masquerade_mark=MARK), VirtualClock()

    async def run() -> tuple[int, int]:
        task = asyncio.create_task(keep_forward_rules(rules, NetworkNamespace(lab.node), clock, removes_rules=True))
        await eventually(lambda: clock.next_wake() is not None)
        count = iptables_rules(lab, "iptables").count(COMMENT)
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
        return count, iptables_rules(lab, "iptables").count(COMMENT)

    assert asyncio.run(run()) == (2, 0)
