"""kubectl auth, create token, certificate and --as: authentication and permissions."""

import base64
import json
from pathlib import Path

import pytest
import yaml
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat

from tests.controllers.security.requests import KEY, pem
from tests.e2e.kubectl.command import Kubectl
from tests.e2e.kubectl.manifests import POD
from tests.e2e.kubectl.namespace_objects import NamespaceObjects


def kubeconfig_flag(user: dict[str, str], kubeconfig: Path, directory: Path) -> str:
    """Return the flag with which kubectl uses these credentials and no others."""
    config = yaml.safe_load(kubeconfig.read_text())
    (entry,) = config["users"]
    entry["user"] = user
    path = directory / "holder.kubeconfig"
    path.write_text(json.dumps(config))
    return f"--kubeconfig={path}"


def test_whoami(kubectl: Kubectl) -> None:
    kubectl.require_version(1, 28)
    user = kubectl.json("auth", "whoami")["status"]["userInfo"]
    assert "system:masters" in user["groups"]
    as_ann = kubectl.json("auth", "whoami", "--as=ann", "--as-group=team")["status"]["userInfo"]
    assert as_ann == {"username": "ann", "groups": ["team", "system:authenticated"]}


def test_can_i(kubectl: Kubectl) -> None:
    assert kubectl("auth", "can-i", "create", "pods") == "yes\n"
    question = ("auth", "can-i", "create", "pods", "--as=ann")
    assert kubectl.run(*question).stdout == "no\n"
    kubectl("create", "role", "maker", "--verb=create,get", "--resource=pods")
    kubectl("create", "rolebinding", "makers", "--role=maker", "--user=ann")
    assert kubectl(*question) == "yes\n"
    listed = [line.split() for line in kubectl("auth", "can-i", "--list", "--as=ann").splitlines()]
    assert ["pods", "[]", "[]", "[create", "get]"] in listed


def test_role_bindings_for_groups_and_service_accounts(kubectl: Kubectl, sampan_namespace: str) -> None:
    namespace = sampan_namespace
    account = f"system:serviceaccount:{namespace}:default"
    kubectl("create", "role", "reader", "--verb=list", "--resource=configmaps")
    kubectl("create", "rolebinding", "team", "--role=reader", "--group=team")
    assert "kube-root-ca.crt" in kubectl("get", "configmaps", "--as=ben", "--as-group=team")
    assert "Forbidden" in kubectl.fails("get", "configmaps", f"--as={account}")
    kubectl("create", "rolebinding", "account", "--role=reader", f"--serviceaccount={namespace}:default")
    assert "kube-root-ca.crt" in kubectl("get", "configmaps", f"--as={account}")
    kubectl("delete", "rolebinding", "account")
    assert "Forbidden" in kubectl.fails("get", "configmaps", f"--as={account}")


def test_impersonated_user_without_permission_is_forbidden(kubectl: Kubectl, sampan_namespace: str) -> None:
    assert kubectl.fails("get", "secrets", "--as=ann") == (
        'Error from server (Forbidden): secrets is forbidden: User "ann" cannot list resource "secrets" in API group '
        f'"" in the namespace "{sampan_namespace}"\n'
    )


@pytest.mark.parametrize("is_bound", [False, True], ids=["unbound", "bound"])
def test_service_account_token_and_its_bound_pod(
    kubectl: Kubectl, objects: NamespaceObjects, sampan_kubeconfig: Path, tmp_path: Path, is_bound: bool
) -> None:
    kubectl.require_version(1, 28)
    objects.apply(POD)
    more = ["--bound-object-kind=Pod", "--bound-object-name=web"] if is_bound else []
    token = kubectl("create", "token", "default", "--duration=20m", *more).strip()
    claims = json.loads(base64.urlsafe_b64decode(token.split(".")[1] + "=="))
    assert claims["exp"] - claims["iat"] == 1200
    holder = kubeconfig_flag({"token": token}, sampan_kubeconfig, tmp_path)
    user = kubectl.json(holder, "auth", "whoami")["status"]["userInfo"]
    assert user["username"] == f"system:serviceaccount:{objects.namespace}:default"
    assert user["extra"].get("authentication.kubernetes.io/pod-name") == (["web"] if is_bound else None)
    kubectl("delete", "pod", "web", "--grace-period=0", "--force")
    assert kubectl.run(holder, "auth", "whoami").returncode == int(is_bound)


def test_role_beyond_own_permissions_cannot_be_created(kubectl: Kubectl) -> None:
    kubectl("create", "rolebinding", "admins", "--clusterrole=system:aggregate-to-admin", "--user=ann")
    assert kubectl("auth", "can-i", "create", "roles", "--as=ann") == "yes\n"
    output = kubectl.fails("create", "role", "more", "--verb=get", "--resource=secrets", "--as=ann")
    assert 'user "ann" (groups=["system:authenticated"]) is attempting to grant RBAC permissions' in output


CSR = """
apiVersion: certificates.k8s.io/v1
kind: CertificateSigningRequest
metadata: {{name: {name}}}
spec:
  request: {request}
  signerName: kubernetes.io/kube-apiserver-client
  usages: [client auth]
  expirationSeconds: 3600
"""


def test_approved_csr_yields_a_client_certificate_that_authenticates(
    kubectl: Kubectl, objects: NamespaceObjects, sampan_kubeconfig: Path, tmp_path: Path
) -> None:
    kubectl.require_version(1, 28)
    name = f"ann-{objects.namespace}"
    objects.apply(CSR.format(name=name, request=base64.b64encode(pem("ann", "team")).decode()))
    try:
        assert "Pending" in kubectl("get", "csr", name)
        assert (
            kubectl("certificate", "approve", name)
            == f"certificatesigningrequest.certificates.k8s.io/{name} approved\n"
        )
        objects.wait_for(f"csr/{name}", "jsonpath={.status.certificate}")
        assert "Approved,Issued" in kubectl("get", "csr", name)
        key = KEY.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())
        credentials = {
            "client-certificate-data": objects.get(f"csr/{name}")["status"]["certificate"],
            "client-key-data": base64.b64encode(key).decode(),
        }
        holder = kubeconfig_flag(credentials, sampan_kubeconfig, tmp_path)
        user = kubectl.json(holder, "auth", "whoami")["status"]["userInfo"]
        assert user["username"] == "ann"
        assert user["groups"] == ["team", "system:authenticated"]
    finally:
        objects.delete(f"csr/{name}")


def test_denied_csr_gets_no_certificate(kubectl: Kubectl, objects: NamespaceObjects) -> None:
    name = f"ben-{objects.namespace}"
    objects.apply(CSR.format(name=name, request=base64.b64encode(pem("ben")).decode()))
    try:
        kubectl("certificate", "deny", name)
        assert "Denied" in kubectl("get", "csr", name)
        assert "certificate" not in objects.get(f"csr/{name}")["status"]
    finally:
        objects.delete(f"csr/{name}")


def test_service_account_token_secret_authenticates_until_it_is_deleted(
    kubectl: Kubectl, objects: NamespaceObjects, sampan_kubeconfig: Path, tmp_path: Path
) -> None:
    kubectl.require_version(1, 28)
    secret = {
        "apiVersion": "v1",
        "kind": "Secret",
        "metadata": {"name": "kept", "annotations": {"kubernetes.io/service-account.name": "default"}},
        "type": "kubernetes.io/service-account-token",
    }
    objects.apply(secret)
    objects.wait_for("secret/kept", "jsonpath={.data.token}")
    data = objects.get("secret/kept")["data"]
    assert sorted(data) == ["ca.crt", "namespace", "token"]
    holder = kubeconfig_flag({"token": base64.b64decode(data["token"]).decode()}, sampan_kubeconfig, tmp_path)
    user = kubectl.json(holder, "auth", "whoami")["status"]["userInfo"]
    assert user["username"] == f"system:serviceaccount:{objects.namespace}:default"
    assert "kubernetes.io/legacy-token-last-used" in objects.get("secret/kept")["metadata"]["labels"]
    kubectl("delete", "secret", "kept")
    assert kubectl.run(holder, "auth", "whoami").returncode == 1
