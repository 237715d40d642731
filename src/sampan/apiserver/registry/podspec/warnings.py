"""Warnings about pods and pod templates."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from sampan.api import limits, names
from sampan.api.addresses import parse as parse_address
from sampan.api.go_compat import gotext
from sampan.api.semantics.pods import AnyContainer, containers_by_field
from sampan.api.types.core_v1 import ContainerPort, NodeSelectorTerm, PodSpec
from sampan.api.types.meta_v1 import ObjectMeta
from sampan.api.values import quantity
from sampan.apiserver.registry.podspec import pod_annotations
from sampan.apiserver.registry.podspec.volumes.path_overlaps import overlap_warnings
from sampan.apiserver.registry.podspec.volumes.projected import is_token_source

Warnings = Iterator[str]

DEPRECATED_NODE_LABELS = {
    "beta.kubernetes.io/arch": 'deprecated since v1.14; use "kubernetes.io/arch" instead',
    "beta.kubernetes.io/os": 'deprecated since v1.14; use "kubernetes.io/os" instead',
    "failure-domain.beta.kubernetes.io/region": 'deprecated since v1.17; use "topology.kubernetes.io/region" instead',
    "failure-domain.beta.kubernetes.io/zone": 'deprecated since v1.17; use "topology.kubernetes.io/zone" instead',
    "beta.kubernetes.io/instance-type": 'deprecated since v1.17; use "node.kubernetes.io/instance-type" instead',
    "app.kubernetes.io/created-by": "deprecated since v1.9",
    "scheduler.alpha.kubernetes.io/preferAvoidPods": "deprecated since v1.22; use Taints and Tolerations instead",
    "node-role.kubernetes.io/master": 'use "node-role.kubernetes.io/control-plane" instead',
}
_DEPRECATED_ANNOTATIONS = {
    "scheduler.alpha.kubernetes.io/critical-pod": (
        'non-functional in v1.16+; use the "priorityClassName" field instead'
    ),
    "security.alpha.kubernetes.io/sysctls": 'non-functional in v1.11+; use the "sysctls" field instead',
    "security.alpha.kubernetes.io/unsafe-sysctls": 'non-functional in v1.11+; use the "sysctls" field instead',
}
_DEPRECATED_VOLUMES = {
    "photonPersistentDisk": "deprecated in v1.11, non-functional in v1.16+",
    "gitRepo": "deprecated in v1.11, and disabled by default in v1.33+",
    "scaleIO": "deprecated in v1.16, non-functional in v1.22+",
    "flocker": "deprecated in v1.22, non-functional in v1.25+",
    "storageos": "deprecated in v1.22, non-functional in v1.25+",
    "quobyte": "deprecated in v1.22, non-functional in v1.25+",
    "glusterfs": "deprecated in v1.25, non-functional in v1.26+",
    "cephfs": "deprecated in v1.28, non-functional in v1.31+",
    "rbd": "deprecated in v1.28, non-functional in v1.31+",
}
_SECCOMP = 'non-functional in v1.27+; use the "seccompProfile" field instead'
_APPARMOR = 'deprecated since v1.30; use the "appArmorProfile" field instead'
_NO_SELECTOR = "a null labelSelector results in matching no pod"


def warnings_for(spec: PodSpec, meta: ObjectMeta, field_path: str = "") -> Warnings:
    """Yield all warnings. `field_path` is the path of a template, empty for a pod."""
    start, is_template = (f"{field_path}." if field_path else ""), bool(field_path)
    path = f"{start}spec"
    if spec.nodeSelector or spec.affinity is not None:
        yield from _node_label_warnings(spec, path)
    if spec.topologySpreadConstraints:
        yield from _spread_warnings(spec, path)
    if meta.annotations:
        yield from _annotation_warnings(meta, start)
    if spec.volumes:
        yield from _volume_warnings(spec, f"{path}.volumes")
    if spec.hostAliases or spec.imagePullSecrets:
        yield from _duplicate_warnings(spec, path)
    if spec.overhead:
        yield from _fraction_warnings(spec.overhead, f"{path}.overhead")
    yield from _container_warnings(spec, meta, start, is_template)
    yield from _port_warnings(spec, path)
    if (spec.terminationGracePeriodSeconds or 0) < 0:
        text = "must be >= 0; negative values are invalid and will be treated as 1"
        yield f"{path}.terminationGracePeriodSeconds: {text}"
    if spec.affinity is not None:
        yield from _affinity_warnings(spec, f"{path}.affinity")
    for index, server in enumerate(spec.dnsConfig.nameservers if spec.dnsConfig is not None else ()):
        yield from address_warnings(server, f"{path}.dnsConfig.nameservers[{index}]")
    for index, alias in enumerate(spec.hostAliases):
        yield from address_warnings(alias.ip, f"{path}.hostAliases[{index}].ip")


def _annotation_warnings(meta: ObjectMeta, start: str) -> Warnings:
    for key, text in _DEPRECATED_ANNOTATIONS.items():
        if key in meta.annotations:
            yield f"{start}metadata.annotations[{key}]: {text}"


def _node_label_warnings(spec: PodSpec, field_path: str) -> Warnings:
    for key in sorted(spec.nodeSelector.keys() & DEPRECATED_NODE_LABELS.keys()):
        yield f"{field_path}.nodeSelector[{key}]: {DEPRECATED_NODE_LABELS[key]}"
    node = spec.affinity.nodeAffinity if spec.affinity is not None else None
    if node is None:
        return
    field_path = f"{field_path}.affinity.nodeAffinity"
    required = node.requiredDuringSchedulingIgnoredDuringExecution
    for index, term in enumerate((required.nodeSelectorTerms or ()) if required is not None else ()):
        path = f"{field_path}.requiredDuringSchedulingIgnoredDuringExecution.nodeSelectorTerms[{index}]"
        yield from node_term_warnings(term, path)
    for index, preferred in enumerate(node.preferredDuringSchedulingIgnoredDuringExecution):
        path = f"{field_path}.preferredDuringSchedulingIgnoredDuringExecution[{index}].preference"
        yield from node_term_warnings(preferred.preference, path, checks_values=True)


def node_term_warnings(term: NodeSelectorTerm, path: str, *, checks_values: bool = False) -> Warnings:
    for index, expression in enumerate(term.matchExpressions):
        if expression.key in DEPRECATED_NODE_LABELS:
            text = DEPRECATED_NODE_LABELS[expression.key]
            yield f"{path}.matchExpressions[{index}].key: {expression.key} is {text}"
        for value_index, value in enumerate(expression.values if checks_values else ()):
            for text in names.label_value(value):
                yield f"{path}.matchExpressions[{index}].values[{value_index}]: {value} is invalid, {text}"


def _spread_warnings(spec: PodSpec, field_path: str) -> Warnings:
    for index, constraint in enumerate(spec.topologySpreadConstraints):
        path, key = f"{field_path}.topologySpreadConstraints[{index}]", constraint.topologyKey
        if key in DEPRECATED_NODE_LABELS:
            yield f"{path}.topologyKey: {key} is {DEPRECATED_NODE_LABELS[key]}"
        if constraint.labelSelector is None:
            yield f"{path}.labelSelector: {_NO_SELECTOR}"


def _volume_warnings(spec: PodSpec, field_path: str) -> Warnings:
    for index, volume in enumerate(spec.volumes):
        if volume.projected is not None and is_token_source(volume.projected):
            continue
        for source, text in _DEPRECATED_VOLUMES.items():
            if getattr(volume, source) is not None:
                field = "storageOS" if source == "storageos" else source
                yield f"{field_path}[{index}].{field}: {text}"
        template = volume.ephemeral.volumeClaimTemplate if volume.ephemeral is not None else None
        if template is not None:
            requests = template.spec.resources.requests
            path = f"{field_path}[{index}].ephemeral.volumeClaimTemplate.spec.resources.requests"
            yield from _fraction_warnings(requests, path, ("storage",))
    yield from overlap_warnings(spec.volumes)


def _duplicate_warnings(spec: PodSpec, path: str) -> Warnings:
    addresses = [alias.ip for alias in spec.hostAliases]
    for index, address in _find_repeated(addresses):
        yield f"{path}.hostAliases[{index}].ip: duplicate ip {gotext.quote(address)}"
    secrets = [secret.name for secret in spec.imagePullSecrets]
    for index, name in _find_repeated(secrets):
        yield f"{path}.imagePullSecrets[{index}].name: duplicate name {gotext.quote(name)}"
    for index, name in enumerate(secrets):
        if not name:
            yield f'{path}.imagePullSecrets[{index}].name: invalid empty name ""'


def _find_repeated(values: Sequence[str]) -> Iterator[tuple[int, str]]:
    """Yield index and value of each value that occurred before."""
    distinct_values: set[str] = set()
    for index, value in enumerate(values):
        if value in distinct_values:
            yield index, value
        distinct_values.add(value)


def _fraction_warnings(
    quantities: dict[str, str], path: str, counted: Sequence[str] = ("memory", "ephemeral-storage")
) -> Warnings:
    for name in counted:
        if name in quantities and _is_fraction(quantities[name]):
            yield f'{path}[{name}]: fractional byte value "{quantities[name]}" is invalid, must be an integer'


def _is_fraction(text: str) -> bool:
    """Whether a quantity in canonical form is not an integer."""
    return (text.endswith("m") or "e-" in text) and quantity.parse(text).milli_value() % 1000 != 0


def _container_warnings(spec: PodSpec, meta: ObjectMeta, start: str, is_template: bool) -> Warnings:
    annotations, context = meta.annotations, spec.securityContext
    if pod_annotations.SECCOMP_POD in annotations and (context is None or context.seccompProfile is None):
        yield f"{start}metadata.annotations[{pod_annotations.SECCOMP_POD}]: {_SECCOMP}"
    for part, container, index in containers_by_field(spec):
        if annotations:
            yield from _profile_annotation_warnings(container, spec, meta, start, is_template)
        path, resources = f"{start}spec.{part}[{index}]", container.resources
        for name in ("memory", "ephemeral-storage") if resources.limits or resources.requests else ():
            for kind, quantities in (("limits", resources.limits), ("requests", resources.requests)):
                if name in quantities:
                    yield from _fraction_warnings(quantities, f"{path}.resources.{kind}", (name,))
        if len(container.env) > 1:
            yield from _hidden_variable_warnings(container, f"{path}.env")


def _profile_annotation_warnings(
    container: AnyContainer, spec: PodSpec, meta: ObjectMeta, start: str, is_template: bool
) -> Warnings:
    own, key = container.securityContext, pod_annotations.SECCOMP_CONTAINER + container.name
    if key in meta.annotations and (own is None or own.seccompProfile is None):
        yield f"{start}metadata.annotations[{key}]: {_SECCOMP}"
    key = pod_annotations.APPARMOR + container.name
    if is_template and key in meta.annotations and (own is None or own.appArmorProfile is None):
        of_pod = spec.securityContext.appArmorProfile if spec.securityContext is not None else None
        if of_pod is None or of_pod != pod_annotations.app_armor_of(meta.annotations[key]):
            yield f"{start}metadata.annotations[{key}]: {_APPARMOR}"


def _hidden_variable_warnings(container: AnyContainer, path: str) -> Warnings:
    """Yield a warning for each variable that is defined again without a reference to its previous value."""
    if len({variable.name for variable in container.env}) == len(container.env):
        return
    for index, name in _find_repeated([variable.name for variable in container.env]):
        variable, reference = container.env[index], f"$({name})"
        if variable.valueFrom is not None or variable.value == reference or reference not in variable.value:
            message = f"hides previous definition of {gotext.quote(name)}, which may be dropped when using apply"
            yield f"{path}[{index}]: {message}"


def _port_warnings(spec: PodSpec, field_path: str) -> Warnings:
    ports = [
        (port, f"{field_path}.{part}[{container_index}].ports[{index}]")
        for part, container, container_index in containers_by_field(spec)
        for index, port in enumerate(container.ports)
    ]
    if not ports:
        return
    earlier: dict[tuple[int, str], _EarlierPorts] = {}
    pairs_left = limits.PAIR_WARNINGS
    for number, (port, path) in enumerate(ports):
        if port.hostIP and port.hostPort == 0:
            yield f"{path}: hostIP set without hostPort: {_go_port(port)}"
        key = (port.containerPort, port.protocol)
        others = earlier.get(key)
        if others is None:
            others = earlier[key] = _EarlierPorts()
        elif pairs_left:
            for other, text in others.find_clashes(port, pairs_left):
                pairs_left -= 1
                yield f"{path}: {text} with {ports[other][1]}"
        others.add(number, port)
    if len(ports) > 1:
        yield from _port_name_warnings(ports)


class _EarlierPorts:
    """The indexes of the ports so far that have one container port and protocol.

    They are arranged so that conflicting ports are looked up without comparing all pairs: a pod may have thousands of
    ports.
    """

    def __init__(self) -> None:
        self._all: list[int] = []
        self._equal: dict[tuple[int, str], list[int]] = {}
        """All ports by host port and host IP."""
        self._with_address: dict[int, list[int]] = {}
        """The ports with a host IP, by host port."""
        self._without_host_port: list[int] = []

    def add(self, number: int, port: ContainerPort) -> None:
        self._all.append(number)
        self._equal.setdefault((port.hostPort, port.hostIP), []).append(number)
        if port.hostPort == 0:
            self._without_host_port.append(number)
        elif port.hostIP:
            self._with_address.setdefault(port.hostPort, []).append(number)

    def find_clashes(self, port: ContainerPort, maximum: int) -> list[tuple[int, str]]:
        """Return the first `maximum` ports that conflict with this one, in order, each with the text of the warning."""
        key = (port.hostPort, port.hostIP)
        duplicates = self._equal.get(key, [])
        if port.hostPort == 0:
            equal = set(duplicates[:maximum])
            texts = ("overlapping port definition", "duplicate port definition")
            return [(number, texts[number in equal]) for number in self._all[:maximum]]
        ambiguous = (
            self._equal.get((port.hostPort, ""), []) if port.hostIP else self._with_address.get(port.hostPort, [])
        )
        clashes = [
            *((number, "duplicate port definition") for number in duplicates[:maximum]),
            *((number, "overlapping port definition") for number in self._without_host_port[:maximum]),
            *((number, "dangerously ambiguous port definition") for number in ambiguous[:maximum]),
        ]
        return sorted(clashes)[:maximum]


def _go_port(port: ContainerPort) -> str:
    return (
        f"{{Name:{port.name} HostPort:{port.hostPort} ContainerPort:{port.containerPort} "
        f"Protocol:{port.protocol} HostIP:{port.hostIP}}}"
    )


def _port_name_warnings(ports: Sequence[tuple[ContainerPort, str]]) -> Warnings:
    first: dict[str, str] = {}
    for port, path in ports:
        if port.name in first:
            first_path = first[port.name]
            message = f"services and probes that select ports by name will use {first_path}"
            yield f"{path}: duplicate port name {gotext.quote(port.name)} with {first_path}, {message}"
        elif port.name:
            first[port.name] = path


def _affinity_warnings(spec: PodSpec, field_path: str) -> Warnings:
    for kind in ("podAffinity", "podAntiAffinity"):
        affinity = getattr(spec.affinity, kind) if spec.affinity is not None else None
        if affinity is None:
            continue
        for index, term in enumerate(affinity.requiredDuringSchedulingIgnoredDuringExecution):
            if term.labelSelector is None:
                path = f"{field_path}.{kind}.requiredDuringSchedulingIgnoredDuringExecution[{index}]"
                yield f"{path}.labelSelector: {_NO_SELECTOR}"
        for index, weighted in enumerate(affinity.preferredDuringSchedulingIgnoredDuringExecution):
            if weighted.podAffinityTerm.labelSelector is None:
                path = f"{field_path}.{kind}.preferredDuringSchedulingIgnoredDuringExecution[{index}].podAffinityTerm"
                yield f"{path}.labelSelector: {_NO_SELECTOR}"


def address_warnings(value: str, path: str) -> Warnings:
    """Yield a warning for an IPv6 address that is not in canonical form."""
    address = parse_address(value)
    if address is not None and address.version == 6 and str(address) != value:
        text = f"IPv6 address {gotext.quote(value)} should be in RFC 5952 canonical format"
        yield f"{path}: {text} ({gotext.quote(str(address))})"
