"""ClusterTrustBundles: names, signers, trust anchors, and the permission to attest for a signer."""

import time
from typing import Any

import msgspec
import pytest

from sampan.api.scheme import builtin_scheme
from sampan.apiserver.admission.plugins import default_plugins
from sampan.apiserver.authz import Attributes
from sampan.apiserver.config.server_config import ServerConfig
from sampan.apiserver.registry.certificate_rules import find_trust_anchor_errors
from sampan.apiserver.request.call import AUTHENTICATED, UserInfo
from sampan.apiserver.server import ApiServer
from sampan.host.clock import VirtualClock
from sampan.machinery import errors
from sampan.machinery.client.transport import Request as TransportRequest
from sampan.machinery.pki.certificates import SigningRequest, issue, make_ca
from sampan.storage.memory import MemoryBackend
from tests.apiserver.cluster import Cluster
from tests.apiserver.in_process_server import in_process_client, run
from tests.apiserver.validation_errors import messages_of
from tests.eventually import eventually

PATH = "/apis/certificates.k8s.io/v1beta1/clustertrustbundles"
RUNTIME_CONFIG = {"certificates.k8s.io/v1beta1/clustertrustbundles": True}
CA = make_ca("anchor", now=time.time())
ANCHOR = CA.certificate.decode()
OTHER = make_ca("other", now=time.time()).certificate.decode()
LEAF = issue(CA, SigningRequest(common_name="leaf", is_client=True), now=time.time()).certificate.decode()

RBAC = "/apis/rbac.authorization.k8s.io/v1"
PUBLISHER = UserInfo("ann", "", ("publishers", AUTHENTICATED))
ROLE = {
    "metadata": {"name": "publisher"},
    "rules": [
        {"apiGroups": ["certificates.k8s.io"], "resources": ["clustertrustbundles"], "verbs": ["*"]},
        {
            "apiGroups": ["certificates.k8s.io"],
            "resources": ["signers"],
            "verbs": ["attest"],
            "resourceNames": ["example.com/*"],
        },
    ],
}
BINDING = {
    "metadata": {"name": "publisher"},
    "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "publisher"},
    "subjects": [{"apiGroup": "rbac.authorization.k8s.io", "kind": "Group", "name": "publishers"}],
}
CREATE_BUNDLE = Attributes(
    PUBLISHER, "create", group="certificates.k8s.io", version="v1beta1", resource="clustertrustbundles"
)


def bundle(name: str, signer: str = "", text: str = ANCHOR) -> dict[str, Any]:
    spec = {"trustBundle": text, **({"signerName": signer} if signer else {})}
    return {"metadata": {"name": name}, "spec": spec}


def run_with_bundles(work: Any) -> None:
    async def main() -> None:
        async with in_process_client(builtin_scheme(RUNTIME_CONFIG), default_plugins()) as client:
            await work(Cluster(client))

    run(main())


def test_bundles_are_not_served_by_default() -> None:
    async def main() -> None:
        async with in_process_client() as client:
            assert (await client.get(PATH)).code == 404

    run(main())


def test_bundles_with_and_without_signer_can_be_created_selected_and_updated() -> None:
    async def work(cluster: Cluster) -> None:
        await cluster.make(PATH, bundle("plain"))
        await cluster.make(PATH, bundle("example.com:s:v1", "example.com/s"))
        assert (await cluster.send("GET", f"{PATH}/example.com:s:v1")).code == 200
        assert await cluster.get_cells(PATH) == [["example.com:s:v1", "example.com/s"], ["plain", "<none>"]]
        selected = (await cluster.send("GET", f"{PATH}?fieldSelector=spec.signerName%3Dexample.com%2Fs")).json
        assert [obj["metadata"]["name"] for obj in selected["items"]] == ["example.com:s:v1"]
        changed = await cluster.patch(f"{PATH}/example.com:s:v1", {"spec": {"trustBundle": ANCHOR + OTHER}})
        assert changed.code == 200
        moved = await cluster.patch(f"{PATH}/plain", {"spec": {"signerName": "example.com/s"}})
        assert messages_of(moved) == [
            'metadata.name: Invalid value: "plain": ClusterTrustBundle for signerName example.com/s must be named '
            "with prefix example.com:s:",
            'spec.signerName: Invalid value: "example.com/s": field is immutable',
        ]

    run_with_bundles(work)


@pytest.mark.parametrize(
    ("value", "start"),
    [
        (
            bundle("a:b"),
            'metadata.name: Invalid value: "a:b": ClusterTrustBundle without signer name must not have ":" in its name',
        ),
        (
            bundle("other:v1", "example.com/s"),
            'metadata.name: Invalid value: "other:v1": ClusterTrustBundle for signerName example.com/s must be named '
            "with prefix example.com:s:",
        ),
        (bundle("example.com:s:V1", "example.com/s"), 'metadata.name: Invalid value: "example.com:s:V1": a lowercase'),
        (bundle("s:v1", "s"), 'spec.signerName: Invalid value: "s": must be a fully qualified domain and path'),
        (
            bundle("a", text="x"),
            'spec.trustBundle: Invalid value: "<value omitted>": at least one trust anchor must be provided',
        ),
    ],
)
def test_invalid_bundles_are_rejected(value: dict[str, Any], start: str) -> None:
    async def work(cluster: Cluster) -> None:
        (message,) = messages_of(await cluster.send("POST", PATH, value))
        assert message.startswith(start)

    run_with_bundles(work)


@pytest.mark.parametrize(
    ("text", "faults"),
    [
        (ANCHOR + "words between\n" + OTHER, []),
        (ANCHOR + OTHER + ANCHOR, ["duplicate trust anchor (indices [0 2])"]),
        (ANCHOR + LEAF, ["entry 1 does not have the CA bit set"]),
        (ANCHOR.replace("CERTIFICATE", "THING") + OTHER, ["entry 0 has bad block type: THING"]),
        (ANCHOR.replace("-----\n", "-----\na: b\n\n", 1), ["entry 0 has PEM block headers"]),
        ("-----BEGIN CERTIFICATE-----\naGk=\n-----END CERTIFICATE-----\n", ["entry 0 does not parse as X.509"]),
        ("", ["at least one trust anchor must be provided"]),
    ],
)
def test_errors_of_trust_anchors(text: str, faults: list[str]) -> None:
    assert find_trust_anchor_errors(text.encode()) == faults


def test_bundle_for_signer_requires_attest_permission() -> None:
    async def make(server: ApiServer, path: str, value: Any, user: UserInfo | None = None) -> None:
        transport = server.loopback(user) if user is not None else server.loopback()
        headers = {"Content-Type": "application/json"}
        body = msgspec.json.encode(value)
        await transport.send(TransportRequest(method="POST", path=path, query=(), headers=headers, body=body))

    async def main() -> None:
        clock = VirtualClock()
        config = ServerConfig(secure_port=0, advertise_address="192.0.2.1", runtime_config=RUNTIME_CONFIG)
        async with (
            MemoryBackend(clock=clock) as backend,
            ApiServer(config=config, backend=backend, clock=clock) as server,
        ):
            await make(server, f"{RBAC}/clusterroles", ROLE)
            await make(server, f"{RBAC}/clusterrolebindings", BINDING)
            await eventually(lambda: server.security.authorizer.is_allowed(CREATE_BUNDLE))
            await make(server, PATH, bundle("plain"), PUBLISHER)
            await make(server, PATH, bundle("example.com:s:v1", "example.com/s"), PUBLISHER)
            with pytest.raises(errors.Forbidden) as rejection:
                await make(server, PATH, bundle("example.org:s:v1", "example.org/s"), PUBLISHER)
            assert rejection.value.message == (
                'clustertrustbundles.certificates.k8s.io "example.org:s:v1" is forbidden: '
                'user not permitted to attest for signerName "example.org/s"'
            )

    run(main())
