"""Hollow pods that refer to config maps, secrets, claims and service accounts, on the virtual clock."""

from collections.abc import Callable
from typing import Any

import pytest

from sampan.api.types.certificates_v1 import PodCertificateRequest
from sampan.api.types.core_v1 import (
    ConfigMap,
    ConfigMapEnvSource,
    ConfigMapKeySelector,
    ConfigMapVolumeSource,
    EmptyDirVolumeSource,
    EnvFromSource,
    EnvVar,
    EnvVarSource,
    FileKeySelector,
    KeyToPath,
    LocalObjectReference,
    PersistentVolumeClaimVolumeSource,
    Pod,
    PodCertificateProjection,
    ProjectedVolumeSource,
    Secret,
    SecretEnvSource,
    SecretKeySelector,
    SecretProjection,
    SecretVolumeSource,
    ServiceAccount,
    Volume,
    VolumeMount,
    VolumeProjection,
)
from sampan.api.types.meta_v1 import ObjectMeta
from sampan.testing import builders
from tests.controllers.cluster import Cluster
from tests.kubelet.hollow_pods import create, events, get, pod, run
from tests.kubelet.volumes.pod_signer import SIGNER, PodSigner

Build = Callable[[bool], Any]


def with_env(*variables: EnvVarSource) -> Pod:
    manifest: Pod = pod()
    assert manifest.spec.containers
    manifest.spec.containers[0].env = [EnvVar(name=f"V{at}", valueFrom=ref) for at, ref in enumerate(variables)]
    return manifest


def with_env_from(source: EnvFromSource) -> Pod:
    manifest: Pod = pod()
    assert manifest.spec.containers
    manifest.spec.containers[0].envFrom = [source]
    return manifest


def with_volume(**source: Any) -> Pod:
    manifest: Pod = pod()
    assert manifest.spec.containers
    manifest.spec.volumes = [Volume(name="data", **source)]
    manifest.spec.containers[0].volumeMounts = [VolumeMount(name="data", mountPath="/data")]
    return manifest


VARIABLES: list[tuple[str, Build, str]] = [
    (
        "config map",
        lambda optional: with_env(
            EnvVarSource(configMapKeyRef=ConfigMapKeySelector(name="missing", key="a", optional=optional))
        ),
        'configmap "missing" not found',
    ),
    (
        "key of a config map",
        lambda optional: with_env(
            EnvVarSource(configMapKeyRef=ConfigMapKeySelector(name="there", key="b", optional=optional))
        ),
        "couldn't find key b in ConfigMap default/there",
    ),
    (
        "secret",
        lambda optional: with_env(
            EnvVarSource(secretKeyRef=SecretKeySelector(name="missing", key="a", optional=optional))
        ),
        'secret "missing" not found',
    ),
    (
        "all keys of a config map",
        lambda optional: with_env_from(
            EnvFromSource(configMapRef=ConfigMapEnvSource(name="missing", optional=optional))
        ),
        'configmap "missing" not found',
    ),
    (
        "all keys of a secret",
        lambda optional: with_env_from(EnvFromSource(secretRef=SecretEnvSource(name="missing", optional=optional))),
        'secret "missing" not found',
    ),
]
VOLUMES: list[tuple[str, Build, str]] = [
    (
        "config map",
        lambda optional: with_volume(configMap=ConfigMapVolumeSource(name="missing", optional=optional)),
        'configmap "missing" not found',
    ),
    (
        "key of a config map",
        lambda optional: with_volume(
            configMap=ConfigMapVolumeSource(name="there", items=[KeyToPath(key="b", path="b")], optional=optional)
        ),
        "configmap references non-existent config key: b",
    ),
    (
        "secret",
        lambda optional: with_volume(secret=SecretVolumeSource(secretName="missing", optional=optional)),
        'secret "missing" not found',
    ),
    (
        "projected secret",
        lambda optional: with_volume(
            projected=ProjectedVolumeSource(
                sources=[VolumeProjection(secret=SecretProjection(name="missing", optional=optional))]
            )
        ),
        'secret "missing" not found',
    ),
]


async def create_objects(c: Cluster, name: str) -> None:
    meta = ObjectMeta(name=name, namespace="default")
    await c.client.for_kind(ConfigMap).create(ConfigMap(metadata=meta, data={"a": "1"}))
    await c.client.for_kind(Secret).create(Secret(metadata=meta, data={"a": b"1"}))
    await c.clock.settle()


@pytest.mark.parametrize(("build", "message"), [row[1:] for row in VARIABLES], ids=[row[0] for row in VARIABLES])
def test_container_with_a_missing_variable_is_not_started(build: Build, message: str) -> None:
    async def test(c: Cluster) -> None:
        await create_objects(c, "there")
        status = (await create(c, build(False))).status
        waiting = status.containerStatuses[0].state.waiting
        assert (status.phase, waiting.reason, waiting.message) == ("Pending", "CreateContainerConfigError", message)
        assert [event.message for event in await events(c, "Failed")] == [f"Error: {message}"]

    run(test)


@pytest.mark.parametrize(("build", "message"), [row[1:] for row in VOLUMES], ids=[row[0] for row in VOLUMES])
def test_pod_with_a_missing_volume_is_not_started(build: Build, message: str) -> None:
    async def test(c: Cluster) -> None:
        await create_objects(c, "there")
        status = (await create(c, build(False))).status
        waiting = status.containerStatuses[0].state.waiting
        assert (status.phase, waiting.reason) == ("Pending", "ContainerCreating")
        assert status.podIP == ""
        assert [event.message for event in await events(c, "FailedMount")] == [
            f'MountVolume.SetUp failed for volume "data" : {message}'
        ]

    run(test)


@pytest.mark.parametrize("build", [row[1] for row in VARIABLES + VOLUMES])
def test_optional_references_may_be_missing(build: Build) -> None:
    async def test(c: Cluster) -> None:
        await create_objects(c, "there")
        assert (await create(c, build(True))).status.phase == "Running"

    run(test)


@pytest.mark.parametrize("build", [VARIABLES[0][1], VARIABLES[4][1], VOLUMES[0][1], VOLUMES[3][1]])
def test_pod_runs_as_soon_as_the_missing_object_appears(build: Build) -> None:
    async def test(c: Cluster) -> None:
        await create(c, build(False))
        await c.clock.advance(61)
        assert (await get(c)).status.phase == "Pending"
        await create_objects(c, "missing")
        assert (await get(c)).status.phase == "Running"

    run(test)


def test_container_is_not_restarted_without_its_config_map() -> None:
    async def test(c: Cluster) -> None:
        await create_objects(c, "missing")
        manifest = VARIABLES[0][1](False)
        manifest.metadata.annotations = {"hollow.sampan.dev/run": "30s"}
        assert (await create(c, manifest)).status.phase == "Running"
        await c.client.for_kind(ConfigMap).delete("missing", "default")
        await c.clock.advance(31)
        waiting = (await get(c)).status.containerStatuses[0].state.waiting
        assert (waiting.reason, waiting.message) == ("CreateContainerConfigError", 'configmap "missing" not found')

    run(test)


def test_claims_are_checked_as_by_a_real_kubelet() -> None:
    async def test(c: Cluster) -> None:
        source = PersistentVolumeClaimVolumeSource(claimName="disk")
        assert (await create(c, with_volume(persistentVolumeClaim=source))).status.phase == "Pending"
        (event,) = await events(c, "FailedMount")
        assert event.message == (
            "Unable to attach or mount volumes: unmounted volumes=[data], unattached volumes=[], failed to process "
            "volumes=[data]: error processing PVC default/disk: failed to fetch PVC from API server: "
            'persistentvolumeclaims "disk" not found'
        )

    run(test)


def test_service_account_that_was_deleted_before_the_pod_starts() -> None:
    async def test(c: Cluster) -> None:
        await c.client.for_kind(ServiceAccount).create(
            ServiceAccount(metadata=ObjectMeta(name="robot", namespace="default"))
        )
        await c.clock.settle()
        manifest = builders.pod("p", namespace="default")
        manifest.spec.serviceAccountName = "robot"
        await c.client.for_kind(Pod).create(manifest)
        await c.client.for_kind(ServiceAccount).delete("robot", "default")
        async with c.running_binder():
            await c.clock.settle()
        assert (await get(c)).status.phase == "Pending"
        (event,) = await events(c, "FailedMount")
        assert event.message.endswith(': failed to fetch token: serviceaccounts "robot" not found')

    run(test)


def test_missing_pull_secret_is_a_warning_if_the_pull_fails() -> None:
    async def test(c: Cluster) -> None:
        manifest = pod(pull_error="unauthorized")
        manifest.spec.imagePullSecrets = [LocalObjectReference(name="registry")]
        assert (await create(c, manifest)).status.phase == "Pending"
        (event,) = await events(c, "FailedToRetrieveImagePullSecret")
        assert event.message.startswith("Unable to retrieve some image pull secrets (registry);")

    run(test)


def test_a_certificate_is_requested_before_the_pod_runs() -> None:
    async def test(c: Cluster) -> None:
        signer = PodSigner(client=c.client, kind=PodCertificateRequest, clock=c.clock)
        source = PodCertificateProjection(signerName=SIGNER, keyType="ED25519", credentialBundlePath="bundle.pem")
        volume = ProjectedVolumeSource(sources=[VolumeProjection(podCertificate=source)])
        assert (await create(c, with_volume(projected=volume))).status.phase == "Pending"
        (request,) = (await c.client.for_kind(PodCertificateRequest).list()).items
        assert request.spec.nodeName == "node-0"
        await signer.issue(request)
        await c.clock.settle()
        assert (await get(c)).status.phase == "Running"

    run(test)


def test_keys_in_files_that_no_container_has_written_have_a_value() -> None:
    async def test(c: Cluster) -> None:
        ref = EnvVarSource(fileKeyRef=FileKeySelector(volumeName="data", path="env", key="A"))
        manifest = with_env(ref)
        manifest.spec.volumes = [Volume(name="data", emptyDir=EmptyDirVolumeSource())]
        assert (await create(c, manifest)).status.phase == "Running"

    run(test)
