"""Old PodCertificateRequests are deleted."""

from dataclasses import replace

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec

from sampan.api.feature_gates import FeatureGates
from sampan.api.types.certificates_v1 import PodCertificateRequest, PodCertificateRequestSpec
from sampan.api.types.meta_v1 import ObjectMeta
from sampan.controllers.security.pod_certificate_cleaner import PodCertificateCleanerController
from tests.controllers.cluster import CONFIG, cluster, names_of

GATES = FeatureGates(level=37)
UID = "6e5c1e5e-0b2f-4c0f-8a39-2b2f6a1d0f5{}"


def make_request(name: str) -> PodCertificateRequest:
    key = ec.generate_private_key(ec.SECP256R1())
    stub = x509.CertificateSigningRequestBuilder().subject_name(x509.Name([])).sign(key, hashes.SHA256())
    spec = PodCertificateRequestSpec(
        signerName="example.com/signer",
        podName="p",
        podUID=UID.format(1),
        serviceAccountName="default",
        serviceAccountUID=UID.format(2),
        nodeName="n",
        nodeUID=UID.format(3),
        maxExpirationSeconds=86400,
        stubPKCS10Request=stub.public_bytes(serialization.Encoding.DER),
    )
    return PodCertificateRequest(metadata=ObjectMeta(name=name, namespace="default"), spec=spec)


async def test_requests_are_deleted_after_a_quarter_of_an_hour() -> None:
    async with cluster(feature_gates=GATES) as c:
        requests = c.client.for_kind(PodCertificateRequest)
        await requests.create(make_request("old"))
        await c.clock.advance(600)
        config = replace(CONFIG, feature_gates=GATES)
        async with c.running(PodCertificateCleanerController.name, config=config):
            await requests.create(make_request("new"))
            await c.clock.advance(299)
            assert names_of((await requests.list()).items) == ["new", "old"]
            await c.clock.advance(1)
            assert names_of((await requests.list()).items) == ["new"]
            await c.clock.advance(600)
            assert names_of((await requests.list()).items) == []
