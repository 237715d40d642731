"""Pods on a real node with certificates and trust bundles in projected volumes; the signer runs in the test program."""

from typing import Any

from sampan.api.types.certificates_v1 import ClusterTrustBundle, PodCertificateRequest
from sampan.api.types.core_v1 import Pod
from sampan.host.clock import RealClock
from tests.e2e.conformance.storage.real_node import IMAGE, real_cluster
from tests.e2e.volumes.real_node_cluster import RealNodeCluster, output_of
from tests.kubelet.volumes.pod_signer import SIGNER, PodSigner

_BUNDLE = "example.com:signer:roots"
_SERVER = "openssl s_server -accept 8443 -www -Verify 2 -verify_return_error -CAfile /v/ca.pem -cert /v/bundle.pem"
_CLIENT = (
    "until openssl s_client -connect {address}:8443 -CAfile /v/ca.pem -verify_return_error -cert /v/tls.crt"
    " -key /v/tls.key </dev/null >/tmp/out 2>&1; do sleep 0.2; done; grep -o 'Verify return code: 0' /tmp/out | head -1"
)


def certificates(**projection: Any) -> dict[str, Any]:
    """Return a volume with a certificate and the trust anchors of its signer."""
    source = {"signerName": SIGNER, "keyType": "ECDSAP256", **projection}
    return {
        "name": "v",
        "projected": {
            "sources": [
                {"podCertificate": source},
                {"clusterTrustBundle": {"signerName": SIGNER, "labelSelector": {}, "path": "ca.pem"}},
            ]
        },
    }


_MOUNTS = {"volumeMounts": [{"name": "v", "mountPath": "/v"}]}


async def check_trust_bundles(cluster: RealNodeCluster, signer: PodSigner) -> None:
    """A pod does not start before its trust bundle exists, and sees its changes."""
    bundle = {"name": "late", "path": "late.pem"}
    volume = {"name": "v", "projected": {"sources": [{"clusterTrustBundle": bundle}]}}
    script = "grep -c BEGIN /v/late.pem; until [ $(grep -c BEGIN /v/late.pem) = 2 ]; do sleep 0.1; done"
    await cluster.create_pod("waiting", script, container=_MOUNTS, volumes=[volume])
    text = 'while getting ClusterTrustBundle: clustertrustbundle.certificates.k8s.io "late" not found'
    await cluster.wait_for_event("waiting", "FailedMount", text)
    pem = signer.ca.certificate.decode()
    await cluster.create(ClusterTrustBundle, "late", spec={"trustBundle": pem})
    await cluster.wait_for_phase("waiting", "Running")
    other = PodSigner(client=cluster.client, kind=PodCertificateRequest, clock=RealClock()).ca.certificate.decode()
    await cluster.client.for_kind(ClusterTrustBundle).patch("late", {"spec": {"trustBundle": pem + other}})
    assert output_of(await cluster.wait_for_phase("waiting", "Succeeded")) == "1"


async def check_mutual_tls(cluster: RealNodeCluster, signer: PodSigner) -> None:
    await cluster.create(
        ClusterTrustBundle, _BUNDLE, spec={"signerName": SIGNER, "trustBundle": signer.ca.certificate.decode()}
    )
    volumes = [certificates(credentialBundlePath="bundle.pem", maxExpirationSeconds=3600)]
    server = {"name": "c", "image": IMAGE, "command": ["sh", "-c", _SERVER], **_MOUNTS}
    await cluster.create_pod("server", "", container=server, volumes=volumes)
    pod = await cluster.wait_for(Pod, "server", lambda pod: pod.status.phase == "Running", "default")
    volumes = [certificates(keyPath="tls.key", certificateChainPath="tls.crt")]
    script = _CLIENT.format(address=pod.status.podIP)
    await cluster.create_pod("client", script, container=_MOUNTS, volumes=volumes)
    assert output_of(await cluster.wait_for_phase("client", "Succeeded")) == "Verify return code: 0"


async def check_refusal(cluster: RealNodeCluster, signer: PodSigner) -> None:
    signer.outcome = "Denied"
    volumes = [certificates(credentialBundlePath="bundle.pem")]
    await cluster.create_pod("refused", "true", container=_MOUNTS, volumes=volumes)
    await cluster.wait_for_event("refused", "Denied", 'was denied, reason="Tested", message="for a test"')
    text = 'PodCertificateRequest was permanently denied: reason="Tested" message="for a test"'
    await cluster.wait_for_event("refused", "FailedMount", text)


def test_pods_get_certificates_and_trust_bundles() -> None:
    with real_cluster("scheduler") as cluster:

        async def scenario() -> None:
            node = RealNodeCluster(cluster)
            signer = PodSigner(client=cluster.client, kind=PodCertificateRequest, clock=RealClock())
            async with signer.running():
                await check_trust_bundles(node, signer)
                await check_mutual_tls(node, signer)
                await check_refusal(node, signer)

        cluster.run(scenario(), timeout_s=300)
