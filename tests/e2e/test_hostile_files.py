"""Hostile pods in a namespace with the Pod Security level `restricted`, on `sampan up` with real containers."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from sampan.host.linux.directory_trees import measure_tree
from tests.cli.command import Sampan
from tests.e2e.kubectl.command import Kubectl, find_kubectl
from tests.ports import free_port
from tests.runtimes import engines
from tests.skips import requires

pytestmark = [
    requires("root", "crun or runc"),
    pytest.mark.skipif(bool(engines.missing_requirement()), reason=engines.missing_requirement() or "installed"),
    pytest.mark.skipif(find_kubectl() is None, reason="there is no kubectl here"),
]
_RESTRICTED = {
    "runAsNonRoot": True,
    "runAsUser": 1000,
    "allowPrivilegeEscalation": False,
    "capabilities": {"drop": ["ALL"]},
    "seccompProfile": {"type": "RuntimeDefault"},
}
_DEEP = "for (1..1500) { mkdir 'd' and chdir 'd' or die $! }"
"""A Perl statement that creates nested directories, whose paths are too long for system calls."""
_FILL = "open my $f, '>', 'file' or die $!; print $f 'x' x (60 << 20) or die $!; close $f or die $!"
"""A Perl statement that writes 60 MiB."""


class Machine:
    def __init__(self, home: Path) -> None:
        self.sampan = Sampan(home)
        self.directory = self.sampan.directory()
        self.kubectl = Kubectl(program=find_kubectl() or "", kubeconfig=self.directory / "admin.kubeconfig", home=home)

    def apply(self, kind: str, name: str, **content: Any) -> None:
        manifest = {"apiVersion": "v1", "kind": kind, "metadata": {"name": name, "namespace": "safe"}, **content}
        self.kubectl("apply", "-f", "-", stdin=json.dumps(manifest))

    def run(self, name: str, script: str, *, container: dict[str, Any] | None = None, **spec: Any) -> None:
        """Create a pod that runs a shell script."""
        main: dict[str, Any] = {"name": "c", "image": "sampan.local/host", "command": ["sh", "-c", script]}
        main |= {"securityContext": _RESTRICTED, **(container or {})}
        whole = {"terminationGracePeriodSeconds": 0, "restartPolicy": "Never", "containers": [main], **spec}
        self.apply("Pod", name, spec=whole)

    def wait_for_phase(self, name: str, phase: str) -> None:
        self.kubectl(
            *("wait", "-n", "safe", f"--for=jsonpath={{.status.phase}}={phase}", "--timeout=120s", f"pod/{name}")
        )

    def field(self, name: str, path: str) -> str:
        return self.kubectl("get", "-n", "safe", f"pod/{name}", "-o", f"jsonpath={{{path}}}")

    def wait_for_eviction(self, name: str) -> str:
        self.kubectl("wait", "-n", "safe", "--for=jsonpath={.status.reason}=Evicted", "--timeout=120s", f"pod/{name}")
        return self.field(name, ".status.message")


@pytest.fixture(scope="module")
def machine(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Machine]:
    machine = Machine(tmp_path_factory.mktemp("c"))
    try:
        machine.sampan("up", "--detach", "--secure-port", str(free_port()), "--runtime", "oci")
        machine.kubectl("create", "namespace", "safe")
        machine.kubectl("label", "namespace", "safe", "pod-security.kubernetes.io/enforce=restricted")
        machine.apply("ConfigMap", "settings", data={"key": "value"})
        yield machine
    finally:
        machine.sampan("down")


def test_a_mount_path_with_dot_segments_creates_nothing_on_the_machine(machine: Machine, tmp_path: Path) -> None:
    outside = f"/opt/foo/{'../' * 40}{str(tmp_path / 'created/by/a/pod').lstrip('/')}"
    mounts = [{"name": "settings", "mountPath": "/opt/foo"}, {"name": "empty", "mountPath": outside}]
    volumes = [{"name": "settings", "configMap": {"name": "settings"}}, {"name": "empty", "emptyDir": {}}]
    machine.run("dots", "cat /opt/foo/key", container={"volumeMounts": mounts}, volumes=volumes)
    machine.wait_for_phase("dots", "Succeeded")
    assert os.listdir(tmp_path) == []


@pytest.mark.parametrize("kind", ["volume", "layer"])
def test_files_below_deep_directories_count_against_the_limits_of_a_pod(machine: Machine, kind: str) -> None:
    mounts, limit = [{"name": "empty", "mountPath": "/deep"}], {"limits": {"ephemeral-storage": "20Mi"}}
    container = {"volumeMounts": mounts} if kind == "volume" else {"resources": limit}
    place = "/deep" if kind == "volume" else "/tmp"
    script = f"""cd {place} && perl -e "{_DEEP} {_FILL}" && sleep 600"""
    machine.run(
        f"deep-{kind}",
        script.replace("$", r"\$"),
        container=container,
        volumes=[{"name": "empty", "emptyDir": {"sizeLimit": "20Mi"}}],
    )
    message = machine.wait_for_eviction(f"deep-{kind}")
    assert "exceeds the limit" in message if kind == "volume" else "ephemeral" in message


def test_the_termination_message_counts_against_the_limit_of_a_pod(machine: Machine) -> None:
    limit = {"limits": {"ephemeral-storage": "20Mi"}}
    script = "head -c 60M /dev/zero > /dev/termination-log && sleep 600"
    machine.run("message", script, container={"resources": limit})
    assert "ephemeral local storage" in machine.wait_for_eviction("message")


def test_the_hosts_file_counts_against_the_limit_of_a_pod(machine: Machine) -> None:
    """Only root may write to it, which the level `baseline` admits."""
    limit = {"limits": {"ephemeral-storage": "20Mi"}}
    machine.kubectl("create", "namespace", "baseline")
    main: dict[str, Any] = {"name": "c", "image": "sampan.local/host", "resources": limit}
    main |= {"command": ["sh", "-c", "head -c 60M /dev/zero >> /etc/hosts && sleep 600"]}
    pod = {"terminationGracePeriodSeconds": 0, "restartPolicy": "Never", "containers": [main]}
    manifest = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "hosts", "namespace": "baseline"}, "spec": pod}
    machine.kubectl("apply", "-f", "-", stdin=json.dumps(manifest))
    reason = "--for=jsonpath={.status.reason}=Evicted"
    machine.kubectl("wait", "-n", "baseline", reason, "--timeout=120s", "pod/hosts")


def test_root_cannot_write_to_the_resolver_configuration_and_the_host_name(machine: Machine) -> None:
    script = "echo x 2>&1 >> /etc/resolv.conf; echo x 2>&1 >> /etc/hostname; test -s /etc/resolv.conf && echo kept"
    main = {"name": "c", "image": "sampan.local/host", "command": ["sh", "-c", f"({script}) 2>&1"]}
    manifest = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "writer", "namespace": "default"}}
    manifest |= {"spec": {"restartPolicy": "Never", "containers": [main]}}
    machine.kubectl("apply", "-f", "-", stdin=json.dumps(manifest))
    machine.kubectl("wait", "--for=jsonpath={.status.phase}=Succeeded", "--timeout=120s", "pod/writer")
    output = machine.kubectl("logs", "writer")
    assert output.count("Read-only file system") == 2
    assert output.endswith("kept\n")


def test_a_deep_directory_in_a_volume_prevents_neither_snapshots_nor_deletion(machine: Machine, tmp_path: Path) -> None:
    request = {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}}
    machine.apply("PersistentVolumeClaim", "data", spec=request)
    volumes = [{"name": "data", "persistentVolumeClaim": {"claimName": "data"}}]
    script = f"""cd /data && echo kept > file && perl -e "{_DEEP}" """
    machine.run(
        "claimant", script, container={"volumeMounts": [{"name": "data", "mountPath": "/data"}]}, volumes=volumes
    )
    machine.wait_for_phase("claimant", "Succeeded")
    [volume] = os.listdir(machine.directory / "volumes")
    assert measure_tree(machine.directory / "volumes" / volume).inodes == 1502
    output = machine.sampan("snapshot", "save", str(tmp_path / "snapshot"))
    assert "left out" in output
    machine.kubectl("delete", "-n", "safe", "pod/claimant", "pvc/data", "--timeout=60s")
    machine.kubectl("wait", "--for=delete", "pv", "--all", "--timeout=60s")
    assert os.listdir(machine.directory / "volumes") == []
