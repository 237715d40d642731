"""Random clusters in which pods use persistent volume claims."""

from dataclasses import dataclass
from typing import Any

import hypothesis
from hypothesis import strategies as st

from sampan.api.feature_gates import FeatureGates
from sampan.api.types.core_v1 import (
    Container,
    CSIPersistentVolumeSource,
    Node,
    NodeSelector,
    NodeSelectorRequirement,
    NodeSelectorTerm,
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
    TopologySelectorLabelRequirement,
    TopologySelectorTerm,
    Volume,
    VolumeNodeAffinity,
    VolumeResourceRequirements,
)
from sampan.api.types.meta_v1 import LabelSelector, ObjectMeta
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
from sampan.scheduler.simulation import Simulation
from tests.scheduler.random_clusters import ZONE, Situation, fill_informers, optional

BOUND = "pv.kubernetes.io/bind-completed"
SELECTED = "volume.kubernetes.io/selected-node"
DRIVER = "csi.example.com"
NO_PROVISIONER = "kubernetes.io/no-provisioner"
REGION, OLD_ZONE = "topology.kubernetes.io/region", "failure-domain.beta.kubernetes.io/zone"
CLASSES = ("later", "static", "now")
many = hypothesis.settings(max_examples=60, deadline=None, suppress_health_check=[hypothesis.HealthCheck.too_slow])


def zone_affinity(*values: str) -> VolumeNodeAffinity:
    requirement = NodeSelectorRequirement(key=ZONE, operator="In", values=list(values))
    return VolumeNodeAffinity(
        required=NodeSelector(nodeSelectorTerms=[NodeSelectorTerm(matchExpressions=[requirement])])
    )


affinities = st.sampled_from([None, zone_affinity("a"), zone_affinity("b"), zone_affinity("a", "b")])
sizes = st.sampled_from(["1Gi", "2Gi", "3Gi"])


def sample_mostly(usual: Any, *others: Any, times: int = 5) -> Any:
    """The first value far more often than the others, so that objects often match."""
    return st.sampled_from([usual] * times + list(others))


@st.composite
def volumes(draw: Any, name: str) -> PersistentVolume:
    ref = draw(sample_mostly(None, "c0", "c1", "other"))
    csi = CSIPersistentVolumeSource(driver=DRIVER, volumeHandle=draw(sample_mostly(name, "h0", "h1")))
    return PersistentVolume(
        metadata=ObjectMeta(
            name=name,
            labels=draw(optional(**{ZONE: ["a", "b", "a__b"], REGION: ["r"], OLD_ZONE: ["a"], "kind": ["fast"]})),
            deletionTimestamp=draw(sample_mostly(None, "2026-01-01T00:00:00Z")),
        ),
        spec=PersistentVolumeSpec(
            capacity={"storage": draw(sizes)},
            accessModes=draw(st.sampled_from([["ReadWriteOnce"], ["ReadWriteOnce", "ReadWriteMany"]])),
            storageClassName=draw(sample_mostly("static", "later", "now")),
            volumeMode=draw(sample_mostly(None, "Block")),
            claimRef=ObjectReference(namespace="x", name=ref) if ref else None,
            nodeAffinity=draw(affinities),
            csi=draw(sample_mostly(csi, None)),
        ),
        status=PersistentVolumeStatus(phase=draw(sample_mostly("Available", "Released"))),
    )


@st.composite
def claims(draw: Any, name: str) -> PersistentVolumeClaim:
    volume = draw(st.one_of(st.just(""), sample_mostly("v0", "v1", "v2", "gone")))
    chosen = draw(sample_mostly("", "n0", "n1"))
    annotations = {SELECTED: chosen} if chosen and not volume else {}
    if volume and draw(sample_mostly(True, False)):
        annotations[BOUND] = "yes"
    return PersistentVolumeClaim(
        metadata=ObjectMeta(name=name, namespace="x", annotations=annotations, uid=f"uid-{name}"),
        spec=PersistentVolumeClaimSpec(
            storageClassName=draw(sample_mostly("static", "later", "later", "now")),
            volumeName=volume,
            accessModes=draw(sample_mostly(["ReadWriteOnce"], ["ReadWriteMany"], ["ReadWriteOncePod"])),
            resources=VolumeResourceRequirements(requests={"storage": draw(sizes)}),
            selector=draw(sample_mostly(None, LabelSelector(matchLabels={"kind": "fast"}))),
        ),
        status=PersistentVolumeClaimStatus(phase=draw(sample_mostly("Pending", "Lost", times=12))),
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
        fill_informers(simulation, *self.claims, *self.volumes, *self.classes, *self.capacities, *self.drivers)
        fill_informers(simulation, *self.nodes, *self.attachments)

    def claim(self, name: str) -> PersistentVolumeClaim | None:
        return next((candidate for candidate in self.claims if candidate.metadata.name == name), None)

    def volume(self, name: str) -> PersistentVolume | None:
        return next((candidate for candidate in self.volumes if candidate.metadata.name == name), None)

    def find_class(self, name: str | None) -> StorageClass:
        return next(storage_class for storage_class in self.classes if storage_class.metadata.name == name)


@st.composite
def storages(draw: Any) -> Storage:
    spec = CSIDriverSpec(storageCapacity=draw(st.booleans()), preventPodSchedulingIfMissing=draw(st.booleans()))
    drivers = [CSIDriver(metadata=ObjectMeta(name=DRIVER), spec=spec)]
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
            for number in range(draw(sample_mostly(3, 0, 1)))
        ],
        attachments=[
            VolumeAttachment(
                metadata=ObjectMeta(name=f"a{number}"),
                spec=VolumeAttachmentSpec(
                    attacher=DRIVER,
                    nodeName=draw(st.sampled_from(["n0", "n1"])),
                    source=VolumeAttachmentSource(
                        persistentVolumeName=draw(sample_mostly("v0", "v1", "v2", "gone", times=2))
                    ),
                ),
            )
            for number in range(draw(st.integers(0, 2)))
        ],
    )


def claim_volumes(*names: str) -> list[Volume]:
    return [
        Volume(name=f"vol-{at}", persistentVolumeClaim=PersistentVolumeClaimVolumeSource(claimName=name))
        for at, name in enumerate(names)
    ]


@st.composite
def storage_clusters(draw: Any, feature_gates: FeatureGates | None = None) -> tuple[Situation, Storage, Simulation]:
    """A cluster in which pods have claims."""
    storage = draw(storages())
    names = [claim.metadata.name for claim in storage.claims]
    some = st.lists(st.sampled_from(names), max_size=2, unique=True)
    nodes = [
        Node(
            metadata=ObjectMeta(
                name=f"n{number}",
                labels=draw(st.fixed_dictionaries({ZONE: st.sampled_from("ab")}, optional={REGION: st.just("r")}))
                if draw(sample_mostly(True, False))
                else {},
            )
        )
        for number in range(draw(st.integers(2, 3)))
    ]
    situation = Situation(
        nodes=nodes,
        pods=[make_pod(f"p{at}", f"n{at % 2}", claim_volumes(*draw(some))) for at in range(draw(st.integers(0, 4)))],
        pod=make_pod(
            "new", "", claim_volumes(*draw(st.lists(st.sampled_from(names), min_size=1, max_size=3, unique=True)))
        ),
        namespaces={},
    )
    simulation = situation.simulation("VolumeBinding", "VolumeZone", "NodeVolumeLimits", feature_gates=feature_gates)
    storage.put_into(simulation)
    return situation, storage, simulation


def make_pod(name: str, node: str, volumes: list[Volume]) -> Pod:
    spec = PodSpec(nodeName=node, containers=[Container(name="c")], volumes=volumes)
    return Pod(metadata=ObjectMeta(name=name, namespace="x", uid=name), spec=spec)
