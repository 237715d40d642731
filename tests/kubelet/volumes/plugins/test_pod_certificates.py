"""Certificates of pods in projected volumes, against a real API server and a signer in the test program."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import ec, ed25519, rsa

from sampan.api.feature_gates import FeatureGates
from sampan.api.types.certificates_v1 import PodCertificateRequest
from sampan.api.types.core_v1 import Pod, PodCertificateProjection
from sampan.host.clock import VirtualClock
from sampan.kubelet.volumes import VolumeManager
from sampan.kubelet.volumes.contract import VolumeOperationError
from sampan.kubelet.volumes.mounter import Mounter
from sampan.kubelet.volumes.plugins.pod_certificates import Credentials, clean_chain, generate_key
from sampan.kubelet.volumes.plugins.projected import certificate_files
from sampan.machinery.pki.certificates import make_ca
from tests.eventually import eventually
from tests.kubelet.volumes.pod_signer import SIGNER, PodSigner
from tests.kubelet.volumes.volume_manager_node import Scene, run_scenario

_GATES = FeatureGates(level=37)


@pytest.mark.parametrize(
    ("key_type", "kind", "bits"),
    [
        ("RSA3072", rsa.RSAPrivateKey, 3072),
        ("RSA4096", rsa.RSAPrivateKey, 4096),
        ("ECDSAP256", ec.EllipticCurvePrivateKey, 256),
        ("ECDSAP384", ec.EllipticCurvePrivateKey, 384),
        ("ECDSAP521", ec.EllipticCurvePrivateKey, 521),
        ("ED25519", ed25519.Ed25519PrivateKey, 0),
    ],
)
def test_keys_of_all_types_prove_their_possession(key_type: str, kind: type[Any], bits: int) -> None:
    pem, request = generate_key(key_type)
    key: Any = serialization.load_pem_private_key(pem, None)
    stub = x509.load_der_x509_csr(request)
    assert isinstance(key, kind), key_type
    assert getattr(key, "key_size", 0) == bits
    assert pem.startswith(b"-----BEGIN PRIVATE KEY-----\n")
    assert (stub.is_signature_valid, stub.public_key(), list(stub.subject)) == (True, key.public_key(), [])


def test_unknown_key_type_is_an_error() -> None:
    with pytest.raises(VolumeOperationError, match='unknown key type "DSA"'):
        generate_key("DSA")


def test_chain_is_cleaned_of_text_and_headers() -> None:
    pem = make_ca("a", now=0).certificate.decode()
    marked = pem.replace("-----BEGIN CERTIFICATE-----\n", "-----BEGIN CERTIFICATE-----\nKey: value\n\n")
    assert clean_chain(f"words\n{marked}more words\n{pem}") == (pem * 2).encode()


def test_files_of_a_certificate_are_those_that_have_a_path() -> None:
    credentials = Credentials(b"key\n", b"chain\n")
    whole = PodCertificateProjection(credentialBundlePath="bundle.pem")
    parts = PodCertificateProjection(keyPath="tls.key", certificateChainPath="tls.crt")
    assert certificate_files(whole, credentials) == {"bundle.pem": b"key\nchain\n"}
    assert certificate_files(parts, credentials) == {"tls.key": b"key\n", "tls.crt": b"chain\n"}


async def make_pod(scene: Scene, **projection: Any) -> Pod:
    """Return a pod with a podCertificate volume on node n."""
    part = {"signerName": SIGNER, "keyType": "ED25519", "credentialBundlePath": "bundle.pem", **projection}
    volume = {"name": "v", "projected": {"sources": [{"podCertificate": part}], "defaultMode": 0o644}}
    return await scene.pod(volumes=[volume])


@asynccontextmanager
async def signing(scene: Scene, **options: Any) -> AsyncIterator[PodSigner]:
    signer = PodSigner(client=scene.client, kind=PodCertificateRequest, clock=scene.cluster.clock, **options)
    async with signer.running():
        yield signer


def running_manager(scene: Scene, gates: FeatureGates = _GATES) -> AbstractAsyncContextManager[VolumeManager]:
    return scene.running_manager(mounter=Mounter(can_mount=False), feature_gates=gates)


def read_bundle(scene: Scene, pod: Pod) -> tuple[Any, x509.Certificate]:
    """Return the key and the certificate in the volume of the pod."""
    text = (scene.directory(pod, "projected", "v") / "bundle.pem").read_bytes()
    return serialization.load_pem_private_key(text, None), x509.load_pem_x509_certificate(
        text[text.index(b"-----BEGIN CERT") :]
    )


def test_certificate_is_requested_and_mounted(tmp_path: Path) -> None:
    async def scenario(scene: Scene) -> None:
        async with signing(scene) as signer, running_manager(scene) as manager:
            pod = await make_pod(scene, maxExpirationSeconds=7200, userAnnotations={"example.com/path": "/custom"})
            await manager.mount(pod)
            key, certificate = read_bundle(scene, pod)
            assert certificate.public_key() == key.public_key()
            assert (certificate.not_valid_after_utc - certificate.not_valid_before_utc).total_seconds() == 7200
            names = certificate.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
            assert names.get_values_for_type(x509.UniformResourceIdentifier) == ["spiffe://test/custom"]
            (request,) = signer.requests
            assert request.metadata.name.startswith("req-")
            owner, spec = request.metadata.ownerReferences[0], request.spec
            assert (owner.kind, owner.uid) == ("Pod", pod.metadata.uid)
            assert (spec.podName, spec.podUID, spec.nodeName) == ("p", pod.metadata.uid, "n")
            assert (spec.serviceAccountName, bool(spec.serviceAccountUID)) == ("default", True)
            assert manager.pod_certificates is not None
            assert manager.pod_certificates.count_states() == {(SIGNER, "fresh"): 1}
            await manager.unmount(pod)
            assert manager.pod_certificates.count_states() == {}

    run_scenario(tmp_path, scenario)


def test_pod_waits_for_its_certificate(tmp_path: Path) -> None:
    async def scenario(scene: Scene) -> None:
        async with signing(scene) as signer, running_manager(scene) as manager:
            signer.outcome = ""
            mount = asyncio.create_task(manager.mount(pod := await make_pod(scene)))
            text = 'MountVolume.SetUp failed for volume "v" : credential bundle is not issued yet'
            assert await scene.wait_for_warning() == text
            await eventually(lambda: signer.requests)
            signer.outcome = "Issued"
            await signer.issue(signer.requests[0])
            await mount
            assert read_bundle(scene, pod)
            await manager.unmount(pod)

    run_scenario(tmp_path, scenario)


@pytest.mark.parametrize(("outcome", "verb"), [("Denied", "was denied"), ("Failed", "failed")])
def test_refused_request_is_final(tmp_path: Path, outcome: str, verb: str) -> None:
    async def scenario(scene: Scene) -> None:
        async with signing(scene) as signer, running_manager(scene) as manager:
            signer.outcome = outcome
            mount = asyncio.create_task(manager.mount(pod := await make_pod(scene)))
            final = (
                f'MountVolume.SetUp failed for volume "v" : PodCertificateRequest was permanently {outcome.lower()}: '
                'reason="Tested" message="for a test"'
            )
            await eventually(lambda: final in [message for _, _, message in scene.events])
            (request,) = signer.requests
            name = f"default/{request.metadata.name}"
            text = f'PodCertificateRequest {name} {verb}, reason="Tested", message="for a test"'
            assert ("p", outcome, text) in scene.events
            mount.cancel()
            await manager.unmount(pod)

    run_scenario(tmp_path, scenario)


def test_certificate_is_refreshed_before_it_expires(tmp_path: Path) -> None:
    async def scenario(scene: Scene) -> None:
        clock = scene.cluster.clock
        assert isinstance(clock, VirtualClock)
        async with (
            signing(scene, lifetime_s=9000) as signer,
            running_manager(scene) as manager,
        ):
            pod = await make_pod(scene)
            await manager.mount(pod)
            first_key, first = read_bundle(scene, pod)
            await clock.advance(5990)
            assert len(signer.requests) == 1
            signer.outcome = ""
            await clock.advance(311)
            await eventually(lambda: len(signer.requests) == 2)
            assert read_bundle(scene, pod)[1] == first
            await clock.advance(700)
            overdue = ("p", "CertificateOverdueForRefresh", "PodCertificate refresh overdue")
            await eventually(lambda: overdue in scene.events)
            signer.outcome = "Issued"
            await signer.issue(signer.requests[1])
            await eventually(lambda: read_bundle(scene, pod)[1] != first)
            assert read_bundle(scene, pod)[0].public_key() != first_key.public_key()
            await manager.unmount(pod)

    run_scenario(tmp_path, scenario, clock=VirtualClock())


def test_deleted_request_is_created_again(tmp_path: Path) -> None:
    async def scenario(scene: Scene) -> None:
        clock = scene.cluster.clock
        assert isinstance(clock, VirtualClock)
        async with signing(scene) as signer, running_manager(scene) as manager:
            signer.outcome = ""
            pod = await make_pod(scene)
            mount = asyncio.create_task(manager.mount(pod))
            await eventually(lambda: signer.requests)
            await scene.client.for_kind(PodCertificateRequest).delete(signer.requests[0].metadata.name, "default")
            mount.cancel()
            await clock.advance(901)
            await eventually(lambda: len(signer.requests) == 2)
            await manager.unmount(pod)

    run_scenario(tmp_path, scenario, clock=VirtualClock())


def test_disabled_feature_is_an_error_of_the_volume(tmp_path: Path) -> None:
    async def scenario(scene: Scene) -> None:
        gates = FeatureGates({"PodCertificateRequest": False}, level=37)
        async with running_manager(scene, gates) as manager:
            pod = await make_pod(scene)
            mount = asyncio.create_task(manager.mount(pod))
            assert await scene.wait_for_warning() == 'MountVolume.SetUp failed for volume "v" : unimplemented'
            mount.cancel()
            await manager.unmount(pod)

    run_scenario(tmp_path, scenario)
