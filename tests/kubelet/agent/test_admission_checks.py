"""What pods may not do, and what the machine cannot see to."""

from pathlib import Path
from typing import Any

import pytest

from sampan.api.codec import json
from sampan.api.types.core_v1 import Pod
from sampan.kubelet.admission import from_api, is_critical, source_of
from sampan.kubelet.agent.admission_checks import enforcement_failure
from sampan.kubelet.agent.config import AgentConfig

PRIVILEGED = {"securityContext": {"privileged": True}}


def pod(*, source: str = "", container: dict[str, Any] | None = None, **spec: Any) -> Pod:
    notes = {"kubernetes.io/config.source": source} if source else {}
    pod_spec = {"containers": [{"name": "c", "image": "i", **(container or {})}], **spec}
    return json.from_value({"metadata": {"name": "p", "uid": "u", "annotations": notes}, "spec": pod_spec}, Pod)


def refusal(pod: Pod, *, has_apparmor: bool = True, has_strict_groups: bool = True, **config: Any) -> tuple[str, str]:
    settings = AgentConfig(name="n", root=Path("/"), logs=Path("/"), **config)
    failure = enforcement_failure(pod, settings, has_apparmor=has_apparmor, has_strict_groups=has_strict_groups)
    return (failure.reason, failure.message) if failure is not None else ("", "")


@pytest.mark.parametrize(
    ("pod", "config", "what"),
    [
        (pod(container=PRIVILEGED), {"allows_privileged": False}, "privileged container"),
        (pod(initContainers=[{"name": "i", **PRIVILEGED}]), {"allows_privileged": False}, "privileged container"),
        (pod(hostNetwork=True), {"host_network_sources": ["file"]}, "host networking"),
        (pod(hostPID=True), {"host_pid_sources": []}, "host PID"),
        (pod(hostIPC=True, source="http"), {"host_ipc_sources": ["api", "file"]}, "host ipc"),
    ],
)
def test_pods_that_the_kubelet_configuration_does_not_allow(pod: Pod, config: dict[str, Any], what: str) -> None:
    assert refusal(pod, **config) == ("Blocked", f'pod with UID "u" specified {what}, but is disallowed')
    assert refusal(pod) == ("", "")


def test_of_its_own_source_a_pod_may() -> None:
    assert refusal(pod(hostNetwork=True, source="file"), host_network_sources=["file"]) == ("", "")


def test_sysctls() -> None:
    unsafe = pod(securityContext={"sysctls": [{"name": "kernel.msgmax", "value": "1"}]})
    assert refusal(unsafe) == ("SysctlForbidden", 'forbidden sysctl: "kernel.msgmax" not allowlisted')
    assert refusal(unsafe, allowed_unsafe_sysctls=["kernel.msg*"]) == ("", "")
    assert refusal(pod(securityContext={"sysctls": [{"name": "net.ipv4.tcp_syncookies", "value": "1"}]})) == ("", "")


def test_profiles_that_nobody_would_enforce() -> None:
    profile: dict[str, Any] = {"securityContext": {"appArmorProfile": {"type": "RuntimeDefault"}}}
    message = "Cannot enforce AppArmor: AppArmor is not enabled on the host"
    assert refusal(pod(container=profile), has_apparmor=False) == ("AppArmor", message)
    assert refusal(pod(**profile), has_apparmor=False) == ("AppArmor", message)
    assert refusal(pod(container=profile)) == ("", "")
    assert refusal(pod(securityContext={"appArmorProfile": {"type": "Unconfined"}}), has_apparmor=False) == ("", "")


def test_groups_policy_that_nobody_would_heed() -> None:
    strict = pod(securityContext={"supplementalGroupsPolicy": "Strict"})
    reason, message = refusal(strict, has_strict_groups=False)
    assert reason == "SupplementalGroupsPolicyNotSupported"
    assert message == "SupplementalGroupsPolicy=Strict is not supported in this node"
    assert refusal(strict) == ("", "")


def test_pods_of_the_api_server_are_of_no_other_source() -> None:
    liar, plain = pod(source="file"), pod()
    assert (source_of(from_api(liar)), is_critical(from_api(liar))) == ("api", False)
    assert (source_of(liar), is_critical(liar)) == ("file", True)  # it was copied: others have it too
    assert from_api(plain) is plain
