"""Descriptions of nodes: conditions, addresses, resources and the requests of their pods."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from sampan.api.semantics.pod_resources import add
from sampan.api.values.quantity import Quantity, parse
from sampan.kubectl.describers.cluster_view import ClusterView
from sampan.kubectl.describers.layout import (
    NONE,
    UNSET,
    Lines,
    Value,
    annotation_lines,
    format_age,
    format_list,
    go_text,
    items,
    label_lines,
    meta,
    part,
    time_text,
)
from sampan.kubectl.errors import ServerError

_ROLE_PREFIX = "node-role.kubernetes.io/"
_SYSTEM_INFO = (
    ("Machine ID", "machineID"),
    ("System UUID", "systemUUID"),
    ("Boot ID", "bootID"),
    ("Kernel Version", "kernelVersion"),
    ("OS Image", "osImage"),
    ("Operating System", "operatingSystem"),
    ("Architecture", "architecture"),
    ("Container Runtime Version", "containerRuntimeVersion"),
    ("Kubelet Version", "kubeletVersion"),
)
_STANDARD = ("cpu", "memory", "ephemeral-storage")
_MAX_SHOWN_POOLS = 10

Amounts = Mapping[str, Quantity]


def describe_node(obj: Value, view: ClusterView) -> Lines:
    metadata, spec, status = meta(obj), part(obj, "spec"), part(obj, "status")
    name = str(metadata.get("name", ""))
    yield f"Name:\t{name}"
    yield f"Roles:\t{','.join(_roles(metadata.get('labels') or {})) or NONE}"
    yield from label_lines("Labels", metadata.get("labels"))
    yield from annotation_lines("Annotations", metadata.get("annotations"))
    yield f"CreationTimestamp:\t{time_text(metadata.get('creationTimestamp'))}"
    yield from format_list("Taints", _taints(items(spec, "taints")))
    yield f"Unschedulable:\t{go_text(bool(spec.get('unschedulable')))}"
    yield from _lease(name, view)
    yield from _conditions(items(status, "conditions"))
    yield "Addresses:"
    yield from (f"  {address.get('type')}:\t{address.get('address')}" for address in items(status, "addresses"))
    for title, field in (("Capacity", "capacity"), ("Allocatable", "allocatable")):
        if amounts := part(status, field):
            yield f"{title}:"
            yield from (f"  {resource}:\t{amount}" for resource, amount in sorted(amounts.items()))
    yield from _resource_slices(name, view)
    yield "System Info:"
    info = part(status, "nodeInfo")
    yield from (f"  {title}:\t{info.get(field, '')}" for title, field in _SYSTEM_INFO)
    if spec.get("podCIDR"):
        yield f"PodCIDR:\t{spec['podCIDR']}"
    if spec.get("podCIDRs"):
        yield f"PodCIDRs:\t{','.join(spec['podCIDRs'])}"
    if spec.get("providerID"):
        yield f"ProviderID:\t{spec['providerID']}"
    selector = f"spec.nodeName={name},status.phase!=Failed,status.phase!=Succeeded"
    pods = view.list_if_served("/api/v1/pods", fieldSelector=selector)
    if pods is None:
        yield "Pods:\tnot authorized"
    else:
        yield from _pod_resources(pods, part(status, "allocatable") or part(status, "capacity"))
    yield from view.events(obj, kind="Node", uids=(str(metadata.get("uid", "")), name))


def _roles(node_labels: Mapping[str, str]) -> list[str]:
    roles = {key.removeprefix(_ROLE_PREFIX) for key in node_labels if key.startswith(_ROLE_PREFIX)}
    return sorted((roles | {node_labels.get("kubernetes.io/role", "")}) - {""})


def _taints(taints: Sequence[Value]) -> list[str]:
    ordered = sorted(taints, key=lambda taint: f"{taint.get('effect', '')},{taint.get('key', '')}")
    return [_taint(taint) for taint in ordered]


def _taint(taint: Value) -> str:
    key, value, effect = taint.get("key", ""), taint.get("value", ""), taint.get("effect", "")
    if not effect:
        return f"{key}={value}:" if value else str(key)
    return f"{key}={value}:{effect}" if value else f"{key}:{effect}"


def _lease(name: str, view: ClusterView) -> Lines:
    try:
        lease = view.get(f"/apis/coordination.k8s.io/v1/namespaces/kube-node-lease/leases/{name}")
    except ServerError as error:
        yield f"Lease:\tFailed to get lease: {error.error.message}"
        return
    spec = part(lease, "spec")
    yield "Lease:"
    yield f"  HolderIdentity:\t{spec.get('holderIdentity', UNSET)}"
    for title, field in (("AcquireTime", "acquireTime"), ("RenewTime", "renewTime")):
        yield f"  {title}:\t{time_text(spec[field]) if spec.get(field) else UNSET}"


def _conditions(conditions: Sequence[Value]) -> Lines:
    if not conditions:
        return
    yield "Conditions:"
    yield "  Type\tStatus\tLastHeartbeatTime\tLastTransitionTime\tReason\tMessage"
    yield "  ----\t------\t-----------------\t------------------\t------\t-------"
    for row in conditions:
        yield (
            f"  {row.get('type')} \t{row.get('status')} \t{time_text(row.get('lastHeartbeatTime'))} \t"
            f"{time_text(row.get('lastTransitionTime'))} \t{row.get('reason', '')} \t{row.get('message', '')}"
        )


def _resource_slices(name: str, view: ClusterView) -> Lines:
    """Yield the lines of the node's ResourceSlices: at most ten pools of devices."""
    slices = view.list_if_served("/apis/resource.k8s.io/v1/resourceslices", fieldSelector=f"spec.nodeName={name}")
    pools: dict[tuple[str, str], list[int]] = {}
    for entry in slices or ():
        spec = part(entry, "spec")
        counts = pools.setdefault((str(spec.get("driver")), str(part(spec, "pool").get("name"))), [0, 0])
        counts[0] += 1
        counts[1] += len(items(spec, "devices"))
    if not pools:
        return
    yield "Node-Local ResourceSlices:"
    yield "  Driver\tPool\tSlices\tDevices"
    yield "  ------\t----\t------\t-------"
    ordered = sorted(pools.items(), key=lambda entry: "/".join(entry[0]))
    for (driver, pool), (slice_count, device_count) in ordered[:_MAX_SHOWN_POOLS]:
        yield f"  {driver}\t{pool}\t{slice_count}\t{device_count}"
    if len(ordered) > _MAX_SHOWN_POOLS:
        yield f"  ...and {len(ordered) - _MAX_SHOWN_POOLS} more pools"


# -- requests and limits of pods -------------------------------------------------------------------------------------


def _pod_resources(pods: Sequence[Value], allocatable: Mapping[str, str]) -> Lines:
    available = {name: parse(str(amount)) for name, amount in allocatable.items()}
    yield f"Non-terminated Pods:\t({len(pods)} in total)"
    yield "  Namespace\tName\t\tCPU Requests\tCPU Limits\tMemory Requests\tMemory Limits\tAge"
    yield "  ---------\t----\t\t------------\t----------\t---------------\t-------------\t---"
    requests: dict[str, Quantity] = {}
    limits: dict[str, Quantity] = {}
    for pod in pods:
        pod_requests, pod_limits = pod_amounts(pod, "requests"), pod_amounts(pod, "limits")
        add(requests, pod_requests)
        add(limits, pod_limits)
        cells = [
            _share(amounts, resource, available)
            for resource in ("cpu", "memory")
            for amounts in (pod_requests, pod_limits)
        ]
        metadata = meta(pod)
        yield (
            f"  {metadata.get('namespace')}\t{metadata.get('name')}\t\t" + "\t".join(cells) + "\t"
            f"{format_age(metadata.get('creationTimestamp'))}"
        )
    yield "Allocated resources:"
    yield "  (Total limits may be over 100 percent, i.e., overcommitted.)"
    yield "  Resource\tRequests\tLimits"
    yield "  --------\t--------\t------"
    huge_pages = sorted(name for name in available if name.startswith("hugepages-"))
    for name in (*_STANDARD, *huge_pages):
        yield f"  {name}\t{_share(requests, name, available)}\t{_share(limits, name, available)}"
    further_names = {name for name in available if name not in (*_STANDARD, *huge_pages, "pods", "storage")}
    for name in sorted(further_names):
        yield f"  {name}\t{requests.get(name, '0')}\t{limits.get(name, '0')}"


def _share(amounts: Amounts, resource: str, available: Amounts) -> str:
    """Return the text of a resource amount, with its percentage of the available amount."""
    amount, total = amounts.get(resource), available.get(resource)
    if amount is None or total is None or not total:
        return f"{amount if amount is not None else 0} (0%)"
    if resource == "cpu":
        return f"{amount} ({int(amount.milli_value() / total.milli_value() * 100)}%)"
    return f"{amount} ({int(amount.value() / total.value() * 100)}%)"


def pod_amounts(pod: Value, field: str) -> dict[str, Quantity]:
    """Return the requests or limits of a pod: the sum of its containers and sidecars, at least what an init container
    needs, replaced by those of the pod itself, plus the overhead."""
    spec = part(pod, "spec")
    total: dict[str, Quantity] = {}
    for container in items(spec, "containers"):
        add(total, _amounts(container, field))
    sidecars: dict[str, Quantity] = {}
    max_amounts: dict[str, Quantity] = {}
    for container in items(spec, "initContainers"):
        amounts = _amounts(container, field)
        if container.get("restartPolicy") == "Always":
            add(total, amounts)
            add(sidecars, amounts)
            amounts = dict(sidecars)
        else:
            add(amounts, sidecars)
        _raise_to(max_amounts, amounts)
    _raise_to(total, max_amounts)
    total |= _amounts(spec, field)
    overhead = {name: parse(str(amount)) for name, amount in part(spec, "overhead").items()}
    add(total, overhead if field == "requests" else {name: overhead[name] for name in overhead if name in total})
    return total


def _amounts(holder: Value, field: str) -> dict[str, Quantity]:
    return {name: parse(str(amount)) for name, amount in part(holder, "resources", field).items()}


def _raise_to(total: dict[str, Quantity], amounts: Amounts) -> None:
    for name, amount in amounts.items():
        if name not in total or total[name] < amount:
            total[name] = amount
