"""Descriptions of services, endpoints, ingresses, network policies and addresses."""

from __future__ import annotations

from collections.abc import Sequence

from sampan.kubectl.describers.cluster_view import ClusterView, endpoints_text, service_slices
from sampan.kubectl.describers.layout import (
    NONE,
    UNSET,
    Lines,
    Value,
    annotation_lines,
    conditions,
    format_labels,
    go_text,
    heading,
    items,
    label_lines,
    meta,
    part,
    selector_or_none,
)
from sampan.kubectl.errors import ServerError


def describe_service(obj: Value, view: ClusterView) -> Lines:
    spec = part(obj, "spec")
    yield from heading(obj)
    yield f"Selector:\t{format_labels(spec.get('selector'))}"
    yield f"Type:\t{spec.get('type', '')}"
    if spec.get("ipFamilyPolicy") is not None:
        yield f"IP Family Policy:\t{spec['ipFamilyPolicy']}"
    yield f"IP Families:\t{','.join(items(spec, 'ipFamilies')) or NONE}"
    yield f"IP:\t{spec.get('clusterIP', '')}"
    yield f"IPs:\t{','.join(items(spec, 'clusterIPs')) or NONE}"
    if spec.get("externalIPs"):
        yield f"External IPs:\t{','.join(spec['externalIPs'])}"
    if spec.get("loadBalancerIP"):
        yield f"Desired LoadBalancer IP:\t{spec['loadBalancerIP']}"
    if spec.get("externalName"):
        yield f"External Name:\t{spec['externalName']}"
    if ingress := items(obj, "status", "loadBalancer", "ingress"):
        yield f"LoadBalancer Ingress:\t{', '.join(_ingress_point(point) for point in ingress)}"
    try:
        slices = service_slices(view, str(meta(obj).get("namespace")), str(meta(obj).get("name")))
    except ServerError:
        slices = []
    for port in items(spec, "ports"):
        yield from _service_port(port, slices)
    yield f"Session Affinity:\t{spec.get('sessionAffinity', '')}"
    for title, field in (
        ("External Traffic Policy", "externalTrafficPolicy"),
        ("Internal Traffic Policy", "internalTrafficPolicy"),
        ("HealthCheck NodePort", "healthCheckNodePort"),
    ):
        if spec.get(field):
            yield f"{title}:\t{spec[field]}"
    if spec.get("loadBalancerSourceRanges"):
        yield f"LoadBalancer Source Ranges:\t{','.join(spec['loadBalancerSourceRanges'])}"
    if spec.get("trafficDistribution") is not None:
        yield f"Traffic Distribution:\t{spec['trafficDistribution']}"
    yield from view.events(obj, kind="Service")


def _ingress_point(point: Value) -> str:
    if not point.get("ip"):
        return str(point.get("hostname", ""))
    return f"{point['ip']} ({point['ipMode']})" if point.get("ipMode") is not None else str(point["ip"])


def _service_port(port: Value, slices: list[Value]) -> Lines:
    name, protocol = port.get("name") or UNSET, port.get("protocol", "")
    yield f"Port:\t{name}\t{port.get('port')}/{protocol}"
    yield f"TargetPort:\t{port.get('targetPort', 0)}/{protocol}"
    if port.get("appProtocol") is not None:
        yield f"AppProtocol:\t{port['appProtocol']}"
    if port.get("nodePort"):
        yield f"NodePort:\t{name}\t{port['nodePort']}/{protocol}"
    yield f"Endpoints:\t{endpoints_text(slices, port.get('name') or '')}"


def describe_endpoints(obj: Value, view: ClusterView) -> Lines:
    yield from heading(obj)
    yield "Subsets:"
    for subset in obj.get("subsets") or ():
        for title, field in (("Addresses", "addresses"), ("NotReadyAddresses", "notReadyAddresses")):
            yield f"  {title}:\t{','.join(str(address.get('ip')) for address in items(subset, field)) or NONE}"
        if ports := items(subset, "ports"):
            yield "  Ports:"
            yield "    Name\tPort\tProtocol"
            yield "    ----\t----\t--------"
            for port in ports:
                yield f"    {port.get('name') or UNSET}\t{port.get('port')}\t{port.get('protocol', '')}"
        yield ""
    yield from view.events(obj, kind="Endpoints")


def describe_endpoint_slice(obj: Value, view: ClusterView) -> Lines:
    yield from heading(obj)
    yield f"AddressType:\t{obj.get('addressType', '')}"
    if ports := obj.get("ports"):
        yield "Ports:"
        yield "  Name\tPort\tProtocol"
        yield "  ----\t----\t--------"
        for port in ports:
            yield f"  {port.get('name') or UNSET}\t{port.get('port', UNSET)}\t{port.get('protocol', '')}"
    else:
        yield f"Ports: {UNSET}"
    endpoints = obj.get("endpoints") or ()
    yield "Endpoints:" if endpoints else f"Endpoints: {NONE}"
    for endpoint in endpoints:
        ready = part(endpoint, "conditions").get("ready")
        yield f"  - Addresses:\t{', '.join(items(endpoint, 'addresses')) or NONE}"
        yield "    Conditions:"
        yield f"      Ready:\t{UNSET if ready is None else go_text(ready)}"
        yield f"    Hostname:\t{endpoint.get('hostname', UNSET)}"
        if ref := endpoint.get("targetRef"):
            yield f"    TargetRef:\t{ref.get('kind')}/{ref.get('name')}"
        yield f"    NodeName:\t{endpoint.get('nodeName', UNSET)}"
        yield f"    Zone:\t{endpoint.get('zone', UNSET)}"
    yield from view.events(obj, kind="EndpointSlice")


# -- ingresses -------------------------------------------------------------------------------------------------------


def describe_ingress(obj: Value, view: ClusterView) -> Lines:
    spec, namespace = part(obj, "spec"), str(meta(obj).get("namespace", ""))
    points = items(obj, "status", "loadBalancer", "ingress")
    addresses = sorted({str(point.get("ip") or point.get("hostname")) for point in points})
    default = _backend(spec["defaultBackend"], namespace, view) if spec.get("defaultBackend") else "<default>"
    yield f"Name:\t{meta(obj).get('name')}"
    yield from label_lines("Labels", meta(obj).get("labels"))
    yield f"Namespace:\t{namespace}"
    yield f"Address:\t{','.join(addresses)}"
    yield f"Ingress Class:\t{spec.get('ingressClassName', NONE)}"
    yield f"Default backend:\t{default}"
    if entries := items(spec, "tls"):
        yield "TLS:"
        for entry in entries:
            hosts = ",".join(items(entry, "hosts"))
            yield f"  {entry['secretName']} terminates {hosts}" if entry.get("secretName") else f"  SNI routes {hosts}"
    yield "Rules:"
    yield "  Host\tPath\tBackends"
    yield "  ----\t----\t--------"
    rules = [rule for rule in items(spec, "rules") if rule.get("http")]
    for rule in rules:
        yield f"  {rule.get('host') or '*'}\t"
        for path in items(rule, "http", "paths"):
            yield f"    \t{path.get('path', '')} \t{_backend(part(path, 'backend'), namespace, view)}"
    if not rules:
        yield f"  *\t*\t{default}"
    yield from annotation_lines("Annotations", meta(obj).get("annotations"))
    yield from view.events(obj, kind="Ingress")


def _backend(backend: Value, namespace: str, view: ClusterView) -> str:
    service = backend.get("service")
    if service is None:
        resource = part(backend, "resource")
        return (
            f"APIGroup: {resource.get('apiGroup', NONE)}, Kind: {resource.get('kind')}, Name: {resource.get('name')}"
            if resource
            else ""
        )
    name, port = str(service.get("name", "")), part(service, "port")
    text = f"{name}:{port.get('number') or port.get('name', '')}"
    try:
        slices = service_slices(view, namespace, name)
        ports = items(view.get(f"/api/v1/namespaces/{namespace}/services/{name}"), "spec", "ports")
    except ServerError as error:
        return f"{text} (<error: {error.error.message}>)"
    matching = [
        entry.get("name") or ""
        for entry in ports
        if (port.get("number") and port["number"] == entry.get("port"))
        or (port.get("name") and port["name"] == entry.get("name"))
    ]
    return f"{text} ({endpoints_text(slices, matching[-1] if matching else '')})"


def describe_ingress_class(obj: Value, view: ClusterView) -> Lines:
    spec = part(obj, "spec")
    yield from heading(obj, has_namespace=False)
    yield f"Controller:\t{spec.get('controller', '')}"
    if parameters := spec.get("parameters"):
        yield "Parameters:"
        if parameters.get("apiGroup") is not None:
            yield f"  APIGroup:\t{parameters['apiGroup']}"
        yield f"  Kind:\t{parameters.get('kind')}"
        yield f"  Name:\t{parameters.get('name')}"
    yield from view.events(obj, kind="IngressClass")


# -- addresses and policies ------------------------------------------------------------------------------------------


def describe_service_cidr(obj: Value, view: ClusterView) -> Lines:
    yield from heading(obj, has_namespace=False)
    yield f"CIDRs:\t{', '.join(items(obj, 'spec', 'cidrs'))}"
    yield from conditions(obj, has_times=True, titles=("Status:", "Conditions:"))
    yield from view.events(obj, kind="ServiceCIDR")


def describe_ip_address(obj: Value, view: ClusterView) -> Lines:
    yield from heading(obj, has_namespace=False)
    if parent := part(obj, "spec").get("parentRef"):
        yield "Parent Reference:"
        for field in ("group", "resource", "namespace", "name"):
            yield f"  {field.capitalize()}:\t{parent.get(field, '')}"
    yield from view.events(obj, kind="IPAddress")


def describe_network_policy(obj: Value, view: ClusterView) -> Lines:
    metadata, spec = meta(obj), part(obj, "spec")
    selector = part(spec, "podSelector")
    types = items(spec, "policyTypes")
    created = str(metadata.get("creationTimestamp", "")).replace("T", " ").replace("Z", " +0000 UTC")
    yield f"Name:\t{metadata.get('name')}"
    yield f"Namespace:\t{metadata.get('namespace')}"
    yield f"Created on:\t{created}"
    yield from label_lines("Labels", metadata.get("labels"))
    yield from annotation_lines("Annotations", metadata.get("annotations"))
    yield "Spec:"
    if selector.get("matchLabels") or selector.get("matchExpressions"):
        yield f"  PodSelector:     {selector_or_none(selector)}"
    else:
        yield f"  PodSelector:     {NONE} (Allowing the specific traffic to all pods in this namespace)"
    for direction, peers, peer_title, restriction in (
        ("ingress", "from", "From", "source"),
        ("egress", "to", "To", "destination"),
    ):
        if direction.capitalize() not in types:
            yield f"  Not affecting {direction} traffic"
            continue
        yield f"  Allowing {direction} traffic:"
        rules = items(spec, direction)
        if not rules:
            yield f"    {NONE} (Selected pods are isolated for {direction} connectivity)"
        for index, rule in enumerate(rules):
            if index:
                yield "    ----------"
            yield from _policy_ports(items(rule, "ports"))
            yield from _policy_peers(items(rule, peers), peer_title, restriction)
    yield f"  Policy Types: {', '.join(types) or NONE}"


def _policy_ports(ports: Sequence[Value]) -> Lines:
    if not ports:
        yield "    To Port: <any> (traffic allowed to all ports)"
    for port in ports:
        number, protocol = port.get("port", "<nil>"), port.get("protocol", "TCP")
        if port.get("endPort") is None:
            yield f"    To Port: {number}/{protocol}"
        else:
            yield f"    To Port Range: {number}-{port['endPort']}/{protocol}"


def _policy_peers(peers: Sequence[Value], title: str, restriction: str) -> Lines:
    if not peers:
        yield f"    {title}: <any> (traffic not restricted by {restriction})"
    for peer in peers:
        yield f"    {title}:"
        for name, field in (("NamespaceSelector", "namespaceSelector"), ("PodSelector", "podSelector")):
            if peer.get(field) is not None:
                yield f"      {name}: {selector_or_none(peer[field])}"
        if peer.get("ipBlock") and peer.get("podSelector") is None and peer.get("namespaceSelector") is None:
            yield "      IPBlock:"
            yield f"        CIDR: {peer['ipBlock'].get('cidr')}"
            yield f"        Except: {', '.join(items(peer, 'ipBlock', 'except'))}"
