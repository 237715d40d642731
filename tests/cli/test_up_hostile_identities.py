"""Attacks by nodes and users with few rights on identities and certificates of a running `sampan up`."""

from __future__ import annotations

import base64
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from cryptography import x509

from sampan.apiserver.server_address import find_default_route_address
from sampan.machinery.pki.certificates import SigningRequest, common_name
from tests.cli.hostile import HostileCluster, Reply, encode_base64, fake_kubelet, hostile_cluster, node_request
from tests.controllers.security.requests import pem
from tests.eventually import wait_until

RBAC = "/apis/rbac.authorization.k8s.io/v1"
CSRS = "/apis/certificates.k8s.io/v1/certificatesigningrequests"
SECRETS = "/api/v1/namespaces/kube-system/secrets"
PASSWORD = "dG9wc2VjcmV0"
POLICY = {"apiVersion": "audit.k8s.io/v1", "kind": "Policy", "rules": [{"level": "Metadata"}]}


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[HostileCluster]:
    home = tmp_path_factory.mktemp("home")
    (home / "policy.yaml").write_text(json.dumps(POLICY))
    audit = ("--audit-policy-file", str(home / "policy.yaml"), "--audit-log-path", str(home / "audit.log"))
    with hostile_cluster(home, "--runtime", "hollow", "--nodes", "2", *audit) as cluster:
        cluster.make("/api/v1/namespaces", {"metadata": {"name": "team"}})
        cluster.make(SECRETS, {"metadata": {"name": "admin-password"}, "data": {"password": PASSWORD}})
        view = {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "view"}
        viewer = {"apiGroup": "rbac.authorization.k8s.io", "kind": "User", "name": "viewer"}
        requester = {"apiGroup": "rbac.authorization.k8s.io", "kind": "User", "name": "requester"}
        rules = [
            {"apiGroups": ["certificates.k8s.io"], "resources": ["certificatesigningrequests"], "verbs": ["create"]}
        ]
        cluster.make(
            f"{RBAC}/namespaces/team/rolebindings", {"metadata": {"name": "v"}, "roleRef": view, "subjects": [viewer]}
        )
        cluster.make(f"{RBAC}/clusterroles", {"metadata": {"name": "asks"}, "rules": rules})
        cluster.make(
            f"{RBAC}/clusterrolebindings",
            {"metadata": {"name": "asks"}, "roleRef": {**view, "name": "asks"}, "subjects": [requester]},
        )
        yield cluster


def register_hostile_node(cluster: HostileCluster, name: str, address: str, port: int) -> None:
    """Register a node as its kubelet does, by its own certificate, with any address."""
    identity = cluster.issue(name, node_request(name, is_client=True))
    reply = cluster.send("POST", "/api/v1/nodes", {"metadata": {"name": name}}, certificate=identity)
    assert reply.code in (201, 409), reply.body
    status = {
        "addresses": [{"type": "InternalIP", "address": address}],
        "daemonEndpoints": {"kubeletEndpoint": {"Port": port}},
    }
    merge = "application/merge-patch+json"
    path = f"/api/v1/nodes/{name}/status"
    assert cluster.send("PATCH", path, {"status": status}, certificate=identity, media=merge).code == 200


def create_pod_on(cluster: HostileCluster, node: str) -> str:
    name = f"on-{node}"
    container = {"name": "c", "image": "x"}
    spec = {"nodeName": node, "containers": [container], "automountServiceAccountToken": False}
    reply = cluster.send("POST", "/api/v1/namespaces/team/pods", {"metadata": {"name": name}, "spec": spec})
    assert reply.code in (201, 409), reply.body
    return f"/api/v1/namespaces/team/pods/{name}"


def read_log_as_viewer(cluster: HostileCluster, node: str) -> Reply:
    reply = cluster.send("GET", f"{create_pod_on(cluster, node)}/log", token="viewtoken")
    assert PASSWORD.encode() not in reply.body
    return reply


# -- kubelets --------------------------------------------------------------------------------------------------------


def test_a_kubelet_that_redirects_to_the_api_is_not_followed(cluster: HostileCluster) -> None:
    assert cluster.send("GET", SECRETS, token="viewtoken").code == 403
    target = f"https://127.0.0.1:{cluster.port}{SECRETS}"
    serving = cluster.issue("redirecting-server", node_request("redirecting", is_server=True))
    with fake_kubelet(cluster, serving, target) as (port, requests):
        register_hostile_node(cluster, "redirecting", "127.0.0.1", port)
        reply = read_log_as_viewer(cluster, "redirecting")
    assert requests, "the API server trusts the certificate of the kubelet and sends the request"
    assert reply.code == 500
    assert "redirects forbidden" in reply.json["message"]


def test_kubelet_with_a_certificate_of_another_ca_is_not_trusted(cluster: HostileCluster) -> None:
    serving = cluster.issue("homemade", node_request("homemade", is_server=True), is_self_signed=True)
    with fake_kubelet(cluster, serving) as (port, requests):
        register_hostile_node(cluster, "homemade", "127.0.0.1", port)
        reply = read_log_as_viewer(cluster, "homemade")
    assert reply.code == 500
    assert "certificate" in reply.json["message"].lower()
    assert requests == []


def test_node_cannot_direct_the_api_server_to_the_kubelet_of_another_node(cluster: HostileCluster) -> None:
    serving = cluster.issue("victim-server", node_request("victim", is_server=True))
    with fake_kubelet(cluster, serving) as (port, requests):
        register_hostile_node(cluster, "victim", "127.0.0.1", port)
        assert read_log_as_viewer(cluster, "victim").body == b"ok"
        requests.clear()
        register_hostile_node(cluster, "thief", "127.0.0.1", port)
        reply = read_log_as_viewer(cluster, "thief")
    assert (reply.code, requests) == (500, [])
    assert "system:node:victim, not system:node:thief" in reply.json["message"]


@pytest.mark.parametrize("address", ["127.0.0.1", find_default_route_address()])
def test_node_with_the_address_of_the_api_server_exposes_no_secrets(cluster: HostileCluster, address: str) -> None:
    register_hostile_node(cluster, "mirror", address, cluster.port)
    assert read_log_as_viewer(cluster, "mirror").code == 500
    reply = cluster.send("GET", f"/api/v1/nodes/mirror/proxy{SECRETS}")
    assert reply.code >= 400
    assert PASSWORD.encode() not in reply.body


def test_kubelet_client_certificate_of_the_api_server_may_only_access_nodes(cluster: HostileCluster) -> None:
    """This limits the damage if an attacker makes the API server call itself with this certificate."""
    certificate = "apiserver-kubelet-client"
    text = cluster.pki.certificate(certificate).read_bytes()
    subject = x509.load_pem_x509_certificate(text).subject.rfc4514_string()
    assert (common_name(text), subject) == ("kube-apiserver-kubelet-client", "CN=kube-apiserver-kubelet-client")
    for path in (SECRETS, "/api/v1/secrets", "/api/v1/pods", f"{RBAC}/clusterroles"):
        assert cluster.send("GET", path, certificate=certificate).code == 403
    assert cluster.send("GET", "/api/v1/nodes", certificate=certificate).code == 200
    review = {"spec": {"resourceAttributes": {"verb": "create", "resource": "nodes", "subresource": "proxy"}}}
    path = "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews"
    assert cluster.send("POST", path, review, certificate=certificate).json["status"]["allowed"] is True


def test_serving_csr_of_a_node_for_foreign_names_is_not_approved(cluster: HostileCluster) -> None:
    identity = cluster.issue("grabber", node_request("grabber", is_client=True))
    usages = ["digital signature", "server auth"]
    own = pem("system:node:grabber", "system:nodes", names=["grabber.kubelet.sampan.internal"])
    for index, names in enumerate((["kubernetes.default.svc"], ["127.0.0.1"], ["victim.kubelet.sampan.internal"])):
        request = pem("system:node:grabber", "system:nodes", names=names)
        spec = {"request": encode_base64(request), "signerName": "kubernetes.io/kubelet-serving", "usages": usages}
        body = {"metadata": {"name": f"grab-{index}"}, "spec": spec}
        assert cluster.send("POST", CSRS, body, certificate=identity).code == 201
    spec = {"request": encode_base64(own), "signerName": "kubernetes.io/kubelet-serving", "usages": usages}
    body = {"metadata": {"name": "grab-own"}, "spec": spec}
    assert cluster.send("POST", CSRS, body, certificate=identity).code == 201
    cluster.wait_for(f"{CSRS}/grab-own", lambda csr: csr["status"].get("certificate"))
    for index in range(3):  # the controller has seen these requests before the one that it approved
        assert "conditions" not in cluster.send("GET", f"{CSRS}/grab-{index}").json["status"]


# -- simulated addresses of hollow pods -------------------------------------------------------------------------------


NO_PORT = "error trying to reach service: a hollow pod listens on no port"


def create_hollow_service(cluster: HostileCluster) -> None:
    """A running hollow pod `web` behind a service `web`."""
    pod = {"metadata": {"name": "web", "labels": {"app": "web"}}, "spec": _template()["spec"]}
    cluster.send("POST", "/api/v1/namespaces/team/pods", pod)
    spec = {"selector": {"app": "web"}, "ports": [{"port": 80}]}
    cluster.send("POST", "/api/v1/namespaces/team/services", {"metadata": {"name": "web"}, "spec": spec})
    path = "/api/v1/namespaces/team/endpoints/web"
    cluster.wait_for(path, lambda endpoints: endpoints.get("subsets", [{}])[0].get("addresses"))


@pytest.mark.parametrize(
    "target", ["pods/web", "pods/web:8080", "pods/https:web:443", "services/web", "services/web:80"]
)
def test_proxy_request_to_a_hollow_pod_is_not_forwarded(cluster: HostileCluster, target: str) -> None:
    create_hollow_service(cluster)
    reply = cluster.send("GET", f"/api/v1/namespaces/team/{target}/proxy/")
    assert (reply.code, reply.json["reason"]) == (503, "ServiceUnavailable")
    assert reply.json["message"] == NO_PORT


def test_aggregated_api_request_to_a_hollow_pod_is_not_forwarded(cluster: HostileCluster) -> None:
    create_hollow_service(cluster)
    service = {"name": "web", "namespace": "team", "port": 80}
    spec = {"group": "metrics.k8s.io", "version": "v1beta1", "service": service, "insecureSkipTLSVerify": True}
    path = "/apis/apiregistration.k8s.io/v1/apiservices"
    priorities = {"groupPriorityMinimum": 100, "versionPriority": 100}
    body = {"metadata": {"name": "v1beta1.metrics.k8s.io"}, "spec": {**spec, **priorities}}
    if (reply := cluster.send("POST", path, body)).code == 409:
        present = cluster.send("GET", f"{path}/v1beta1.metrics.k8s.io").json["metadata"]
        body = {**body, "metadata": {"name": present["name"], "resourceVersion": present["resourceVersion"]}}
        reply = cluster.send("PUT", f"{path}/v1beta1.metrics.k8s.io", body)
    assert reply.code in (200, 201), reply.body
    nodes = "/apis/metrics.k8s.io/v1beta1/nodes"
    # The metrics of this server's own kubelets are served until the server knows the APIService.
    wait_until(lambda: cluster.send("GET", nodes).code != 200)
    reply = cluster.send("GET", nodes)
    assert (reply.code, reply.body) == (503, b"service unavailable\n")

    def conditions() -> list[dict[str, str]]:
        service = cluster.send("GET", f"{path}/v1beta1.metrics.k8s.io").json
        return list(service.get("status", {}).get("conditions") or ())

    assert NO_PORT in wait_until(conditions)[0]["message"]


def test_kubelet_address_of_a_hollow_node_of_another_process_is_not_contacted(cluster: HostileCluster) -> None:
    """A server listens at that address in this test, and must not receive a request."""
    serving = cluster.issue("simulated-server", node_request("simulated", is_server=True))
    with fake_kubelet(cluster, serving) as (port, requests):
        register_hostile_node(cluster, "simulated", "127.0.0.1", port)
        info = {"status": {"nodeInfo": {"containerRuntimeVersion": "hollow://1.0"}}}
        merge, path = "application/merge-patch+json", "/api/v1/nodes/simulated/status"
        assert cluster.send("PATCH", path, info, certificate="simulated", media=merge).code == 200
        reply = read_log_as_viewer(cluster, "simulated")
        node = cluster.send("GET", "/api/v1/nodes/simulated/proxy/pods")
    assert (reply.code, node.code, requests) == (503, 503, [])
    assert reply.json["message"] == "the kubelet of hollow node simulated listens on no port"


@pytest.mark.parametrize("target", ["node-0:10250", "https:node-0:10250", "http:node-0:10250", "node-0:"])
def test_explicit_port_of_the_kubelet_in_this_process_reaches_it(cluster: HostileCluster, target: str) -> None:
    """The official tests of the node proxy, of the metrics and of the clean-up of pods send such requests."""
    for path in ("pods", "runningpods", "metrics", "metrics/resource", "stats/summary", "healthz"):
        reply = cluster.send("GET", f"/api/v1/nodes/{target}/proxy/{path}")
        assert reply.code == 200, (path, reply.body)


def test_other_ports_of_a_hollow_node_reach_nothing(cluster: HostileCluster) -> None:
    """The Node object names a server that listens in this test, and must not receive a request."""
    serving = cluster.issue("edited-server", node_request("node-1", is_server=True))
    with fake_kubelet(cluster, serving) as (port, requests):
        status = {
            "addresses": [{"type": "InternalIP", "address": find_default_route_address()}],
            "daemonEndpoints": {"kubeletEndpoint": {"Port": port}},
        }
        merge, path = "application/merge-patch+json", "/api/v1/nodes/node-1"
        assert cluster.send("PATCH", f"{path}/status", {"status": status}, media=merge).code == 200
        own, other = cluster.send("GET", f"{path}:{port}/proxy/pods"), cluster.send("GET", f"{path}:1/proxy/pods")
    assert (own.code, own.json["kind"], other.code, requests) == (200, "PodList", 503, [])


@pytest.mark.parametrize("address", ["127.0.0.1", "::ffff:127.0.0.1", "169.254.169.254"])
def test_proxy_to_a_local_address_in_a_node_object_is_refused(cluster: HostileCluster, address: str) -> None:
    serving = cluster.issue("local-server", node_request("local", is_server=True))
    with fake_kubelet(cluster, serving) as (port, requests):
        register_hostile_node(cluster, "local", address, port)
        targets = ("local", f"local:{port}", f"https:local:{port}", f"http:local:{cluster.port}", "https:local:10250")
        replies = [cluster.send("GET", f"/api/v1/nodes/{target}/proxy/pods") for target in targets]
    assert [reply.code for reply in replies] == [400] * len(targets)
    assert {reply.json["message"] for reply in replies} == {"address not allowed"}
    assert requests == []


def test_credentials_are_not_sent_to_another_port_of_a_node(cluster: HostileCluster) -> None:
    """Only the kubelet's port of a node gets the client certificate of the API server, after the node's own one."""
    serving = cluster.issue("owner-server", node_request("owner", is_server=True))
    address = find_default_route_address()
    with fake_kubelet(cluster, serving, host=address) as (port, requests):
        for published, name in ((1, "owner"), (port, "owner"), (port, "stranger")):
            register_hostile_node(cluster, name, address, published)
            cluster.send("GET", f"/api/v1/nodes/https:{name}:{port}/proxy/{name}-{published}")
    assert requests == ["/owner-1", f"/owner-{port} kube-apiserver-kubelet-client"]


# -- signing requests ------------------------------------------------------------------------------------------------

MASTERS, DEV = pem("alice", "system:masters"), pem("alice", "dev")


def join_lines(request: bytes) -> bytes:
    return b"".join(request.splitlines()) + b"\n"


REQUESTS = {
    "masters on one line, then dev": join_lines(MASTERS) + DEV,
    "dev, then masters on one line": DEV + join_lines(MASTERS),
    "masters, then dev": MASTERS + DEV,
    "dev, then masters": DEV + MASTERS,
    "masters after a stray BEGIN": b"-----BEGIN CERTIFICATE REQUEST-----\n" + DEV + MASTERS,
    "masters in carriage returns": MASTERS.replace(b"\n", b"\r") + DEV,
    "text around dev": b"Certificate SigningRequest: system:masters\n" + DEV + b"\nsystem:masters\n",
}


@pytest.mark.parametrize("name", REQUESTS)
def test_csr_of_several_pem_blocks_never_yields_system_masters(cluster: HostileCluster, name: str) -> None:
    object_name = name.replace(",", "").replace(" ", "-").lower()
    usages = ["digital signature", "client auth"]
    spec = {
        "request": encode_base64(REQUESTS[name]),
        "signerName": "kubernetes.io/kube-apiserver-client",
        "usages": usages,
    }
    reply = cluster.send("POST", CSRS, {"metadata": {"name": object_name}, "spec": spec}, token="csrtoken")
    if reply.code != 201:
        assert reply.code in (403, 422), reply.body
        assert name != "text around dev"
        return
    approved = {"type": "Approved", "status": "True", "reason": "Looks good"}
    csr = {**reply.json, "status": {"conditions": [approved]}}
    assert cluster.send("PUT", f"{CSRS}/{object_name}/approval", csr).code == 200
    signed = cluster.wait_for(f"{CSRS}/{object_name}", lambda csr: csr["status"].get("certificate"))
    certificate = x509.load_pem_x509_certificate(base64.b64decode(signed["status"]["certificate"]))
    assert certificate.subject.rfc4514_string() == "CN=alice,O=dev"


def test_csr_with_many_begin_lines_does_not_block_the_server(cluster: HostileCluster) -> None:
    """A request of 72 kB used to take 9 s, and the time grew with the square of the length."""
    usages = ["client auth"]
    request = encode_base64(b"-----BEGIN CERTIFICATE REQUEST-----\n" * 7000)
    spec = {"request": request, "signerName": "kubernetes.io/kube-apiserver-client", "usages": usages}
    reply = cluster.send("POST", CSRS, {"metadata": {"name": "long"}, "spec": spec}, token="csrtoken")
    assert (reply.code, reply.json["reason"]) == (422, "Invalid")


def test_tls_secret_with_many_newlines_does_not_block_the_server(cluster: HostileCluster) -> None:
    text = encode_base64(b"-----BEGIN A-----" + b"\n" * 500_000)
    body = {"metadata": {"name": "s"}, "type": "kubernetes.io/tls", "data": {"tls.crt": text, "tls.key": text}}
    assert cluster.send("POST", "/api/v1/namespaces/team/secrets?dryRun=All", body).code == 201


# -- numbers and nesting ---------------------------------------------------------------------------------------------

LONG = "9" * 5000


def test_deeply_nested_docker_config_is_rejected(cluster: HostileCluster) -> None:
    text = encode_base64(b"[" * 300_000)
    body = {"metadata": {"name": "s"}, "type": "kubernetes.io/dockerconfigjson", "data": {".dockerconfigjson": text}}
    reply = cluster.send("POST", "/api/v1/namespaces/team/secrets", body)
    assert (reply.code, reply.json["reason"]) == (422, "Invalid")
    assert "invalid character '[' exceeded max depth" in reply.json["message"]


def test_a_docker_config_as_deep_as_go_allows_is_stored(cluster: HostileCluster) -> None:
    text = encode_base64(b'{"a":' * 5000 + b"1" + b"}" * 5000)
    body = {"metadata": {"name": "deep"}, "type": "kubernetes.io/dockerconfigjson", "data": {".dockerconfigjson": text}}
    assert cluster.send("POST", "/api/v1/namespaces/team/secrets", body).code == 201


def test_a_json_patch_with_an_index_of_thousands_of_digits_is_refused(cluster: HostileCluster) -> None:
    cluster.make("/api/v1/namespaces/team/pods", {**_template(), "metadata": {"name": "p"}})
    patch = [{"op": "remove", "path": f"/spec/containers/{LONG}"}]
    media = "application/json-patch+json"
    reply = cluster.send("PATCH", "/api/v1/namespaces/team/pods/p", patch, media=media)
    assert (reply.code, reply.json["reason"]) == (422, "Invalid")


@pytest.mark.parametrize(
    ("path", "code"),
    [
        (f"/api/v1/pods?limit={LONG}", 400),
        (f"/api/v1/nodes/node-0:{LONG}/proxy/", 400),
        (f"/api/v1/namespaces/default/services/kubernetes:{LONG}/proxy/", 503),
        (f"/api/v1/namespaces/team/pods/web:{LONG}/proxy/", 503),
    ],
)
def test_number_of_thousands_of_digits_in_a_url_is_not_an_internal_error(
    cluster: HostileCluster, path: str, code: int
) -> None:
    create_hollow_service(cluster)
    reply = cluster.send("GET", path)
    assert reply.code == code, reply.body


@pytest.mark.parametrize("deep", ["header", "payload"])
def test_bearer_token_of_deeply_nested_json_gets_401(cluster: HostileCluster, deep: str) -> None:
    """The token is sent by a client without any rights."""
    nested = {"x": None}
    text = b'{"iss":"https://kubernetes.default.svc.cluster.local","x":' + b"[" * 3000 + b"]" * 3000 + b"}"
    parts = [json.dumps({"alg": "ES256"}).encode(), json.dumps(nested).encode()]
    parts[0 if deep == "header" else 1] = text
    token = ".".join(base64.urlsafe_b64encode(part).decode().rstrip("=") for part in (*parts, b"signature"))
    assert cluster.send("GET", "/version", token=token).code == 401


def test_basic_auth_distinguishes_users_with_the_same_password(cluster: HostileCluster) -> None:
    """Only the second of two such users used to be known."""
    path = "/apis/authentication.k8s.io/v1/selfsubjectreviews"
    replies = [cluster.send("POST", path, {}, password=f"{user}:same") for user in ("ann", "ben")]
    assert [reply.json["status"]["userInfo"]["username"] for reply in replies] == ["ann", "ben"]
    assert cluster.send("POST", path, {}, password="cid:same").code == 401


# -- components ------------------------------------------------------------------------------------------------------


def test_components_other_than_the_api_server_are_not_in_system_masters(cluster: HostileCluster) -> None:
    """The users are those of all requests in the audit log of a running cluster."""
    spec = {"replicas": 2, "selector": {"matchLabels": {"a": "b"}}, "template": _template()}
    cluster.make("/apis/apps/v1/namespaces/team/deployments", {"metadata": {"name": "d"}, "spec": spec})
    cluster.wait_for(
        "/apis/apps/v1/namespaces/team/deployments/d", lambda deployment: deployment["status"].get("readyReplicas") == 2
    )
    lines = (Path(cluster.directory).parent.parent / "audit.log").read_text().splitlines()
    users = {event["user"]["username"]: event["user"].get("groups", []) for event in map(json.loads, lines)}
    masters = {name for name, groups in users.items() if "system:masters" in groups}
    assert masters <= {"kubernetes-admin", "system:apiserver"}
    assert {"system:kube-scheduler", "system:kube-controller-manager", "system:sampan:fleet"} <= set(users)
    assert {"system:node:node-0", "system:node:node-1"} <= set(users)
    assert any(name.startswith("system:serviceaccount:kube-system:deployment-controller") for name in users)
    for path in sorted(cluster.pki.directory.glob("*.crt")):
        organizations = x509.load_pem_x509_certificate(path.read_bytes()).subject.rfc4514_string()
        assert ("system:masters" in organizations) == (path.stem == "admin"), path


def _template() -> dict[str, Any]:
    container = {"name": "c", "image": "x"}
    spec = {"containers": [container], "automountServiceAccountToken": False}
    return {"metadata": {"labels": {"a": "b"}}, "spec": spec}


def test_old_kubelet_client_certificate_in_system_masters_is_replaced(tmp_path: Path) -> None:
    from sampan.cluster.pki import CA, KUBELET_CLIENT, Pki
    from sampan.machinery.pki.certificates import KeyPair, issue

    pki, now = Pki(tmp_path / "pki"), 1_700_000_000.0
    pki.ensure(names=["localhost"], now=now)
    ca = KeyPair(pki.certificate(CA).read_bytes(), pki.key(CA).read_bytes())
    request = SigningRequest(
        common_name="kube-apiserver-kubelet-client", organizations=["system:masters"], is_client=True
    )
    old = issue(ca, request, now=now)
    pki.certificate(KUBELET_CLIENT).write_bytes(old.certificate)
    pki.key(KUBELET_CLIENT).write_bytes(old.key)
    kept = json.loads((pki.directory / "kept.json").read_text())
    del kept[KUBELET_CLIENT]["subject"]
    (pki.directory / "kept.json").write_text(json.dumps(kept))
    pki.ensure(names=["localhost"], now=now)
    certificate = x509.load_pem_x509_certificate(pki.certificate(KUBELET_CLIENT).read_bytes())
    assert certificate.subject.rfc4514_string() == "CN=kube-apiserver-kubelet-client"
