"""Hostile images of a user who may create pods, on `sampan up` with real containers."""

from __future__ import annotations

import json
import tarfile
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest

from tests.cli.command import Sampan
from tests.e2e.kubectl.command import Kubectl, find_kubectl
from tests.ports import free_port
from tests.runtimes import engines, registry
from tests.runtimes.images.builders import MadeImage, busybox_with, set_diff_ids, special_file
from tests.skips import requires

pytestmark = [
    requires("root", "crun or runc"),
    pytest.mark.skipif(bool(engines.missing_requirement()), reason=engines.missing_requirement() or "installed"),
    pytest.mark.skipif(find_kubectl() is None, reason="there is no kubectl here"),
]
_RESTRICTED = {
    "runAsNonRoot": True,
    "allowPrivilegeEscalation": False,
    "capabilities": {"drop": ["ALL"]},
    "seccompProfile": {"type": "RuntimeDefault"},
}


@pytest.fixture(scope="module")
def kubectl(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Kubectl]:
    home = tmp_path_factory.mktemp("c")
    sampan = Sampan(home)
    try:
        sampan("up", "--detach", "--secure-port", str(free_port()), "--runtime", "oci")
        config = sampan.directory() / "admin.kubeconfig"
        yield Kubectl(program=find_kubectl() or "", kubeconfig=config, home=home)
    finally:
        sampan("down")


@pytest.fixture(scope="module")
def images() -> Iterator[dict[str, str]]:
    """References of the images by name; a registry serves each of them."""
    images_by_name: dict[str, MadeImage] = {
        "keys": set_diff_ids(MadeImage({"x": b"1"}), "sha256:../../pki"),
        "pipe": busybox_with({"etc/passwd": special_file("etc/passwd", tarfile.FIFOTYPE)}, User="1000"),
        "zeros": busybox_with({}, User="00"),
    }
    with ExitStack() as serving:
        yield {
            name: f"{serving.enter_context(registry.serving(image, f'evil/{name}', 'latest'))}/evil/{name}:latest"
            for name, image in images_by_name.items()
        }


def apply(kubectl: Kubectl, name: str, *, namespace: str = "default", **spec: Any) -> None:
    container = {"name": "c", "image": "sampan.local/host", **spec.pop("container", {})}
    whole = {"terminationGracePeriodSeconds": 0, "restartPolicy": "Never", "containers": [container], **spec}
    manifest = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name, "namespace": namespace}, "spec": whole}
    kubectl("apply", "-f", "-", stdin=json.dumps(manifest))


def wait_for_waiting_reason(kubectl: Kubectl, name: str, reason: str, namespace: str = "default") -> str:
    """Return the message of a container once it waits for this reason."""
    path = "{.status.containerStatuses[0].state.waiting.reason}"
    where = ("-n", namespace, f"pod/{name}")
    kubectl("wait", f"--for=jsonpath={path}={reason}", "--timeout=90s", *where)
    return kubectl("get", "-o", "jsonpath={.status.containerStatuses[0].state.waiting.message}", *where)


def run_to_completion(kubectl: Kubectl, name: str, **spec: Any) -> str:
    """Run a pod until it has succeeded, and return its log."""
    apply(kubectl, name, **spec)
    kubectl("wait", "--for=jsonpath={.status.phase}=Succeeded", "--timeout=90s", f"pod/{name}")
    return kubectl("logs", name)


def test_an_image_volume_does_not_show_the_keys_of_the_cluster(kubectl: Kubectl, images: dict[str, str]) -> None:
    volume = {"name": "keys", "image": {"reference": images["keys"], "pullPolicy": "Always"}}
    mount = {"name": "keys", "mountPath": "/keys"}
    apply(kubectl, "keys", container={"command": ["ls", "/keys"], "volumeMounts": [mount]}, volumes=[volume])
    assert "not a digest" in wait_for_waiting_reason(kubectl, "keys", "ImagePullBackOff")


def test_pods_with_a_pipe_as_etc_passwd_do_not_stop_the_node(kubectl: Kubectl, images: dict[str, str]) -> None:
    for number in range(8):
        apply(kubectl, f"pipe-{number}", container={"image": images["pipe"], "command": ["id"]})
    for number in range(8):
        assert "etc/passwd is a named pipe" in wait_for_waiting_reason(
            kubectl, f"pipe-{number}", "CreateContainerError"
        )
    assert run_to_completion(kubectl, "good", container={"command": ["echo", "still here"]}) == "still here\n"
    kubectl("delete", "pod", "--wait", "--timeout=60s", *(f"pipe-{number}" for number in range(8)))


def test_image_user_00_counts_as_root_in_a_restricted_namespace(kubectl: Kubectl, images: dict[str, str]) -> None:
    kubectl("create", "namespace", "safe")
    kubectl("label", "namespace", "safe", "pod-security.kubernetes.io/enforce=restricted")
    container = {"image": images["zeros"], "command": ["id"], "securityContext": _RESTRICTED}
    apply(kubectl, "zeros", namespace="safe", container=container)
    message = wait_for_waiting_reason(kubectl, "zeros", "CreateContainerConfigError", "safe")
    assert message.startswith("container has runAsNonRoot and image will run as root (pod: ")


def test_too_long_sub_path_is_a_create_container_config_error(kubectl: Kubectl) -> None:
    mount = {"name": "v", "mountPath": "/v", "subPath": "a" * 300}
    apply(kubectl, "long", container={"volumeMounts": [mount]}, volumes=[{"name": "v", "emptyDir": {}}])
    message = wait_for_waiting_reason(kubectl, "long", "CreateContainerConfigError")
    assert message == 'failed to create subPath directory for volumeMount "v" of container "c"'


def test_root_in_the_host_image_cannot_read_private_files_of_the_host(kubectl: Kubectl, tmp_path: Path) -> None:
    secret = Path("/usr/local/etc") / f"sampan-{tmp_path.name}"
    secret.parent.mkdir(exist_ok=True)
    secret.touch(0o600)
    try:
        secret.write_text("treasure")
        output = run_to_completion(
            kubectl, "reader", container={"command": ["sh", "-c", f"id -u; cat {secret} 2>&1; true"]}
        )
    finally:
        secret.unlink()
    assert output == f"0\ncat: {secret}: Permission denied\n"
