"""Pods that the kubelet's configuration disallows, and settings that the machine cannot enforce."""

from pathlib import Path
from typing import Any

import pytest

from sampan.api.codec import json
from sampan.api.types.core_v1 import Pod
from sampan.kubelet.admission import is_critical, source_of, with_api_source
from sampan.kubelet.agent.admission_checks import enforcement_failure
from sampan.kubelet.agent.config import AgentConfig

PRIVILEGED = {"securityContext": {"privileged": True}}


def pod(*, source: str = "", container: dict[str, Any] | None = None, **spec: Any) -> Pod:
    annotations = {"kubernetes.io/config.source": source} if source else {}
    pod_spec = {"containers": [{"name": "c", "image": "i", **(container or {})}], **spec}
    return json.from_value({"metadata": {"name": "p", "uid": "u", "annotations": annotations}, "spec": pod_spec}, Pod)


def rejection(pod: Pod, *, has_apparmor: bool = True, has_strict_groups: bool = True, **config: Any) -> tuple[str, str]:
    settings = AgentConfig(name="n", root=Path("/"), logs=Path("/"), **config)
    failure = enforcement_failure(pod, settings, has_apparmor=has_apparmor, has_strict_groups=has_strict_groups)
    return (failure.reason, failure.message) if failure is not None else ("", "")


@pytest.mark.parametrize(
    ("pod", "config", "setting"),
    [
        (pod(container=PRIVILEGED), {"allows_privileged": False}, "privileged container"),
        (pod(initContainers=[{"name": "i", **PRIVILEGED}]), {"allows_privileged": False}, "privileged container"),
        (pod(hostNetwork=True), {"host_network_sources": ["file"]}, "host networking"),
        (pod(hostPID=True), {"host_pid_sources": []}, "host PID"),
        (pod(hostIPC=True, source="http"), {"host_ipc_sources": ["api", "file"]}, "host ipc"),
    ],
)
def test_privileged_and_host_namespace_pods_are_rejected_when_disallowed(
    pod: Pod, config: dict[str, Any], setting: str
) -> None:
    assert rejection(pod, **config) == ("Blocked", f'pod with UID "u" specified {setting}, but is disallowed')
    assert rejection(pod) == ("", "")


def test_host_network_is_allowed_for_a_listed_source() -> None:
    assert rejection(pod(hostNetwork=True, source="file"), host_network_sources=["file"]) == ("", "")


def test_unsafe_sysctls_are_rejected_unless_allowed() -> None:
    unsafe = pod(securityContext={"sysctls": [{"name": "kernel.msgmax", "value": "1"}]})
    assert rejection(unsafe) == ("SysctlForbidden", 'forbidden sysctl: "kernel.msgmax" not allowlisted')
    assert rejection(unsafe, allowed_unsafe_sysctls=["kernel.msg*"]) == ("", "")
    assert rejection(pod(securityContext={"sysctls": [{"name": "net.ipv4.tcp_syncookies", "value": "1"}]})) == ("", "")


def test_apparmor_profile_is_rejected_without_apparmor() -> None:
    profile: dict[str, Any] = {"securityContext": {"appArmorProfile": {"type": "RuntimeDefault"}}}
    message = "Cannot enforce AppArmor: AppArmor is not enabled on the host"
    assert rejection(pod(container=profile), has_apparmor=False) == ("AppArmor", message)
    assert rejection(pod(**profile), has_apparmor=False) == ("AppArmor", message)
    assert rejection(pod(container=profile)) == ("", "")
    assert rejection(pod(securityContext={"appArmorProfile": {"type": "Unconfined"}}), has_apparmor=False) == ("", "")


def test_strict_supplemental_groups_policy_is_rejected_without_support() -> None:
    strict = pod(securityContext={"supplementalGroupsPolicy": "Strict"})
    reason, message = rejection(strict, has_strict_groups=False)
    assert reason == "SupplementalGroupsPolicyNotSupported"
    assert message == "SupplementalGroupsPolicy=Strict is not supported in this node"
    assert rejection(strict) == ("", "")


def test_config_source_annotation_of_api_pods_is_ignored() -> None:
    annotated, plain = pod(source="file"), pod()
    assert (source_of(with_api_source(annotated)), is_critical(with_api_source(annotated))) == ("api", False)
    assert (source_of(annotated), is_critical(annotated)) == (
        "file",
        True,
    )  # the original object is shared and stays unchanged
    assert with_api_source(plain) is plain
