"""Fields whose feature gate is off by default: they are dropped silently."""

from sampan.api.semantics.pods import containers_by_field
from sampan.api.types.core_v1 import PodSpec, PodStatus
from sampan.apiserver.registry.strategy import Context

_POD_GROUPS = ("scheduling.k8s.io", "v1alpha2", "podgroups")
_OFF_PROJECTIONS = ("clusterTrustBundle", "podCertificate")


def drop_disabled_fields(spec: PodSpec, ctx: Context) -> None:
    """Drop disabled fields of a spec. The scheduling group is kept if the server serves PodGroups."""
    if spec.schedulingGroup is not None and ctx.registry.scheme.resource(*_POD_GROUPS) is None:
        spec.schedulingGroup = None
    for volume in spec.volumes:
        if volume.projected is not None:
            for source in volume.projected.sources or ():
                for field in _OFF_PROJECTIONS:
                    setattr(source, field, None)
    for _, container, _ in containers_by_field(spec):
        if container.lifecycle is not None and container.lifecycle.stopSignal is not None:
            container.lifecycle.stopSignal = None
            if container.lifecycle.postStart is None and container.lifecycle.preStop is None:
                container.lifecycle = None


def drop_disabled_status(status: PodStatus) -> None:
    status.nodeAllocatableResourceClaimStatuses = []
    for statuses in (status.containerStatuses, status.initContainerStatuses, status.ephemeralContainerStatuses):
        for container in statuses:
            for mount in container.volumeMounts:
                mount.volumeStatus = None
