"""The table of controllers: their names, where each is made, and how it runs."""

from sampan.controllers.descriptor import Descriptor
from sampan.machinery.controller import RunnerConfig
from sampan.machinery.workqueue import Backoff

CONTROLLERS = (
    Descriptor(
        name="namespace-controller",
        aliases=("namespace",),
        factory="sampan.controllers.namespace:make",
        runner=RunnerConfig(workers=10, backoff=Backoff(most_s=60)),
    ),
    Descriptor(
        name="serviceaccount-controller",
        aliases=("serviceaccount",),
        factory="sampan.controllers.serviceaccount:make",
    ),
    Descriptor(
        name="resourcequota-controller",
        aliases=("resourcequota",),
        factory="sampan.controllers.resource_quota:make",
    ),
    Descriptor(
        name="clusterrole-aggregation-controller",
        aliases=("clusterrole-aggregation",),
        factory="sampan.controllers.cluster_role_aggregation:make",
    ),
    Descriptor(
        name="root-ca-certificate-publisher-controller",
        aliases=("root-ca-cert-publisher",),
        factory="sampan.controllers.root_ca:make",
    ),
    Descriptor(
        name="persistentvolumeclaim-protection-controller",
        aliases=("pvc-protection",),
        factory="sampan.controllers.storage.protection_claims:make",
    ),
    Descriptor(
        name="persistentvolume-protection-controller",
        aliases=("pv-protection",),
        factory="sampan.controllers.storage.protection_volumes:make",
    ),
    Descriptor(
        name="volumeattributesclass-protection-controller",
        factory="sampan.controllers.storage.protection_classes:make",
    ),
    Descriptor(
        name="node-ipam-controller",
        aliases=("nodeipam",),
        factory="sampan.controllers.nodes.ipam:make",
    ),
    Descriptor(
        name="node-lifecycle-controller",
        aliases=("nodelifecycle",),
        factory="sampan.controllers.nodes.lifecycle:make",
        runner=RunnerConfig(workers=8),
    ),
    Descriptor(
        name="taint-eviction-controller",
        factory="sampan.controllers.nodes.taint_eviction:make",
        runner=RunnerConfig(workers=8),
    ),
    Descriptor(
        name="pod-garbage-collector-controller",
        aliases=("podgc",),
        factory="sampan.controllers.nodes.pod_gc:make",
    ),
    Descriptor(
        name="job-controller",
        aliases=("job",),
        factory="sampan.controllers.batch.job:make",
        runner=RunnerConfig(backoff=Backoff(first_s=1, most_s=60)),
    ),
    Descriptor(
        name="replicationcontroller-controller",
        aliases=("replicationcontroller",),
        factory="sampan.controllers.workloads.replication:make",
    ),
    Descriptor(
        name="replicaset-controller",
        aliases=("replicaset",),
        factory="sampan.controllers.workloads.replicaset:make",
    ),
    Descriptor(
        name="statefulset-controller",
        aliases=("statefulset",),
        factory="sampan.controllers.workloads.statefulset:make",
    ),
    Descriptor(
        name="garbage-collector-controller",
        aliases=("garbagecollector",),
        factory="sampan.controllers.garbage:make",
        runner=RunnerConfig(workers=20),
    ),
    Descriptor(
        name="cronjob-controller",
        aliases=("cronjob",),
        factory="sampan.controllers.batch.cronjob:make",
    ),
    Descriptor(
        name="ttl-after-finished-controller",
        aliases=("ttl-after-finished",),
        factory="sampan.controllers.batch.ttl_after_finished:make",
    ),
)

__all__ = ["CONTROLLERS"]
