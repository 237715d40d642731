"""Descriptions of pods and pod templates."""

from __future__ import annotations

from collections.abc import Sequence

from sampan.kubectl.describers.cluster_view import ClusterView
from sampan.kubectl.describers.containers import containers, resources
from sampan.kubectl.describers.layout import (
    NONE,
    Lines,
    Value,
    annotation_lines,
    controller_lines,
    format_age,
    format_list,
    items,
    label_lines,
    meta,
    part,
    selector_or_none,
    time_text,
)
from sampan.kubectl.describers.volumes import volumes

_MIRROR = "kubernetes.io/config.mirror"


def describe_pod(pod: Value, view: ClusterView) -> Lines:
    metadata, spec, status = meta(pod), part(pod, "spec"), part(pod, "status")
    yield f"Name:\t{metadata.get('name')}"
    yield f"Namespace:\t{metadata.get('namespace')}"
    if spec.get("priority") is not None:
        yield f"Priority:\t{spec['priority']}"
    for title, field in (
        ("Priority Class Name", "priorityClassName"),
        ("Runtime Class Name", "runtimeClassName"),
        ("Service Account", "serviceAccountName"),
    ):
        if spec.get(field):
            yield f"{title}:\t{spec[field]}"
    yield f"Node:\t{spec['nodeName']}/{status.get('hostIP', '')}" if spec.get("nodeName") else f"Node:\t{NONE}"
    if status.get("startTime"):
        yield f"Start Time:\t{time_text(status['startTime'])}"
    yield from label_lines("Labels", metadata.get("labels"))
    yield from annotation_lines("Annotations", metadata.get("annotations"))
    if metadata.get("deletionTimestamp") and status.get("phase") not in ("Failed", "Succeeded"):
        yield f"Status:\tTerminating (lasts {format_age(metadata['deletionTimestamp'])})"
        yield f"Termination Grace Period:\t{metadata.get('deletionGracePeriodSeconds', 0)}s"
    else:
        yield f"Status:\t{status.get('phase', '')}"
    for title, field in (("Reason", "reason"), ("Message", "message")):
        if status.get(field):
            yield f"{title}:\t{status[field]}"
    yield from _seccomp_profile(part(spec, "securityContext").get("seccompProfile"))
    yield f"IP:\t{status.get('podIP', '')}"
    addresses = items(status, "podIPs")
    yield "IPs:" if addresses else f"IPs:\t{NONE}"
    yield from (f"  IP:\t{address.get('ip')}" for address in addresses)
    yield from controller_lines(pod)
    if status.get("nominatedNodeName"):
        yield f"NominatedNodeName:\t{status['nominatedNodeName']}"
    if spec.get("resources") is not None:
        yield "Resources:"
        yield from (f"  {line}" for line in resources(spec["resources"]))
    yield from _pod_containers(pod)
    yield from _pod_conditions(spec, status)
    yield from volumes(items(spec, "volumes"), "")
    yield f"QoS Class:\t{status.get('qosClass', '')}"
    yield from label_lines("Node-Selectors", spec.get("nodeSelector"))
    yield from format_list("Tolerations", toleration_texts(items(spec, "tolerations")))
    yield from _topology_spread(items(spec, "topologySpreadConstraints"), "")
    yield from _scheduling_group(spec, "")
    mirror = part(metadata, "annotations").get(_MIRROR)
    yield from view.events(pod, uids=(mirror,) if mirror else ())


def _seccomp_profile(profile: Value | None) -> Lines:
    if profile is not None:
        yield f"SeccompProfile:\t{profile.get('type')}"
        if profile.get("type") == "Localhost":
            yield f"LocalhostProfile:\t{profile.get('localhostProfile', '')}"


def _pod_containers(pod: Value) -> Lines:
    spec, status = part(pod, "spec"), part(pod, "status")
    for title, field, statuses in (
        ("Init Containers", "initContainers", "initContainerStatuses"),
        ("Containers", "containers", "containerStatuses"),
        ("Ephemeral Containers", "ephemeralContainers", "ephemeralContainerStatuses"),
    ):
        if items(spec, field) or field == "containers":
            yield from containers(title, items(spec, field), items(status, statuses), pod, "")


def _pod_conditions(spec: Value, status: Value) -> Lines:
    conditions = items(status, "conditions")
    if gates := items(spec, "readinessGates"):
        yield "Readiness Gates:"
        yield "  Type\tStatus"
        statuses = {condition.get("type"): condition.get("status") for condition in reversed(conditions)}
        yield from (f"  {gate['conditionType']} \t{statuses.get(gate['conditionType'], NONE)} " for gate in gates)
    if conditions:
        yield "Conditions:"
        yield "  Type\tStatus"
        yield from (f"  {condition.get('type')} \t{condition.get('status')} " for condition in conditions)


def _topology_spread(constraints: Sequence[Value], indent: str) -> Lines:
    if not constraints:
        return
    texts = []
    for constraint in sorted(constraints, key=lambda entry: str(entry.get("topologyKey", ""))):
        text = f"{constraint.get('topologyKey')}:{constraint.get('whenUnsatisfiable')}"
        text += f" when max skew {constraint.get('maxSkew', 0)} is exceeded"
        if constraint.get("labelSelector") is not None:
            text += f" for selector {selector_or_none(constraint['labelSelector'])}"
        texts.append(text)
    yield from format_list("Topology Spread Constraints", texts, indent)


def _scheduling_group(spec: Value, indent: str) -> Lines:
    if group := spec.get("schedulingGroup"):
        yield f"{indent}SchedulingGroup:"
        yield f"  PodGroupName:\t{group.get('podGroupName', '')}"


def toleration_texts(tolerations: Sequence[Value]) -> list[str]:
    return [_toleration_text(entry) for entry in sorted(tolerations, key=lambda entry: str(entry.get("key", "")))]


def _toleration_text(toleration: Value) -> str:
    text = str(toleration.get("key", ""))
    if toleration.get("value"):
        text += f"={toleration['value']}"
    if toleration.get("effect"):
        text += f":{toleration['effect']}"
    if toleration.get("operator") == "Exists" and not toleration.get("value"):
        text += " op=Exists" if text else "op=Exists"
    if toleration.get("tolerationSeconds") is not None:
        text += f" for {toleration['tolerationSeconds']}s"
    return text


def pod_template(template: Value | None) -> Lines:
    yield "Pod Template:"
    if template is None:
        yield "  <unset>"
        return
    metadata, spec = meta(template), part(template, "spec")
    yield from label_lines("  Labels", metadata.get("labels"))
    if metadata.get("annotations"):
        yield from annotation_lines("  Annotations", metadata["annotations"])
    if spec.get("serviceAccountName"):
        yield f"  Service Account:\t{spec['serviceAccountName']}"
    if items(spec, "initContainers"):
        yield from containers("Init Containers", items(spec, "initContainers"), (), None, "  ")
    yield from containers("Containers", items(spec, "containers"), (), None, "  ")
    yield from volumes(items(spec, "volumes"), "  ")
    yield from _topology_spread(items(spec, "topologySpreadConstraints"), "  ")
    if spec.get("priorityClassName"):
        yield f"  Priority Class Name:\t{spec['priorityClassName']}"
    yield from label_lines("  Node-Selectors", spec.get("nodeSelector"))
    yield from format_list("  Tolerations", toleration_texts(items(spec, "tolerations")))
    yield from _scheduling_group(spec, "  ")
