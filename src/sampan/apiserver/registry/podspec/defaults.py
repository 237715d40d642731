"""Default values of pod specs. A pod gets some more than a pod template (`default_pod`).

Defaults of volumes are in `volumes.defaults`.
"""

from collections.abc import Iterable

from sampan.api import names
from sampan.api.semantics import pod_resources
from sampan.api.semantics.pods import containers_by_field
from sampan.api.types.core_v1 import (
    Container,
    EnvVarSource,
    EphemeralContainer,
    HTTPGetAction,
    Lifecycle,
    Pod,
    PodIP,
    PodSecurityContext,
    PodSpec,
    PodStatus,
    PodTemplateSpec,
    Probe,
)
from sampan.api.values.quantity import parse
from sampan.apiserver.registry.podspec.images import pull_policy
from sampan.apiserver.registry.podspec.resources import may_overcommit, round_up
from sampan.apiserver.registry.podspec.volumes.defaults import default_volume

_GRACE_S = 30
_TERMINATION_MESSAGE_PATH = "/dev/termination-log"
_OLD_INIT_CONTAINERS = tuple(
    f"pod.{level}.kubernetes.io/init-container{end}" for level in ("beta", "alpha") for end in ("s", "-statuses")
)
"""Annotations of init containers from before they had a field; they are always dropped."""


def default_pod(pod: Pod) -> None:
    spec = pod.spec
    if spec.enableServiceLinks is None:
        spec.enableServiceLinks = True
    for container in spec.containers or ():
        _requests_from_limits(container)
    for container in spec.initContainers:
        _requests_from_limits(container)
    if spec.hostNetwork:
        _default_host_ports(spec.containers or ())
        _default_host_ports(spec.initContainers)
    default_spec(spec)
    if (spec.terminationGracePeriodSeconds or 0) < 0:
        spec.terminationGracePeriodSeconds = 1
    if pod.metadata.annotations:
        drop_old_annotations(pod.metadata.annotations)
    default_status(pod.status)


def default_template(template: PodTemplateSpec) -> None:
    default_spec(template.spec)
    if template.metadata.annotations:
        drop_old_annotations(template.metadata.annotations)


def drop_old_annotations(annotations: dict[str, str]) -> None:
    for key in _OLD_INIT_CONTAINERS:
        annotations.pop(key, None)


def default_spec(spec: PodSpec) -> None:
    if not spec.dnsPolicy:
        spec.dnsPolicy = "ClusterFirst"
    if not spec.restartPolicy:
        spec.restartPolicy = "Always"
    if spec.securityContext is None:
        spec.securityContext = PodSecurityContext()
    if spec.terminationGracePeriodSeconds is None:
        spec.terminationGracePeriodSeconds = _GRACE_S
    if not spec.schedulerName:
        spec.schedulerName = "default-scheduler"
    name_service_account(spec, spec.serviceAccountName or spec.serviceAccount)
    for volume in spec.volumes:
        default_volume(volume)
    for container in spec.containers or ():
        _default_container(container)
    for container in spec.initContainers:
        _default_container(container)
    for ephemeral in spec.ephemeralContainers:
        _default_container(ephemeral)
    _round_up_spec(spec)


def name_service_account(spec: PodSpec, name: str) -> None:
    """Set the service account's name in both the field and its deprecated alias."""
    spec.serviceAccountName = spec.serviceAccount = name


def _round_up_spec(spec: PodSpec) -> None:
    if spec.overhead:
        round_up(spec.overhead)
    if spec.resources is not None:
        round_up(spec.resources.limits)
        round_up(spec.resources.requests)


def _requests_from_limits(container: Container) -> None:
    limits = container.resources.limits
    if limits:
        container.resources.requests = {**limits, **container.resources.requests}


def default_pod_resources(spec: PodSpec) -> None:
    """Default pod-level limits of huge pages from the containers, requests from the containers or the limits, and other
    limits, of resources that all containers limit, from the containers.

    This takes place after admission, which may add resources to containers.
    """
    resources = spec.resources
    if resources is None or not (resources.limits or resources.requests):
        return
    limits, requests = resources.limits, resources.requests
    for name, amount in pod_resources.pod_limits(spec).items():
        if names.is_huge_pages(name) and name not in requests:
            limits.setdefault(name, str(amount))
    for name, amount in pod_resources.pod_requests(spec).items():
        if names.is_pod_level_resource(name) and may_overcommit(name):
            requests.setdefault(name, str(amount))
    for name, text in limits.items():
        if names.is_pod_level_resource(name):
            requests.setdefault(name, text)
    container_limits = pod_resources.pod_limits(spec)
    for name, text in requests.items():
        if names.is_pod_level_resource(name) and name not in limits and _is_limited_by_all_containers(spec, name):
            limits[name] = str(max(parse(text), container_limits[name]))
    round_up(limits)
    round_up(requests)


def _is_limited_by_all_containers(spec: PodSpec, name: str) -> bool:
    return all(
        isinstance(container, Container) and name in container.resources.limits
        for _, container, _ in containers_by_field(spec)
    )


def _default_host_ports(containers: Iterable[Container]) -> None:
    for container in containers:
        for port in container.ports:
            if port.hostPort == 0:
                port.hostPort = port.containerPort


def _default_container(container: Container | EphemeralContainer) -> None:
    if not container.imagePullPolicy:
        container.imagePullPolicy = pull_policy(container.image)
    if not container.terminationMessagePath:
        container.terminationMessagePath = _TERMINATION_MESSAGE_PATH
    if not container.terminationMessagePolicy:
        container.terminationMessagePolicy = "File"
    for port in container.ports:
        if not port.protocol:
            port.protocol = "TCP"
    for variable in container.env:
        if variable.valueFrom is not None:
            _default_value_from(variable.valueFrom)
    if container.resources.limits:
        round_up(container.resources.limits)
    if container.resources.requests:
        round_up(container.resources.requests)
    _default_probes(container)


def _default_value_from(source: EnvVarSource) -> None:
    if source.fieldRef is not None and not source.fieldRef.apiVersion:
        source.fieldRef.apiVersion = "v1"
    if source.fileKeyRef is not None and source.fileKeyRef.optional is None:
        source.fileKeyRef.optional = False


def _default_probes(container: Container | EphemeralContainer) -> None:
    if container.livenessProbe is not None:
        _default_probe(container.livenessProbe)
    if container.readinessProbe is not None:
        _default_probe(container.readinessProbe)
    if container.startupProbe is not None:
        _default_probe(container.startupProbe)
    if container.lifecycle is not None:
        _default_lifecycle(container.lifecycle)


def _default_probe(probe: Probe) -> None:
    probe.timeoutSeconds = probe.timeoutSeconds or 1
    probe.periodSeconds = probe.periodSeconds or 10
    probe.successThreshold = probe.successThreshold or 1
    probe.failureThreshold = probe.failureThreshold or 3
    if probe.httpGet is not None:
        _default_http_get(probe.httpGet)
    if probe.grpc is not None and probe.grpc.service is None:
        probe.grpc.service = ""


def _default_lifecycle(lifecycle: Lifecycle) -> None:
    for handler in (lifecycle.postStart, lifecycle.preStop):
        if handler is not None and handler.httpGet is not None:
            _default_http_get(handler.httpGet)


def _default_http_get(action: HTTPGetAction) -> None:
    action.path = action.path or "/"
    action.scheme = action.scheme or "HTTP"


def default_status(status: PodStatus) -> None:
    """Make podIP and the first entry of podIPs agree, podIP taking precedence, and round quantities."""
    if status.podIP and (not status.podIPs or status.podIPs[0].ip != status.podIP):
        status.podIPs = [PodIP(ip=status.podIP)]
    elif status.podIPs:
        status.podIP = status.podIPs[0].ip
    for statuses in (status.containerStatuses, status.initContainerStatuses, status.ephemeralContainerStatuses):
        for container in statuses:
            round_up(container.allocatedResources)
            if container.resources is not None:
                round_up(container.resources.limits)
                round_up(container.resources.requests)
    round_up(status.allocatedResources)
    if status.resources is not None:
        round_up(status.resources.limits)
        round_up(status.resources.requests)
