"""VolumeBinding against a version that looks at one node at a time, on random claims, volumes, classes and limits."""

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from sampan.api.feature_gates import FeatureGates
from sampan.api.semantics.node_selectors import matches_node_selector
from sampan.api.types.core_v1 import (
    Container,
    EphemeralVolumeSource,
    Node,
    NodeStatus,
    PersistentVolume,
    PersistentVolumeClaim,
    PersistentVolumeClaimSpec,
    PersistentVolumeSpec,
    PersistentVolumeStatus,
    Pod,
    PodSpec,
    Volume,
)
from sampan.api.types.meta_v1 import ObjectMeta, OwnerReference
from sampan.api.types.storage_v1 import StorageClass
from sampan.api.values.quantity import parse
from sampan.scheduler.plugins.volume_binding import VolumeBinding
from sampan.scheduler.simulation import Simulation
from tests.scheduler.plugins.random_storage import (
    BOUND,
    NO_PROVISIONER,
    SELECTED,
    Storage,
    claim_volumes,
    make_pod,
    many,
    storage_clusters,
)
from tests.scheduler.random_clusters import Rejections, Situation, fill_informers, plugin_of, profile_with, rejections


def amount(text: str | None) -> int:
    return parse(text).value() if text is not None else -1


def reaches(volume: PersistentVolume, labels: dict[str, str]) -> bool:
    if volume.spec.nodeAffinity is None or volume.spec.nodeAffinity.required is None:
        return True
    return matches_node_selector(volume.spec.nodeAffinity.required, Node(metadata=ObjectMeta(labels=labels)))


def names_claim(volume: PersistentVolume, claim: PersistentVolumeClaim) -> bool:
    ref = volume.spec.claimRef
    return ref is not None and (ref.namespace, ref.name) == ("x", claim.metadata.name)


def requested_bytes(claim: PersistentVolumeClaim) -> int:
    assert claim.spec.resources is not None
    return amount(claim.spec.resources.requests["storage"])


def best_volume(storage: Storage, claim: PersistentVolumeClaim, labels: dict[str, str], in_use: set[str]) -> Any:
    """The volume that names the claim, or the smallest one that fits on a node with these labels."""
    best: PersistentVolume | None = None
    listed = [
        candidate for candidate in storage.volumes if candidate.spec.storageClassName == claim.spec.storageClassName
    ]
    for volume in listed:
        spec = volume.spec
        if volume.metadata.name in in_use or (spec.claimRef is not None and not names_claim(volume, claim)):
            continue
        if volume.metadata.deletionTimestamp or amount(spec.capacity["storage"]) < requested_bytes(claim):
            continue
        if (spec.volumeMode or "Filesystem") != "Filesystem":
            continue
        if names_claim(volume, claim):
            return volume if reaches(volume, labels) else None
        if volume.status.phase != "Available" or not reaches(volume, labels):
            continue
        if claim.spec.selector is not None and volume.metadata.labels.get("kind") != "fast":
            continue
        if not set(claim.spec.accessModes) <= set(spec.accessModes):
            continue
        if best is None or amount(spec.capacity["storage"]) < amount(best.spec.capacity["storage"]):
            best = volume
    return best


def has_space(storage: Storage, claim: PersistentVolumeClaim, labels: dict[str, str]) -> bool:
    if not storage.drivers[0].spec.storageCapacity:
        return True
    for capacity in storage.capacities:
        limit = amount(capacity.maximumVolumeSize if capacity.maximumVolumeSize is not None else capacity.capacity)
        if capacity.storageClassName == claim.spec.storageClassName and limit >= requested_bytes(claim):
            topology = capacity.nodeTopology.matchLabels if capacity.nodeTopology is not None else None
            if topology is not None and all(labels.get(key) == value for key, value in topology.items()):
                return True
    return False


def binding_reasons(storage: Storage, pod: Pod, name: str, labels: dict[str, str]) -> list[str]:
    claims = [storage.claim(volume.persistentVolumeClaim.claimName) for volume in pod.spec.volumes]  # type: ignore[union-attr]
    own = [claim for claim in claims if claim is not None]
    near = known = volumes_found = space = True
    for claim in (claim_ for claim_ in own if BOUND in claim_.metadata.annotations):
        volume = storage.volume(claim.spec.volumeName)
        if volume is None:
            known = False
            break
        if not reaches(volume, labels):
            near = False
            break
    unbound = [claim for claim in own if not claim.spec.volumeName]
    decided = [claim for claim in unbound if SELECTED in claim.metadata.annotations]
    free = sorted((claim for claim in unbound if claim not in decided), key=requested_bytes)
    if any(claim.metadata.annotations[SELECTED] != name for claim in decided):
        volumes_found = False
    else:
        in_use: set[str] = set()
        to_make = list(decided)
        for claim in free:
            volume = best_volume(storage, claim, labels, in_use)
            if volume is None:
                to_make.append(claim)
            else:
                in_use.add(volume.metadata.name)
        for claim in to_make:
            claim_ = storage.find_class(claim.spec.storageClassName)
            terms = [term.matchLabelExpressions[0] for term in claim_.allowedTopologies]
            is_allowed = not terms or any(labels.get(term.key) in (term.values or ()) for term in terms)
            if claim_.provisioner == NO_PROVISIONER or not is_allowed:
                volumes_found = False
                break
            if not has_space(storage, claim, labels):
                space = False
                break
    reasons = [
        (near, "node(s) didn't match PersistentVolume's node affinity"),
        (volumes_found, "node(s) didn't find available persistent volumes to bind"),
        (space, "node(s) did not have enough free storage"),
        (known, "node(s) unavailable due to one or more pvc(s) bound to non-existent pv(s)"),
    ]
    return [reason for is_well, reason in reasons if not is_well]


def pod_rejection(storage: Storage, pod: Pod) -> str:
    """The reason for which all nodes are rejected, or an empty text."""
    own = [storage.claim(volume.persistentVolumeClaim.claimName) for volume in pod.spec.volumes]  # type: ignore[union-attr]
    for claim in own:
        assert claim is not None
        if claim.status.phase == "Lost":
            name, volume = claim.metadata.name, claim.spec.volumeName
            return f'persistentvolumeclaim "{name}" bound to non-existent persistentvolume "{volume}"'
    for claim in own:
        assert claim is not None
        waits = claim.spec.storageClassName != "now" and not claim.spec.volumeName
        if not waits and not (claim.spec.volumeName and BOUND in claim.metadata.annotations):
            return "pod has unbound immediate PersistentVolumeClaims"
    return ""


@many
@given(storage_clusters())
def test_nodes_without_a_suitable_volume_are_rejected(drawn: tuple[Situation, Storage, Simulation]) -> None:
    situation, storage, simulation = drawn
    expected: Rejections = {}
    whole = pod_rejection(storage, situation.pod)
    for node in situation.nodes:
        reasons = (
            [whole] if whole else binding_reasons(storage, situation.pod, node.metadata.name, node.metadata.labels)
        )
        if reasons:
            expected[node.metadata.name] = (tuple(reasons), True)
    assert rejections(simulation, "VolumeBinding", situation.pod) == expected


def volume_score(storage: Storage, pod: Pod, name: str, labels: dict[str, str]) -> int:
    """The score of a node that is not rejected, with the default shape."""
    claims = [storage.claim(volume.persistentVolumeClaim.claimName) for volume in pod.spec.volumes]  # type: ignore[union-attr]
    unbound = [claim for claim in claims if claim is not None and not claim.spec.volumeName]
    in_use: set[str] = set()
    static: dict[str | None, list[int]] = {}
    provisioned: dict[str | None, list[int]] = {}
    for claim in sorted(unbound, key=requested_bytes):
        is_decided = SELECTED in claim.metadata.annotations
        volume = None if is_decided else best_volume(storage, claim, labels, in_use)
        if volume is not None:
            in_use.add(volume.metadata.name)
            use = static.setdefault(claim.spec.storageClassName, [0, 0])
            use[0] += requested_bytes(claim)
            use[1] += amount(volume.spec.capacity["storage"])
            continue
        for capacity in storage.capacities if storage.drivers[0].spec.storageCapacity else ():
            if has_space(replace(storage, capacities=[capacity]), claim, labels):
                use = provisioned.setdefault(claim.spec.storageClassName, [0, 0])
                use[0] += requested_bytes(claim)
                use[1] = amount(capacity.capacity) if capacity.capacity is not None else 0
                break
    uses = (static or provisioned).values()
    by_class = [100 - (100 if size > space or not space else size * 100 // space) for size, space in uses]
    return int(sum(by_class) / len(by_class) + 0.5) if by_class else 0


@pytest.mark.parametrize("is_enabled", [False, True])
@many
@given(st.data())
def test_nodes_with_much_free_storage_have_high_scores(is_enabled: bool, data: st.DataObject) -> None:
    gates = FeatureGates({"StorageCapacityScoring": is_enabled}, level=37)
    situation, storage, simulation = data.draw(storage_clusters(gates))
    labels = {node.metadata.name: node.metadata.labels for node in situation.nodes}
    fitting = [] if pod_rejection(storage, situation.pod) else list(labels)
    fitting = [name for name in fitting if not binding_reasons(storage, situation.pod, name, labels[name])]
    expected = {name: volume_score(storage, situation.pod, name, labels[name]) for name in fitting}
    cycle = simulation.cycle(situation.pod)
    plugin: VolumeBinding = plugin_of(simulation, "VolumeBinding")
    plugin.pre_filter(cycle)
    rows = np.array([simulation.table.rows[name] for name in fitting], dtype=np.intp)
    if not fitting or plugin.pre_score(cycle, rows) is not None:
        assert not is_enabled or not any(expected.values())
    else:
        assert dict(zip(fitting, plugin.score(cycle, rows).tolist(), strict=True)) == expected


@pytest.mark.parametrize(
    ("claim", "reasons"),
    [
        pytest.param(
            None, 'waiting for ephemeral volume controller to create the persistentvolumeclaim "p-data"', id="no claim"
        ),
        pytest.param("other", "PVC x/p-data was not created for pod x/p (pod is not owner)", id="claim of another pod"),
        pytest.param("uid-p", "pod has unbound immediate PersistentVolumeClaims", id="claim of the pod"),
    ],
)
def test_the_claim_of_an_ephemeral_volume_must_belong_to_the_pod(claim: str | None, reasons: str) -> None:
    simulation = Simulation(profile=profile_with("VolumeBinding"))
    if claim is not None:
        owner = OwnerReference(apiVersion="v1", kind="Pod", name="p", uid=claim, controller=True)
        meta = ObjectMeta(name="p-data", namespace="x", ownerReferences=[owner])
        fill_informers(simulation, PersistentVolumeClaim(metadata=meta))
    spec = PodSpec(containers=[Container(name="c")], volumes=[Volume(name="data", ephemeral=EphemeralVolumeSource())])
    pod = Pod(metadata=ObjectMeta(name="p", namespace="x", uid="uid-p"), spec=spec)
    diagnosis = simulation.select_node(pod).diagnosis
    assert diagnosis is not None
    assert diagnosis.pre_filter == reasons


def test_a_missing_claim_rejects_the_pod() -> None:
    simulation = Simulation(profile=profile_with("VolumeBinding"))
    spec = PodSpec(containers=[Container(name="c")], volumes=claim_volumes("gone"))
    diagnosis = simulation.select_node(Pod(metadata=ObjectMeta(name="p", namespace="x"), spec=spec)).diagnosis
    assert diagnosis is not None
    assert diagnosis.pre_filter == 'persistentvolumeclaim "gone" not found'


def test_two_claims_do_not_share_a_volume() -> None:
    simulation = Simulation(profile=profile_with("VolumeBinding"))
    simulation.add_node(Node(metadata=ObjectMeta(name="n"), status=NodeStatus(allocatable={"pods": "9"})))
    fill_informers(
        simulation,
        StorageClass(
            metadata=ObjectMeta(name="s"), provisioner=NO_PROVISIONER, volumeBindingMode="WaitForFirstConsumer"
        ),
        PersistentVolume(
            metadata=ObjectMeta(name="v"),
            spec=PersistentVolumeSpec(capacity={"storage": "1Gi"}, storageClassName="s"),
            status=PersistentVolumeStatus(phase="Available"),
        ),
        *(
            PersistentVolumeClaim(
                metadata=ObjectMeta(name=name, namespace="x", uid=name),
                spec=PersistentVolumeClaimSpec(storageClassName="s"),
            )
            for name in ("one", "two")
        ),
    )
    assert rejections(simulation, "VolumeBinding", make_pod("p", "", claim_volumes("one"))) == {}
    reasons = ("node(s) didn't find available persistent volumes to bind",)
    assert rejections(simulation, "VolumeBinding", make_pod("p", "", claim_volumes("one", "two"))) == {
        "n": (reasons, True)
    }
