"""`sampan kubelet` with a bootstrap token: the kubelet requests its client and serving certificates."""

import base64
import ssl
import urllib.error
import urllib.request
from pathlib import Path

import yaml

from sampan.api.types.certificates_v1 import CertificateSigningRequest, CertificateSigningRequestCondition
from sampan.api.types.core_v1 import Node, Secret
from sampan.api.types.meta_v1 import ObjectMeta
from sampan.machinery.client import Client
from sampan.machinery.copies import copy_of
from tests.cli.command import Sampan
from tests.cli.kubelet import run_as_admin, running_kubelet
from tests.eventually import eventually, wait_until
from tests.kubelet.agent.bootstrap_rights import bind_bootstrap_roles
from tests.ports import free_port

NODE, ID, SECRET = "joining", "abcdef", "0123456789abcdef"


def write_bootstrap_config(admin: Path, path: Path) -> Path:
    """Write a kubeconfig of the same cluster whose only credential is the bootstrap token."""
    config = yaml.safe_load(admin.read_text())
    config["users"][0]["user"] = {"token": f"{ID}.{SECRET}"}
    path.write_text(yaml.safe_dump(config))
    return path


def write_ca(admin: Path, path: Path) -> Path:
    data = yaml.safe_load(admin.read_text())["clusters"][0]["cluster"]["certificate-authority-data"]
    path.write_bytes(base64.b64decode(data))
    return path


async def create_bootstrap_token(client: Client) -> None:
    data = {
        "token-id": ID,
        "token-secret": SECRET,
        "usage-bootstrap-authentication": "true",
        "auth-extra-groups": "system:bootstrappers:nodes",
    }
    await client.for_kind(Secret).create(
        Secret(
            metadata=ObjectMeta(name=f"bootstrap-token-{ID}", namespace="kube-system"),
            type="bootstrap.kubernetes.io/token",
            data={key: text.encode() for key, text in data.items()},
        )
    )
    await bind_bootstrap_roles(client)


async def wait_until_registered(client: Client) -> None:
    async def is_registered() -> bool:
        return NODE in [node.metadata.name for node in (await client.for_kind(Node).list()).items]

    await eventually(is_registered, poll_s=0.05)


async def approve_serving(client: Client) -> None:
    """Approve the request for a serving certificate, as an administrator does: no controller approves it."""
    requests = client.for_kind(CertificateSigningRequest)

    async def list_pending_requests() -> list[CertificateSigningRequest]:
        return [
            request
            for request in (await requests.list()).items
            if request.spec.signerName == "kubernetes.io/kubelet-serving" and not request.status.conditions
        ]

    request = copy_of((await eventually(list_pending_requests, poll_s=0.05))[0])
    assert request.spec.username == f"system:node:{NODE}"
    request.status.conditions.append(
        CertificateSigningRequestCondition(type="Approved", status="True", reason="Looks", message="")
    )
    await requests.update(request, subresource="approval")


def wait_for_error_code(url: str, ca: Path) -> int:
    """Wait until the port has a certificate of the cluster's CA, and return the status code of the error response."""
    context = ssl.create_default_context(cafile=str(ca))

    def try_request() -> int:
        try:
            urllib.request.urlopen(url, context=context, timeout=5).close()
        except urllib.error.HTTPError as error:
            with error:
                return error.code
        return 0

    return wait_until(try_request, poll_s=0.05, ignore=(OSError,))


async def delete_node(client: Client) -> None:
    await client.for_kind(Node).delete(NODE)


def test_kubelet_joins_with_a_bootstrap_token_and_restarts_without_token(sampan: Sampan, tmp_path: Path) -> None:
    server, port, kubeconfig = str(free_port()), str(free_port()), tmp_path / "kubelet.conf"
    components = ("--components", "apiserver,controllers", "--enable-bootstrap-token-auth")
    sampan("up", "--detach", "--secure-port", server, "--bind-address", "127.0.0.1", *components)
    admin = sampan.directory() / "admin.kubeconfig"
    run_as_admin(admin, create_bootstrap_token)
    root = tmp_path / "root"
    words = ["--kubeconfig", str(kubeconfig), "--hostname-override", NODE, "--rotate-server-certificates"]
    words += ["--address", "127.0.0.1", "--port", port]
    bootstrap_flags = ("--bootstrap-kubeconfig", str(write_bootstrap_config(admin, tmp_path / "bootstrap.conf")))
    with running_kubelet(sampan, root, *words, *bootstrap_flags):
        run_as_admin(admin, wait_until_registered)
        run_as_admin(admin, approve_serving)
        assert wait_for_error_code(f"https://127.0.0.1:{port}/pods", write_ca(admin, tmp_path / "ca.crt")) == 401
    user = yaml.safe_load(kubeconfig.read_text())["users"][0]["user"]
    assert user["client-certificate"] == str(root / "pki" / "kubelet-client-current.pem")
    run_as_admin(admin, delete_node)
    with running_kubelet(sampan, root, *words):
        run_as_admin(admin, wait_until_registered)
