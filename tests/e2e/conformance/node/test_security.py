"""Conformance tests of sig-node for security contexts, sysctls and /etc/hosts. The first paragraph of a docstring is
the official test name."""

from pathlib import Path
from typing import Any

import pytest

from sampan.api.types.core_v1 import Pod
from sampan.machinery.errors import Invalid
from tests.e2e.conformance.node.pods import container, create_pod, wait_until_ready
from tests.e2e.conformance.storage.real_node import RealNode, concurrent_scenario

HOSTS = Path("/etc/hosts").read_text().strip()
"""The hosts file of the machine."""


@concurrent_scenario
async def test_run_as_user_of_a_container(node: RealNode) -> None:
    """[sig-node] Security Context When creating a container with runAsUser should run the container with uid 65534
    [LinuxOnly] [NodeConformance] [Conformance]"""
    assert await node.output("id -u", container={"securityContext": {"runAsUser": 65534}}) == "65534"


@concurrent_scenario
async def test_unprivileged_container(node: RealNode) -> None:
    """[sig-node] Security Context When creating a pod with privileged should run the container as unprivileged when
    false [LinuxOnly] [NodeConformance] [Conformance]"""
    script = "ip link add dummy0 type dummy || true"
    output = await node.output(script, container={"securityContext": {"privileged": False}})
    assert "Operation not permitted" in output


@concurrent_scenario
async def test_writable_root_filesystem(node: RealNode) -> None:
    """[sig-node] Security Context When creating a pod with readOnlyRootFilesystem should run the container with
    writable rootfs when readOnlyRootFilesystem=false [NodeConformance] [Conformance]"""
    context = {"securityContext": {"readOnlyRootFilesystem": False}}
    assert await node.output("echo checking > /checkfile && cat /checkfile", container=context) == "checking"


@concurrent_scenario
async def test_read_only_root_filesystem(node: RealNode) -> None:
    """[sig-node] Kubelet when scheduling a read only busybox container should not write to root filesystem [LinuxOnly]
    [NodeConformance] [Conformance]"""
    context = {"securityContext": {"readOnlyRootFilesystem": True}}
    output = await node.output("echo test > /file; echo checked; sleep 0.1", container=context)
    assert "Read-only file system" in output


@concurrent_scenario
async def test_run_as_user_and_group_of_a_container(node: RealNode) -> None:
    """[sig-node] Security Context should support container.SecurityContext.RunAsUser And
    container.SecurityContext.RunAsGroup [LinuxOnly] [Conformance]"""
    context = {"securityContext": {"runAsUser": 1001, "runAsGroup": 2002}}
    assert await node.output("id -u; id -g", container=context) == "1001\n2002"


@concurrent_scenario
async def test_run_as_user_and_group_of_a_pod(node: RealNode) -> None:
    """[sig-node] Security Context should support pod.Spec.SecurityContext.RunAsUser And
    pod.Spec.SecurityContext.RunAsGroup [LinuxOnly] [Conformance]"""
    output = await node.output("id -u; id -g", securityContext={"runAsUser": 1001, "runAsGroup": 2002})
    assert output == "1001\n2002"


@concurrent_scenario
async def test_allow_privilege_escalation(node: RealNode) -> None:
    """[sig-node] Security Context when creating containers with AllowPrivilegeEscalation should not allow privilege
    escalation when false [LinuxOnly] [NodeConformance] [Conformance]"""
    volume = {"name": "v", "emptyDir": {}}
    mounts = {"volumeMounts": [{"name": "v", "mountPath": "/v"}]}
    makes = [container("makes", "cp /usr/bin/id /v/id && chmod u+s /v/id", **mounts)]
    for name, may_gain, expected in (("may", True, "0"), ("may-not", False, "1000")):
        context = {"runAsUser": 1000, "allowPrivilegeEscalation": may_gain}
        script = "/v/id -u; grep NoNewPrivs /proc/self/status"
        output = await node.output(
            script, volume, name=name, initContainers=makes, container={"securityContext": context}
        )
        assert output.split() == [expected, "NoNewPrivs:", "0" if may_gain else "1"]


# -- sysctls ---------------------------------------------------------------------------------------------------------


@concurrent_scenario
async def test_sysctl(node: RealNode) -> None:
    """[sig-node] Sysctls [LinuxOnly] should support sysctls [Environment:NotInUserNS]
    [Conformance]"""
    sysctls = [{"name": "kernel.shm_rmid_forced", "value": "1"}]
    output = await node.output("cat /proc/sys/kernel/shm_rmid_forced", securityContext={"sysctls": sysctls})
    assert output == "1"


@concurrent_scenario
async def test_invalid_sysctls_are_rejected(node: RealNode) -> None:
    """[sig-node] Sysctls [LinuxOnly] should reject invalid sysctls [Conformance]"""
    names = ("foo-", "kernel.shmmax", "safe-and-unsafe", "bar..")
    sysctls = [{"name": name, "value": "1"} for name in names]
    with pytest.raises(Invalid) as refusal:
        await create_pod(node, container(), securityContext={"sysctls": sysctls})
    for name in ("foo-", "bar.."):
        assert name in str(refusal.value)
    for name in ("kernel.shmmax", "safe-and-unsafe"):
        assert f'"{name}"' not in str(refusal.value)


# -- hosts -----------------------------------------------------------------------------------------------------------


@concurrent_scenario
async def test_host_aliases(node: RealNode) -> None:
    """[sig-node] Kubelet when scheduling an agnhost Pod with hostAliases should write entries to /etc/hosts
    [NodeConformance] [Conformance]"""
    aliases = [{"ip": "123.45.67.89", "hostnames": ["foo", "bar"]}]
    output = await node.output("cat /etc/hosts", hostAliases=aliases)
    assert "123.45.67.89\tfoo\tbar" in output


@concurrent_scenario
async def test_kubelet_managed_etc_hosts(node: RealNode) -> None:
    """[sig-node] KubeletManagedEtcHosts should test kubelet managed /etc/hosts file [NodeConformance] [Conformance]"""
    output = await node.output("head -1 /etc/hosts")
    assert output == "# Kubernetes-managed hosts file."
    own = {"name": "hosts", "hostPath": {"path": "/etc/hosts", "type": "File"}}
    mounts = [{"name": "hosts", "mountPath": "/etc/hosts"}]
    assert await node.output("cat /etc/hosts", own, name="own", mounts=mounts) == HOSTS
    output = await node.output("cat /etc/hosts", name="of-host", hostNetwork=True)
    assert output == f"# Kubernetes-managed hosts file (host network).\n{HOSTS}"


# -- quality of service ----------------------------------------------------------------------------------------------


@concurrent_scenario
async def test_qos_class_guaranteed(node: RealNode) -> None:
    """[sig-node] Pods Extended Pods Set QOS Class should be set on Pods with matching resource requests and limits for
    memory and cpu [Conformance]"""
    amounts: dict[str, Any] = {"cpu": "100m", "memory": "100Mi"}
    await create_pod(node, container(resources={"requests": amounts, "limits": amounts}))
    pod: Pod = await wait_until_ready(node)
    assert pod.status.qosClass == "Guaranteed"
