"""The kinds that kubectl describes in a layout of their own.

Only the sizes of values in Secrets are printed. kubectl also prints service account tokens; this command does not,
because terminal output ends up in logs.
"""

from __future__ import annotations

import base64
import binascii
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from sampan.api.ages import age
from sampan.cli.kubectl import describe_pods as pods
from sampan.cli.kubectl.chosen_pods import selector_of
from sampan.cli.kubectl.session import Session

_LONG = 140
_NOT_SHOWN = frozenset({"kubectl.kubernetes.io/last-applied-configuration"})

Value = Mapping[str, Any]
Describe = Callable[[Value, Session], Iterator[str]]
"""A function that yields lines with tab-separated columns."""


@dataclass(frozen=True, slots=True)
class DescribeFormat:
    describe: Describe
    has_events: bool = True


def form_of(obj: Value) -> DescribeFormat | None:
    """Return the layout of the object's kind, or None for a kind that is printed field by field."""
    return _FORMS.get((str(obj.get("apiVersion")), str(obj.get("kind"))))


def heading(metadata: Value, *, has_namespace: bool = True) -> Iterator[str]:
    yield f"Name:\t{metadata['name']}"
    if has_namespace:
        yield f"Namespace:\t{metadata.get('namespace', '')}"
    yield from under("Labels", [f"{key}={text}" for key, text in sorted((metadata.get("labels") or {}).items())])
    yield from under("Annotations", list(_annotations(metadata.get("annotations") or {})))


def under(title: str, texts: Sequence[str]) -> Iterator[str]:
    """Yield a title with one text per line beside it."""
    yield f"{title}:\t{texts[0] if texts else '<none>'}"
    yield from (f"\t{text}" for text in texts[1:])


def _annotations(values: Mapping[str, str]) -> Iterator[str]:
    """Yield the annotations. Long ones start on a new line and are cut off. The last-applied annotation is omitted, as
    it repeats the object, including the data of a Secret."""
    for key, text in sorted(values.items()):
        text = text.removesuffix("\n")
        if key in _NOT_SHOWN:
            continue
        if len(key) + len(text) + 2 <= _LONG and "\n" not in text:
            yield f"{key}: {text}"
            continue
        yield f"{key}:"
        yield from (f"  {_shortened(line, _LONG - 2)}" for line in text.split("\n"))


def _shortened(text: str, most: int) -> str:
    return f"{text[:most]}..." if len(text) > most else text


def _size(encoded: Any) -> int:
    """Return the number of bytes that a base64 text encodes."""
    try:
        return len(base64.b64decode(str(encoded or "")))
    except binascii.Error:
        return len(str(encoded))


# -- secrets and config maps -----------------------------------------------------------------------------------------


def _secret(obj: Value, session: Session) -> Iterator[str]:
    yield from heading(obj["metadata"])
    yield from ("", f"Type:\t{obj.get('type', '')}", "", "Data", "====")
    for key, encoded in sorted((obj.get("data") or {}).items()):
        yield f"{key}:\t{_size(encoded)} bytes"


def _config_map(obj: Value, session: Session) -> Iterator[str]:
    yield from heading(obj["metadata"])
    yield from ("", "Data", "====")
    for key, text in sorted((obj.get("data") or {}).items()):
        yield from (f"{key}:", "----", *text.split("\n"), "")
    yield from ("", "BinaryData", "====")
    yield from (f"{key}: {_size(encoded)} bytes" for key, encoded in sorted((obj.get("binaryData") or {}).items()))
    yield ""


# -- namespaces ------------------------------------------------------------------------------------------------------


def _namespace(obj: Value, session: Session) -> Iterator[str]:
    yield from heading(obj["metadata"], has_namespace=False)
    yield f"Status:\t{obj['status'].get('phase', '')}"
    path = f"/api/v1/namespaces/{obj['metadata']['name']}"
    yield ""
    yield from _quotas(session.get(f"{path}/resourcequotas")["items"] or [])
    yield ""
    yield from _limits(session.get(f"{path}/limitranges")["items"] or [])


def _quotas(quotas: Sequence[Value]) -> Iterator[str]:
    if not quotas:
        yield "No resource quota."
        return
    yield "Resource Quotas"
    for at, quota in enumerate(quotas):
        if at:
            yield ""
        yield f"  Name:\t{quota['metadata']['name']}"
        yield from ("  Resource\tUsed\tHard", "  --------\t---\t---")
        status = quota.get("status") or {}
        for name, hard in sorted((status.get("hard") or {}).items()):
            yield f"  {name}\t{(status.get('used') or {}).get(name, '0')}\t{hard}"


def _limits(ranges: Sequence[Value]) -> Iterator[str]:
    if not ranges:
        yield "No LimitRange resource."
        return
    yield "Resource Limits"
    head = ("Type", "Resource", "Min", "Max", "Default Request", "Default Limit", "Max Limit/Request Ratio")
    yield " " + "\t".join(head)
    yield " " + "\t".join(("----", "--------", "---", "---", "---------------", "-------------", "-" * 23))
    fields = ("min", "max", "defaultRequest", "default", "maxLimitRequestRatio")
    for limit in (item for limit_range in ranges for item in limit_range["spec"]["limits"]):
        columns = [limit.get(field) or {} for field in fields]
        for name in dict.fromkeys(name for column in columns for name in sorted(column)):
            yield " " + "\t".join((limit["type"], name, *(str(column.get(name, "-")) for column in columns)))


# -- services --------------------------------------------------------------------------------------------------------


def _service(obj: Value, session: Session) -> Iterator[str]:
    spec, status = obj["spec"], obj.get("status") or {}
    yield from heading(obj["metadata"])
    selector = [f"{key}={text}" for key, text in sorted((spec.get("selector") or {}).items())]
    yield f"Selector:\t{','.join(selector) or '<none>'}"
    yield f"Type:\t{spec.get('type', '')}"
    if spec.get("ipFamilyPolicy"):
        yield f"IP Family Policy:\t{spec['ipFamilyPolicy']}"
    yield f"IP Families:\t{','.join(spec.get('ipFamilies') or ()) or '<none>'}"
    yield f"IP:\t{spec.get('clusterIP', '')}"
    yield f"IPs:\t{','.join(spec.get('clusterIPs') or ()) or '<none>'}"
    if spec.get("externalIPs"):
        yield f"External IPs:\t{','.join(spec['externalIPs'])}"
    if spec.get("loadBalancerIP"):
        yield f"Desired LoadBalancer IP:\t{spec['loadBalancerIP']}"
    if spec.get("externalName"):
        yield f"External Name:\t{spec['externalName']}"
    if ingress := (status.get("loadBalancer") or {}).get("ingress"):
        yield f"LoadBalancer Ingress:\t{', '.join(_ingress(address) for address in ingress)}"
    slices = _slices(obj, session)
    for port in spec.get("ports") or ():
        yield from _service_port(port, slices)
    yield f"Session Affinity:\t{spec.get('sessionAffinity', '')}"
    if spec.get("externalTrafficPolicy"):
        yield f"External Traffic Policy:\t{spec['externalTrafficPolicy']}"
    if spec.get("internalTrafficPolicy"):
        yield f"Internal Traffic Policy:\t{spec['internalTrafficPolicy']}"
    if spec.get("healthCheckNodePort"):
        yield f"HealthCheck NodePort:\t{spec['healthCheckNodePort']}"
    if spec.get("loadBalancerSourceRanges"):
        yield f"LoadBalancer Source Ranges:\t{','.join(spec['loadBalancerSourceRanges'])}"


def _ingress(ingress: Value) -> str:
    mode = f" ({ingress['ipMode']})" if ingress.get("ip") and ingress.get("ipMode") else ""
    return str(ingress.get("ip") or ingress.get("hostname") or "") + mode


def _slices(obj: Value, session: Session) -> list[Value]:
    metadata = obj["metadata"]
    path = f"/apis/discovery.k8s.io/v1/namespaces/{metadata['namespace']}/endpointslices"
    response = session.get(path, {"labelSelector": f"kubernetes.io/service-name={metadata['name']}"})
    return list(response["items"] or [])


def _service_port(port: Value, slices: Sequence[Value]) -> Iterator[str]:
    name, protocol = port.get("name") or "<unset>", port.get("protocol", "TCP")
    yield f"Port:\t{name}\t{port['port']}/{protocol}"
    yield f"TargetPort:\t{port.get('targetPort', port['port'])}/{protocol}"
    if port.get("nodePort"):
        yield f"NodePort:\t{name}\t{port['nodePort']}/{protocol}"
    yield f"Endpoints:\t{_endpoints(port, slices)}"


def _endpoints(port: Value, slices: Sequence[Value]) -> str:
    """Return at most three ready endpoints."""
    if not slices:
        return "<none>"
    ready = []
    for endpoint_slice in slices:
        numbers = [
            slice_port.get("port")
            for slice_port in endpoint_slice.get("ports") or ()
            if (slice_port.get("name") or "") == (port.get("name") or "")
        ]
        for endpoint in endpoint_slice.get("endpoints") or ():
            if (endpoint.get("conditions") or {}).get("ready", True):
                ready += [_host_port(address, number) for number in numbers for address in endpoint["addresses"][:1]]
    more = f" + {len(ready) - 3} more..." if len(ready) > 3 else ""
    return ",".join(ready[:3]) + more


def _host_port(address: str, number: Any) -> str:
    return f"[{address}]:{number}" if ":" in address else f"{address}:{number}"


# -- pods ------------------------------------------------------------------------------------------------------------


def _pod(obj: Value, session: Session) -> Iterator[str]:
    metadata, spec, status = obj["metadata"], obj["spec"], obj.get("status") or {}
    name, namespace, *labels = heading(metadata)
    yield from (name, namespace)
    if spec.get("priority") is not None:
        yield f"Priority:\t{spec['priority']}"
    for title, field in (("Priority Class Name", "priorityClassName"), ("Runtime Class Name", "runtimeClassName")):
        if spec.get(field):
            yield f"{title}:\t{spec[field]}"
    if spec.get("serviceAccountName"):
        yield f"Service Account:\t{spec['serviceAccountName']}"
    yield f"Node:\t{spec['nodeName']}/{status.get('hostIP', '')}" if spec.get("nodeName") else "Node:\t<none>"
    if status.get("startTime"):
        yield f"Start Time:\t{pods.time_text(status['startTime'])}"
    yield from labels
    if metadata.get("deletionTimestamp"):
        lasts = age(metadata["deletionTimestamp"], time.time())
        yield f"Status:\tTerminating (lasts {lasts})"
        yield f"Termination Grace Period:\t{metadata.get('deletionGracePeriodSeconds', 0)}s"
    else:
        yield f"Status:\t{status.get('phase', '')}"
    for title, field in (("Reason", "reason"), ("Message", "message")):
        if status.get(field):
            yield f"{title}:\t{status[field]}"
    if profile := (spec.get("securityContext") or {}).get("seccompProfile"):
        yield f"SeccompProfile:\t{profile.get('type', '')}"
    yield from _pod_addresses(status)
    for owner in metadata.get("ownerReferences") or ():
        if owner.get("controller"):
            yield f"Controlled By:\t{owner['kind']}/{owner['name']}"
    if status.get("nominatedNodeName"):
        yield f"NominatedNodeName:\t{status['nominatedNodeName']}"
    for title, field in _CONTAINERS:
        statuses = {item["name"]: item for item in status.get(f"{field[:-1]}Statuses") or ()}
        yield from pods.containers(title, spec.get(field) or (), statuses, obj, "")
    if conditions := status.get("conditions"):
        yield from ("Conditions:", "  Type\tStatus", *(f"  {item['type']} \t{item['status']} " for item in conditions))
    yield from pods.volumes(spec.get("volumes") or (), "")
    yield f"QoS Class:\t{status.get('qosClass', '')}"
    yield from under(
        "Node-Selectors", [f"{key}={text}" for key, text in sorted((spec.get("nodeSelector") or {}).items())]
    )
    yield from under("Tolerations", pods.tolerations(spec.get("tolerations") or ()))


def _pod_addresses(status: Value) -> Iterator[str]:
    yield f"IP:\t{status.get('podIP', '')}"
    if not status.get("podIPs"):
        yield "IPs:\t<none>"
        return
    yield "IPs:"
    yield from (f"  IP:\t{address['ip']}" for address in status["podIPs"])


# -- deployments -----------------------------------------------------------------------------------------------------

_REVISION = "deployment.kubernetes.io/revision"


def _deployment(obj: Value, session: Session) -> Iterator[str]:
    metadata, spec, status = obj["metadata"], obj["spec"], obj.get("status") or {}
    name, namespace, *labels = heading(metadata)
    yield from (name, namespace, f"CreationTimestamp:\t{pods.time_text(metadata.get('creationTimestamp'))}", *labels)
    selector = selector_of(obj, metadata["name"])
    yield f"Selector:\t{selector}"
    counts = [status.get(field, 0) for field in ("updatedReplicas", "replicas", "availableReplicas")]
    updated, total, available = counts
    yield (
        f"Replicas:\t{spec.get('replicas', 1)} desired | {updated} updated | {total} total | {available} available | "
        f"{status.get('unavailableReplicas', 0)} unavailable"
    )
    strategy = spec.get("strategy") or {}
    yield f"StrategyType:\t{strategy.get('type', '')}"
    yield f"MinReadySeconds:\t{spec.get('minReadySeconds', 0)}"
    if rolling := strategy.get("rollingUpdate"):
        unavailable, surge = rolling.get("maxUnavailable", ""), rolling.get("maxSurge", "")
        yield f"RollingUpdateStrategy:\t{unavailable} max unavailable, {surge} max surge"
    yield from _template(spec["template"])
    if conditions := status.get("conditions"):
        yield from ("Conditions:", "  Type\tStatus\tReason", "  ----\t------\t------")
        yield from (
            f"  {condition['type']} \t{condition['status']}\t{condition.get('reason', '')}" for condition in conditions
        )
    yield from _replica_sets(obj, selector, session)


def _template(template: Value) -> Iterator[str]:
    metadata, spec = template.get("metadata") or {}, template["spec"]
    yield "Pod Template:"
    _, *labels = heading({**metadata, "name": ""}, has_namespace=False)
    count = max(1, len(metadata.get("labels") or {}))
    yield from (f"  {line}" for line in labels[: count if not metadata.get("annotations") else len(labels)])
    if spec.get("serviceAccountName"):
        yield f"  Service Account:\t{spec['serviceAccountName']}"
    for title, field in _CONTAINERS[:2]:
        yield from pods.containers(title, spec.get(field) or (), {}, None, "  ")
    yield from pods.volumes(spec.get("volumes") or (), "  ")
    if spec.get("priorityClassName"):
        yield f"  Priority Class Name:\t{spec['priorityClassName']}"
    selectors = [f"{key}={text}" for key, text in sorted((spec.get("nodeSelector") or {}).items())]
    yield from (f"  {line}" for line in under("Node-Selectors", selectors))
    yield from (f"  {line}" for line in under("Tolerations", pods.tolerations(spec.get("tolerations") or ())))


def _replica_sets(obj: Value, selector: str, session: Session) -> Iterator[str]:
    """Yield the replica sets of the deployment. The new one has the revision of the deployment; all others are old."""
    metadata = obj["metadata"]
    path = f"/apis/apps/v1/namespaces/{metadata['namespace']}/replicasets"
    replica_sets = session.get(path, {"labelSelector": selector})["items"] or []
    owned = [
        replica_set
        for replica_set in replica_sets
        if any(o["uid"] == metadata["uid"] for o in replica_set["metadata"].get("ownerReferences") or ())
    ]
    revision = (metadata.get("annotations") or {}).get(_REVISION)
    new = [
        replica_set
        for replica_set in owned
        if (replica_set["metadata"].get("annotations") or {}).get(_REVISION) == revision
    ]
    old = [replica_set for replica_set in owned if replica_set not in new]
    yield f"OldReplicaSets:\t{_replica_set_texts(old)}"
    yield f"NewReplicaSet:\t{_replica_set_texts(new[:1])}"


def _replica_set_texts(replica_sets: Sequence[Value]) -> str:
    texts = []
    for replica_set in replica_sets:
        current, desired = (replica_set.get("status") or {}).get("replicas", 0), replica_set["spec"].get("replicas", 1)
        texts.append(f"{replica_set['metadata']['name']} ({current}/{desired} replicas created)")
    return ", ".join(texts) or "<none>"


_CONTAINERS = (
    ("Init Containers", "initContainers"),
    ("Containers", "containers"),
    ("Ephemeral Containers", "ephemeralContainers"),
)

_FORMS = {
    ("v1", "Secret"): DescribeFormat(_secret, has_events=False),
    ("v1", "ConfigMap"): DescribeFormat(_config_map),
    ("v1", "Namespace"): DescribeFormat(_namespace, has_events=False),
    ("v1", "Service"): DescribeFormat(_service),
    ("v1", "Pod"): DescribeFormat(_pod),
    ("apps/v1", "Deployment"): DescribeFormat(_deployment),
}
