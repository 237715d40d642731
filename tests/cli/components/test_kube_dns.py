"""`sampan kube-dns`: the DNS server as a process of its own."""

from __future__ import annotations

import dns.message
import dns.query
import pytest

from sampan.kubelet.agent.machine import find_machine_addresses
from tests.cli.command import TIMEOUT_S, Sampan
from tests.eventually import wait_until
from tests.network.dns.objects import answer_texts
from tests.ports import free_port


def test_kube_dns_process_resolves_services(sampan: Sampan) -> None:
    sampan("up", "--detach", "--secure-port", str(free_port()), "--store", "memory", "--nodes", "0")
    kubeconfig, port, address = sampan.directory() / "admin.kubeconfig", free_port(), find_machine_addresses()[0]
    command = (
        *("kube-dns", "--kubeconfig", str(kubeconfig), "--dns-port", str(port), "--bind-address", address),
        *("--service-cluster-ip-range", "10.96.0.0/16", "--resolv-conf", "/dev/null"),
    )
    with sampan.running_command(*command) as process:
        assert process.stdout is not None
        line = next(iter(process.stdout))
        assert line == "kube-dns has started; other names are forwarded to nowhere (no nameserver in /dev/null)\n"
        for name, expected in {
            "kubernetes.default.svc.cluster.local": ["A 10.96.0.1"],
            "kube-dns.kube-system.svc.cluster.local": ["A 10.96.0.10"],
            "none.default.svc.cluster.local": ["NXDOMAIN"],
            "example.com": ["REFUSED"],
        }.items():
            wait_until(
                lambda name=name, expected=expected: _resolve(address, port, name) == expected,  # type: ignore[misc]
                timeout_s=TIMEOUT_S,
                describe=lambda name=name: _resolve(address, port, name),  # type: ignore[misc]
            )
        process.terminate()
        assert process.wait(TIMEOUT_S) == 0


def _resolve(address: str, port: int, name: str) -> list[str]:
    try:
        return answer_texts(dns.query.udp(dns.message.make_query(name, "A"), address, port=port, timeout=5))
    except (OSError, dns.exception.Timeout) as error:
        return [repr(error)]


@pytest.mark.parametrize(
    ("flag", "value", "message"),
    [
        ("--dns-upstream", "example.com", "--dns-upstream: want an IP address, perhaps with a port"),
        ("--dns-stub-domain", "corp.example", "--dns-stub-domain: want DOMAIN=IP"),
        ("--cluster-domain", "a" * 64, "--cluster-domain: "),
        ("--dns-client-cidrs", "10.0.0.0/99", "--dns-client-cidrs: "),
        ("--resolv-conf", "/nowhere/resolv.conf", "--resolv-conf: "),
    ],
)
def test_invalid_flags_are_reported(sampan: Sampan, flag: str, value: str, message: str) -> None:
    result = sampan.run("kube-dns", "--master", "http://127.0.0.1:1", flag, value)
    assert result.returncode != 0
    assert message in result.stderr + result.stdout
