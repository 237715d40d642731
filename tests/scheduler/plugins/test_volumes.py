"""The volume plug-ins against their oracles, on random claims, volumes, classes and limits."""

from dataclasses import dataclass
from typing import Any

import hypothesis
import pytest
from hypothesis import given
from hypothesis import strategies as st

from sampan.api.quantity import parse
from sampan.api.semantics.node_selectors import matches_node_selector
from sampan.api.types.core_v1 import (
    AWSElasticBlockStoreVolumeSource,
    Container,
    CSIPersistentVolumeSource,
    EphemeralVolumeSource,
    GCEPersistentDiskVolumeSource,
    ISCSIVolumeSource,
    Node,
    NodeSelector,
    NodeSelectorRequirement,
    NodeSelectorTerm,
    NodeStatus,
    ObjectReference,
    PersistentVolume,
    PersistentVolumeClaim,
    PersistentVolumeClaimSpec,
    PersistentVolumeClaimStatus,
    PersistentVolumeClaimVolumeSource,
    PersistentVolumeSpec,
    PersistentVolumeStatus,
    Pod,
    PodSpec,
    RBDVolumeSource,
    TopologySelectorLabelRequirement,
    TopologySelectorTerm,
    Volume,
    VolumeNodeAffinity,
    VolumeResourceRequirements,
)
from sampan.api.types.meta_v1 import LabelSelector, ObjectMeta, OwnerReference
from sampan.api.types.storage_v1 import (
    CSIDriver,
    CSIDriverSpec,
    CSINode,
    CSINodeDriver,
    CSINodeSpec,
    CSIStorageCapacity,
    StorageClass,
    VolumeAttachment,
    VolumeAttachmentSource,
    VolumeAttachmentSpec,
    VolumeNodeResources,
)
from sampan.machinery.object_key import key_of
from sampan.scheduler.simulation import Simulation
from tests.scheduler.random_clusters import ZONE, Refusals, Situation, optional, refusals

BOUND = "pv.kubernetes.io/bind-completed"
SELECTED = "volume.kubernetes.io/selected-node"
DRIVER = "csi.example.com"
NO_PROVISIONER = "kubernetes.io/no-provisioner"
REGION, OLD_ZONE = "topology.kubernetes.io/region", "failure-domain.beta.kubernetes.io/zone"
CLASSES = ("later", "static", "now")
GI = 2**30


many = hypothesis.settings(max_examples=60, deadline=None, suppress_health_check=[hypothesis.HealthCheck.too_slow])


def tell(simulation: Simulation, *objects: Any) -> None:
    """Have informers of a simulation know objects."""
    for obj in objects:
        simulation.handle.informers.of(type(obj))._put(key_of(obj), obj)


def zones(*values: str) -> VolumeNodeAffinity:
    requirement = NodeSelectorRequirement(key=ZONE, operator="In", values=list(values))
    return VolumeNodeAffinity(
        required=NodeSelector(nodeSelectorTerms=[NodeSelectorTerm(matchExpressions=[requirement])])
    )


affinities = st.sampled_from([None, zones("a"), zones("b"), zones("a", "b")])
sizes = st.sampled_from(["1Gi", "2Gi", "3Gi"])


def mostly(usual: Any, *others: Any, times: int = 5) -> Any:
    """The first far more often than the others, so that things come together."""
    return st.sampled_from([usual] * times + list(others))


@st.composite
def volumes(draw: Any, name: str) -> PersistentVolume:
    ref = draw(mostly(None, "c0", "c1", "other"))
    csi = CSIPersistentVolumeSource(driver=DRIVER, volumeHandle=draw(mostly(name, "h0", "h1")))
    return PersistentVolume(
        metadata=ObjectMeta(
            name=name,
            labels=draw(optional(**{ZONE: ["a", "b", "a__b"], REGION: ["r"], OLD_ZONE: ["a"], "kind": ["fast"]})),
            deletionTimestamp=draw(mostly(None, "2026-01-01T00:00:00Z")),
        ),
        spec=PersistentVolumeSpec(
            capacity={"storage": draw(sizes)},
            accessModes=draw(st.sampled_from([["ReadWriteOnce"], ["ReadWriteOnce", "ReadWriteMany"]])),
            storageClassName=draw(mostly("static", "later", "now")),
            volumeMode=draw(mostly(None, "Block")),
            claimRef=ObjectReference(namespace="x", name=ref) if ref else None,
            nodeAffinity=draw(affinities),
            csi=draw(mostly(csi, None)),
        ),
        status=PersistentVolumeStatus(phase=draw(mostly("Available", "Released"))),
    )


@st.composite
def claims(draw: Any, name: str) -> PersistentVolumeClaim:
    volume = draw(st.one_of(st.just(""), mostly("v0", "v1", "v2", "gone")))
    chosen = draw(mostly("", "n0", "n1"))
    notes = {SELECTED: chosen} if chosen and not volume else {}
    if volume and draw(mostly(True, False)):
        notes[BOUND] = "yes"
    return PersistentVolumeClaim(
        metadata=ObjectMeta(name=name, namespace="x", annotations=notes, uid=f"uid-{name}"),
        spec=PersistentVolumeClaimSpec(
            storageClassName=draw(mostly("static", "later", "later", "now")),
            volumeName=volume,
            accessModes=draw(mostly(["ReadWriteOnce"], ["ReadWriteMany"], ["ReadWriteOncePod"])),
            resources=VolumeResourceRequirements(requests={"storage": draw(sizes)}),
            selector=draw(mostly(None, LabelSelector(matchLabels={"kind": "fast"}))),
        ),
        status=PersistentVolumeClaimStatus(phase=draw(mostly("Pending", "Lost", times=12))),
    )


capacities = st.builds(
    CSIStorageCapacity,
    nodeTopology=st.sampled_from([None, LabelSelector(), LabelSelector(matchLabels={ZONE: "a"})]),
    storageClassName=st.sampled_from(["later", "now"]),
    capacity=st.sampled_from([None, "1Gi", "2Gi"]),
    maximumVolumeSize=st.sampled_from([None, None, "3Gi"]),
)
topologies = st.sampled_from([[], [["a"]], [["b"], ["a"]]]).map(
    lambda objects: [
        TopologySelectorTerm(matchLabelExpressions=[TopologySelectorLabelRequirement(key=ZONE, values=values)])
        for values in objects
    ]
)


@dataclass
class Storage:
    claims: list[PersistentVolumeClaim]
    volumes: list[PersistentVolume]
    classes: list[StorageClass]
    capacities: list[CSIStorageCapacity]
    drivers: list[CSIDriver]
    nodes: list[CSINode]
    attachments: list[VolumeAttachment]

    def put_into(self, simulation: Simulation) -> None:
        tell(simulation, *self.claims, *self.volumes, *self.classes, *self.capacities, *self.drivers)
        tell(simulation, *self.nodes, *self.attachments)

    def claim(self, name: str) -> PersistentVolumeClaim | None:
        return next((candidate for candidate in self.claims if candidate.metadata.name == name), None)

    def volume(self, name: str) -> PersistentVolume | None:
        return next((candidate for candidate in self.volumes if candidate.metadata.name == name), None)

    def of_class(self, name: str | None) -> StorageClass:
        return next(storage_class for storage_class in self.classes if storage_class.metadata.name == name)


@st.composite
def storages(draw: Any) -> Storage:
    drivers = [CSIDriver(metadata=ObjectMeta(name=DRIVER), spec=CSIDriverSpec(storageCapacity=draw(st.booleans())))]
    drawn_capacities = draw(st.lists(capacities, max_size=3))
    for number, capacity in enumerate(drawn_capacities):
        capacity.metadata.name, capacity.metadata.namespace = f"k{number}", "x"
    return Storage(
        claims=[draw(claims(f"c{number}")) for number in range(3)],
        volumes=[draw(volumes(f"v{number}")) for number in range(draw(st.integers(1, 5)))],
        classes=[
            StorageClass(
                metadata=ObjectMeta(name=name),
                provisioner=NO_PROVISIONER if name == "static" else DRIVER,
                volumeBindingMode="Immediate" if name == "now" else "WaitForFirstConsumer",
                allowedTopologies=draw(topologies),
            )
            for name in CLASSES
        ],
        capacities=drawn_capacities,
        drivers=drivers,
        nodes=[
            CSINode(
                metadata=ObjectMeta(name=f"n{number}"),
                spec=CSINodeSpec(
                    drivers=[
                        CSINodeDriver(
                            name=DRIVER,
                            nodeID="",
                            allocatable=draw(
                                st.sampled_from([None, *(VolumeNodeResources(count=n) for n in range(4))])
                            ),
                        )
                    ]
                ),
            )
            for number in range(draw(mostly(3, 0, 1)))
        ],
        attachments=[
            VolumeAttachment(
                metadata=ObjectMeta(name=f"a{number}"),
                spec=VolumeAttachmentSpec(
                    attacher=DRIVER,
                    nodeName=draw(st.sampled_from(["n0", "n1"])),
                    source=VolumeAttachmentSource(persistentVolumeName=draw(mostly("v0", "v1", "v2", "gone", times=2))),
                ),
            )
            for number in range(draw(st.integers(0, 2)))
        ],
    )


def using(*names: str) -> list[Volume]:
    return [
        Volume(name=f"vol-{at}", persistentVolumeClaim=PersistentVolumeClaimVolumeSource(claimName=name))
        for at, name in enumerate(names)
    ]


@st.composite
def stored(draw: Any) -> tuple[Situation, Storage, Simulation]:
    """A cluster in which pods have claims."""
    storage = draw(storages())
    names = [claim.metadata.name for claim in storage.claims]
    some = st.lists(st.sampled_from(names), max_size=2, unique=True)
    nodes = [
        Node(
            metadata=ObjectMeta(
                name=f"n{number}",
                labels=draw(st.fixed_dictionaries({ZONE: st.sampled_from("ab")}, optional={REGION: st.just("r")}))
                if draw(mostly(True, False))
                else {},
            )
        )
        for number in range(draw(st.integers(2, 3)))
    ]
    situation = Situation(
        nodes=nodes,
        pods=[made_pod(f"p{at}", f"n{at % 2}", using(*draw(some))) for at in range(draw(st.integers(0, 4)))],
        pod=made_pod("new", "", using(*draw(st.lists(st.sampled_from(names), min_size=1, max_size=3, unique=True)))),
        namespaces={},
    )
    simulation = situation.simulation()
    storage.put_into(simulation)
    return situation, storage, simulation


def made_pod(name: str, node: str, volumes: list[Volume]) -> Pod:
    spec = PodSpec(nodeName=node, containers=[Container(name="c")], volumes=volumes)
    return Pod(metadata=ObjectMeta(name=name, namespace="x", uid=name), spec=spec)


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


def smallest(storage: Storage, claim: PersistentVolumeClaim, labels: dict[str, str], in_use: set[str]) -> Any:
    """The one that names the claim, or the smallest that suits on such a node."""
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
            volume = smallest(storage, claim, labels, in_use)
            if volume is None:
                to_make.append(claim)
            else:
                in_use.add(volume.metadata.name)
        for claim in to_make:
            claim_ = storage.of_class(claim.spec.storageClassName)
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


def amiss(storage: Storage, pod: Pod) -> str:
    """Why no node at all will do."""
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
@given(stored())
def test_volume_binding(drawn: tuple[Situation, Storage, Simulation]) -> None:
    situation, storage, simulation = drawn
    expected: Refusals = {}
    whole = amiss(storage, situation.pod)
    for node in situation.nodes:
        reasons = (
            [whole] if whole else binding_reasons(storage, situation.pod, node.metadata.name, node.metadata.labels)
        )
        if reasons:
            expected[node.metadata.name] = (tuple(reasons), True)
    assert refusals(simulation, "VolumeBinding", situation.pod) == expected


@many
@given(stored())
def test_volume_zone(drawn: tuple[Situation, Storage, Simulation]) -> None:
    situation, storage, simulation = drawn
    whole, places = "", []
    for volume in situation.pod.spec.volumes:
        claim = storage.claim(volume.persistentVolumeClaim.claimName)  # type: ignore[union-attr]
        assert claim is not None
        if not claim.spec.volumeName:
            if claim.spec.storageClassName == "now":
                whole = "PersistentVolume had no name"
                break
            continue
        volume_ = storage.volume(claim.spec.volumeName)
        if volume_ is None:
            whole = f'persistentvolume "{claim.spec.volumeName}" not found'
            break
        places += [
            (key, volume_.metadata.labels[key].split("__"))
            for key in (OLD_ZONE, ZONE, REGION)
            if key in volume_.metadata.labels
        ]
    expected: Refusals = {}
    for node in situation.nodes:
        labels = node.metadata.labels
        says = any(key in labels for key in (OLD_ZONE, ZONE, REGION))
        far = any(
            labels.get(key, labels.get(ZONE) if key == OLD_ZONE else None) not in values for key, values in places
        )
        if whole:
            expected[node.metadata.name] = ((whole,), True)
        elif says and far:
            expected[node.metadata.name] = (("node(s) had no available volume zone",), True)
    assert refusals(simulation, "VolumeZone", situation.pod) == expected


def handle_of(storage: Storage, name: str) -> str | None:
    claim = storage.claim(name)
    assert claim is not None
    volume = storage.volume(claim.spec.volumeName)
    if volume is not None:
        return volume.spec.csi.volumeHandle if volume.spec.csi is not None else None
    return f"new {name}" if claim.spec.storageClassName != "static" else None


def handles(storage: Storage, pod: Pod) -> set[str]:
    handles_ = {handle_of(storage, volume.persistentVolumeClaim.claimName) for volume in pod.spec.volumes}  # type: ignore[union-attr]
    return {handle for handle in handles_ if handle is not None}


@many
@given(stored(), st.data())
def test_node_volume_limits(drawn: tuple[Situation, Storage, Simulation], data: st.DataObject) -> None:
    situation, storage, simulation = drawn
    refusals(simulation, "NodeVolumeLimits", situation.pod)
    one_goes: bool = data.draw(st.booleans())
    if situation.pods and one_goes:
        gone = situation.pods.pop()
        simulation.table.remove_pod(gone.metadata.uid, gone.spec.nodeName)
    one_is_detached: bool = data.draw(st.booleans())
    if storage.attachments and one_is_detached:
        detached = storage.attachments.pop()
        simulation.handle.informers.of(VolumeAttachment)._remove(key_of(detached))
    expected: Refusals = {}
    for node in situation.nodes:
        name = node.metadata.name
        own_nodes = [csi_node for csi_node in storage.nodes if csi_node.metadata.name == name]
        limits = [csi_node.spec.drivers[0].allocatable for csi_node in own_nodes]  # type: ignore[index]
        if not limits or limits[0] is None or limits[0].count is None:
            continue
        there: set[str] = set().union(*(handles(storage, pod) for pod in situation.on(node)))
        more = handles(storage, situation.pod) - there
        for attachment in storage.attachments:
            volume = storage.volume(attachment.spec.source.persistentVolumeName or "")
            if attachment.spec.nodeName == name and volume is not None and volume.spec.csi is not None:
                there.add(volume.spec.csi.volumeHandle)
        if more and len(there) + len(more) > limits[0].count:
            expected[name] = (("node(s) exceed max volume count",), False)
    assert refusals(simulation, "NodeVolumeLimits", situation.pod) == expected


disks = st.one_of(
    st.builds(GCEPersistentDiskVolumeSource, pdName=st.sampled_from(["d", "e"]), readOnly=st.booleans()).map(
        lambda source: Volume(name="disk", gcePersistentDisk=source)
    ),
    st.builds(AWSElasticBlockStoreVolumeSource, volumeID=st.sampled_from(["d", "e"])).map(
        lambda source: Volume(name="disk", awsElasticBlockStore=source)
    ),
    st.builds(
        ISCSIVolumeSource,
        iqn=st.sampled_from(["d", "e"]),
        targetPortal=st.just("t"),
        lun=st.just(0),
        readOnly=st.booleans(),
    ).map(lambda source: Volume(name="disk", iscsi=source)),
    st.builds(
        RBDVolumeSource,
        monitors=st.lists(st.sampled_from("mno"), min_size=1, max_size=2),
        image=st.sampled_from(["d", "e"]),
        readOnly=st.booleans(),
    ).map(lambda source: Volume(name="disk", rbd=source)),
)


def same_disk(first: Volume, other: Volume) -> bool:
    if first.gcePersistentDisk and other.gcePersistentDisk:
        both_read = first.gcePersistentDisk.readOnly and other.gcePersistentDisk.readOnly
        return first.gcePersistentDisk.pdName == other.gcePersistentDisk.pdName and not both_read
    if first.awsElasticBlockStore and other.awsElasticBlockStore:
        return first.awsElasticBlockStore.volumeID == other.awsElasticBlockStore.volumeID
    if first.iscsi and other.iscsi:
        return first.iscsi.iqn == other.iscsi.iqn and not (first.iscsi.readOnly and other.iscsi.readOnly)
    if first.rbd and other.rbd:
        near = bool(set(first.rbd.monitors or ()) & set(other.rbd.monitors or ()))
        return near and first.rbd.image == other.rbd.image and not (first.rbd.readOnly and other.rbd.readOnly)
    return False


@many
@given(stored(), st.data())
def test_volume_restrictions(drawn: tuple[Situation, Storage, Simulation], data: st.DataObject) -> None:
    situation, storage, _ = drawn
    for pod in (situation.pod, *situation.pods):
        pod.spec.volumes = [*pod.spec.volumes, *data.draw(st.lists(disks, max_size=1))]
    simulation = situation.simulation()
    storage.put_into(simulation)

    def alone(pod: Pod) -> set[str]:
        names = {volume.persistentVolumeClaim.claimName for volume in pod.spec.volumes if volume.persistentVolumeClaim}
        return {
            claim.metadata.name
            for claim in storage.claims
            if claim.metadata.name in names and "ReadWriteOncePod" in claim.spec.accessModes
        }

    is_taken = any(alone(situation.pod) & alone(pod) for pod, _ in situation.there)
    expected: Refusals = {}
    for node in situation.nodes:
        clashing = any(
            same_disk(mine, theirs)
            for pod in situation.on(node)
            for mine in situation.pod.spec.volumes
            for theirs in pod.spec.volumes
        )
        if clashing:
            expected[node.metadata.name] = (("node(s) had no available disk",), False)
        elif is_taken:
            why = "PersistentVolumeClaim with ReadWriteOncePod access mode already in-use by another pod"
            expected[node.metadata.name] = ((f"node(s) unavailable due to {why}",), False)
    assert refusals(simulation, "VolumeRestrictions", situation.pod) == expected


@pytest.mark.parametrize(
    ("claim", "reasons"),
    [
        pytest.param(
            None, 'waiting for ephemeral volume controller to create the persistentvolumeclaim "p-data"', id="not yet"
        ),
        pytest.param("other", "PVC x/p-data was not created for pod x/p (pod is not owner)", id="another's"),
        pytest.param("uid-p", "pod has unbound immediate PersistentVolumeClaims", id="its own"),
    ],
)
def test_claims_of_ephemeral_volumes(claim: str | None, reasons: str) -> None:
    simulation = Simulation()
    if claim is not None:
        owner = OwnerReference(apiVersion="v1", kind="Pod", name="p", uid=claim, controller=True)
        meta = ObjectMeta(name="p-data", namespace="x", ownerReferences=[owner])
        tell(simulation, PersistentVolumeClaim(metadata=meta))
    spec = PodSpec(containers=[Container(name="c")], volumes=[Volume(name="data", ephemeral=EphemeralVolumeSource())])
    pod = Pod(metadata=ObjectMeta(name="p", namespace="x", uid="uid-p"), spec=spec)
    diagnosis = simulation.select_node(pod).diagnosis
    assert diagnosis is not None
    assert diagnosis.pre_filter == reasons


def test_a_claim_that_there_is_not() -> None:
    simulation = Simulation()
    spec = PodSpec(containers=[Container(name="c")], volumes=using("gone"))
    diagnosis = simulation.select_node(Pod(metadata=ObjectMeta(name="p", namespace="x"), spec=spec)).diagnosis
    assert diagnosis is not None
    assert diagnosis.pre_filter == 'persistentvolumeclaim "gone" not found'


def test_two_claims_do_not_share_a_volume() -> None:
    simulation = Simulation()
    simulation.add_node(Node(metadata=ObjectMeta(name="n"), status=NodeStatus(allocatable={"pods": "9"})))
    tell(
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
    assert refusals(simulation, "VolumeBinding", made_pod("p", "", using("one"))) == {}
    reasons = ("node(s) didn't find available persistent volumes to bind",)
    assert refusals(simulation, "VolumeBinding", made_pod("p", "", using("one", "two"))) == {"n": (reasons, True)}
