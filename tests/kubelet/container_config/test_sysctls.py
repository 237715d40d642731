"""The sysctls of pods, with the defaults of the node."""

from typing import Any

import pytest

from sampan.kubelet.container_config.sysctls import normalize_sysctl, pod_sysctls
from tests.kubelet.volumes.pods import pod

DEFAULTS = {"kernel.shmall": "1", "net.ipv4.ip_forward": "1", "kernel.domainname": "d", "user.max_user_namespaces": "9"}
OWN = {"securityContext": {"sysctls": [{"name": "net/ipv4/ip_forward", "value": "0"}]}}


@pytest.mark.parametrize(
    ("spec", "expected"),
    [
        ({}, {"kernel.shmall": "1", "net.ipv4.ip_forward": "1", "kernel.domainname": "d"}),
        ({"hostIPC": True}, {"net.ipv4.ip_forward": "1", "kernel.domainname": "d"}),
        ({"hostNetwork": True}, {"kernel.shmall": "1"}),
        ({"hostNetwork": True, "hostUsers": False}, {"kernel.shmall": "1", "user.max_user_namespaces": "9"}),
        (OWN, {"kernel.shmall": "1", "net/ipv4/ip_forward": "0", "kernel.domainname": "d"}),
    ],
)
def test_defaults_apply_to_the_namespaces_of_the_pod(spec: dict[str, Any], expected: dict[str, str]) -> None:
    assert pod_sysctls(pod({}, **spec), DEFAULTS) == expected


def test_names_are_normalized() -> None:
    assert normalize_sysctl("net/ipv4/conf/eth0.1/forwarding") == "net.ipv4.conf.eth0/1.forwarding"
    assert normalize_sysctl("net.ipv4.conf.eth0/1.forwarding") == "net.ipv4.conf.eth0/1.forwarding"
