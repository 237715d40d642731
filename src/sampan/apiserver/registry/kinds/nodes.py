"""Node: a machine that runs pods."""

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence

import msgspec

from sampan.api import addresses, names
from sampan.api.field_errors import FieldError
from sampan.api.go_compat.internal_view import encode_error_value
from sampan.api.types.core_v1 import ConfigMapNodeConfigSource, Node, NodeConfigSource, Taint
from sampan.apiserver.handlers import Handlers
from sampan.apiserver.proxy.proxied import proxy_to_node
from sampan.apiserver.registry.behavior import ResourceBehavior
from sampan.apiserver.registry.podspec.resources import round_up, validate_resource_quantity
from sampan.apiserver.registry.strategy import Column, Context, StatusStrategy, Strategy
from sampan.apiserver.registry.validation import (
    FieldErrors,
    cidr_warnings,
    validate_dns_label,
    validate_dns_subdomain,
    validate_label_value,
    validate_positive,
    validate_qualified_name,
)
from sampan.apiserver.tables import cells
from sampan.apiserver.tables.columns import AGE, NAME

_EFFECTS = ("NoSchedule", "PreferNoSchedule", "NoExecute")
_TAINTS_ANNOTATION = "scheduler.alpha.kubernetes.io/taints"
_POD_CIDRS = "spec.podCIDRs"
_is_feature = re.compile(r"[A-Z][A-Za-z0-9]*(/[A-Za-z0-9]+)*").fullmatch


def validate_node(node: Node) -> FieldErrors:
    yield from _validate_annotations(node.metadata.annotations)
    yield from _validate_taints(node.spec.taints, "metadata.taints")
    yield from _validate_resources(node)
    swap = node.status.nodeInfo.swap
    if swap is not None and swap.capacity is not None:
        yield from validate_positive(swap.capacity, "metadata.nodeSwapStatus.capacity")
    yield from _validate_declared_features(node.status.declaredFeatures)
    yield from _validate_pod_cidrs(node.spec.podCIDRs)


def validate_node_update(node: Node, old: Node) -> FieldErrors:
    yield from _validate_annotations(node.metadata.annotations)
    yield from _validate_resources(node)
    yield from _validate_declared_features(node.status.declaredFeatures)
    distinct_addresses: set[tuple[str, str]] = set()
    for index, address in enumerate(node.status.addresses):
        if (address.type, address.address) in distinct_addresses:
            yield FieldError.duplicate(f"status.addresses[{index}]", encode_error_value(address))
        distinct_addresses.add((address.type, address.address))
    yield from _validate_immutable_fields(node, old)
    if node.spec.configSource is not None:
        yield from _validate_config_source(node.spec.configSource, "spec.configSource", is_status=False)
    if node.status.config is not None:
        for field in ("assigned", "active", "lastKnownGood"):
            source = getattr(node.status.config, field)
            if source is not None:
                yield from _validate_config_source(source, f"status.config.{field}", is_status=True)
    yield from _validate_taints(node.spec.taints, "metadata.taints")
    if node.spec.externalID != old.spec.externalID:
        yield FieldError.forbidden("spec.externalID", "may not be updated")


def _validate_immutable_fields(node: Node, old: Node) -> FieldErrors:
    new, before = node.spec, old.spec
    if before.podCIDRs and before.podCIDRs != new.podCIDRs:
        yield FieldError.forbidden(_POD_CIDRS, 'node updates may not change podCIDR except from "" to valid')
    if before.providerID and before.providerID != new.providerID:
        change = "modified" if new.providerID else "cleared"
        yield FieldError.invalid("spec.providerID", None, f"field cannot be {change} once set")


def _validate_annotations(annotations: Mapping[str, str]) -> FieldErrors:
    """Validate the taints in the alpha annotation that preceded `spec.taints`."""
    text = annotations.get(_TAINTS_ANNOTATION)
    if not text:
        return
    try:
        taints = msgspec.json.decode(text, type=list[Taint])
    except (msgspec.MsgspecError, RecursionError) as error:
        yield FieldError.invalid("metadata.annotations", _TAINTS_ANNOTATION, str(error))
        return
    yield from _validate_taints(taints, f"metadata.annotations.{_TAINTS_ANNOTATION}")


def _validate_taints(taints: Sequence[Taint], start: str) -> FieldErrors:
    distinct_taints: set[tuple[str, str]] = set()
    for index, taint in enumerate(taints):
        path = f"{start}[{index}]"
        yield from validate_qualified_name(taint.key, f"{path}.key")
        yield from validate_label_value(taint.value, f"{path}.value")
        if not taint.effect:
            yield FieldError.required(f"{path}.effect")
        elif taint.effect not in _EFFECTS:
            yield FieldError.not_supported(f"{path}.effect", taint.effect, _EFFECTS)
        if (taint.key, taint.effect) in distinct_taints:
            repeated = FieldError.duplicate(path, encode_error_value(taint))
            yield msgspec.structs.replace(repeated, detail="taints must be unique by key and effect pair")
        distinct_taints.add((taint.key, taint.effect))


def _validate_resources(node: Node) -> FieldErrors:
    for field in ("capacity", "allocatable"):
        amounts: Mapping[str, str] = getattr(node.status, field)
        for name in sorted(amounts):
            yield from validate_resource_quantity(name, amounts[name], f"status.{field}.{name}")


def _validate_declared_features(features: Sequence[str]) -> FieldErrors:
    for index, name in enumerate(features):
        path = f"status.declaredFeatures[{index}]"
        if index:
            if name == features[index - 1]:
                yield FieldError.duplicate(path, name)
            elif name < features[index - 1]:
                yield FieldError.invalid(path, name, "list must be sorted alphabetically")
        if message := _find_feature_name_error(name):
            yield FieldError.invalid(path, name, f'invalid feature name "{name}": {message}')


def _find_feature_name_error(name: str) -> str:
    if names.size(name) > names.SUBDOMAIN_MAX:
        return f"must be no more than {names.SUBDOMAIN_MAX} characters"
    if _is_feature(name):
        return ""
    return (
        "must start with an UpperCamelCase segment, with subsequent segments separated by '/' "
        "(e.g., MyFeature or MyFeature/mySubFeature), and contain only alphanumeric characters and slashes"
    )


def _validate_pod_cidrs(pod_cidrs: Sequence[str]) -> Iterator[FieldError]:
    for index, text in enumerate(pod_cidrs):
        yield from addresses.legacy_cidr(text, f"{_POD_CIDRS}[{index}]")
    if len(pod_cidrs) < 2:
        return
    wrong = next((index for index, text in enumerate(pod_cidrs) if addresses.legacy_cidr(text, "", strict=False)), None)
    if wrong is not None:
        cause = f"invalid CIDR[{wrong}]: <nil> (invalid CIDR address: {pod_cidrs[wrong]})"
        text = f"invalid PodCIDRs. failed to check with dual stack with error:{cause}"
        yield FieldError.internal(_POD_CIDRS, text)
    if wrong is not None or len(pod_cidrs) > 2 or (":" in pod_cidrs[0]) == (":" in pod_cidrs[1]):
        text = "may specify no more than one CIDR for each IP family"
        yield FieldError.invalid(_POD_CIDRS, list(pod_cidrs), text)


def _validate_config_source(source: NodeConfigSource, path: str, *, is_status: bool) -> FieldErrors:
    """Validate a source of dynamic kubelet configuration. The feature was removed; its fields are still validated."""
    if source.configMap is None:
        yield FieldError.invalid(path, encode_error_value(source), "exactly one reference subfield must be non-nil")
        return
    yield from _validate_config_map_source(source.configMap, f"{path}.configMap", is_status=is_status)


def _validate_config_map_source(source: ConfigMapNodeConfigSource, path: str, *, is_status: bool) -> FieldErrors:
    for field in ("uid", "resourceVersion"):
        if is_status and not getattr(source, field):
            yield FieldError.required(f"{path}.{field}")
        elif not is_status and getattr(source, field):
            yield FieldError.forbidden(f"{path}.{field}", f"{field} must not be set in spec")
    yield from (
        validate_dns_label(source.namespace, f"{path}.namespace")
        if source.namespace
        else _report_missing_field(f"{path}.namespace")
    )
    yield from (
        validate_dns_subdomain(source.name, f"{path}.name") if source.name else _report_missing_field(f"{path}.name")
    )
    if not source.kubeletConfigKey:
        yield from _report_missing_field(f"{path}.kubeletConfigKey")
    for text in names.config_map_key(source.kubeletConfigKey) if source.kubeletConfigKey else ():
        yield FieldError.invalid(f"{path}.kubeletConfigKey", source.kubeletConfigKey, text)


def _report_missing_field(path: str) -> FieldErrors:
    yield FieldError.required(path)


_ROLE_PREFIX, _ROLE = "node-role.kubernetes.io/", "kubernetes.io/role"
_UNKNOWN = "<unknown>"


def _status(node: Node, now: float) -> str:
    ready = {condition.status for condition in node.status.conditions if condition.type == "Ready"}
    words = [("Ready" if "True" in ready else "NotReady") if ready else "Unknown"]
    if node.spec.unschedulable:
        words.append("SchedulingDisabled")
    return ",".join(words)


def _roles(node: Node, now: float) -> str:
    labels = node.metadata.labels
    roles = {key.removeprefix(_ROLE_PREFIX) for key in labels if key.startswith(_ROLE_PREFIX)}
    return ",".join(sorted((roles | {labels.get(_ROLE, "")}) - {""})) or cells.NONE


def _kernel(node: Node, now: float) -> str:
    info = node.status.nodeInfo
    kernel = info.kernelVersion or _UNKNOWN
    return f"{kernel} ({info.architecture})" if info.architecture else kernel


_COLUMNS = (
    NAME,
    Column("Status", _status, description="The status of the node"),
    Column("Roles", _roles, description="The roles of the node"),
    AGE,
    Column("Version", lambda node, now: node.status.nodeInfo.kubeletVersion, field="status.nodeInfo.kubeletVersion"),
    Column("Internal-IP", lambda node, now: _address(node, "InternalIP"), field="status.addresses", wide=True),
    Column("External-IP", lambda node, now: _address(node, "ExternalIP"), field="status.addresses", wide=True),
    Column(
        "OS-Image",
        lambda node, now: node.status.nodeInfo.osImage or _UNKNOWN,
        field="status.nodeInfo.osImage",
        wide=True,
    ),
    Column("Kernel-Version", _kernel, field="status.nodeInfo.kernelVersion", wide=True),
    Column(
        "Container-Runtime",
        lambda node, now: node.status.nodeInfo.containerRuntimeVersion or _UNKNOWN,
        field="status.nodeInfo.containerRuntimeVersion",
        wide=True,
    ),
)


class NodeStrategy(Strategy):
    columns = _COLUMNS

    def default(self, obj: Node) -> None:
        status = obj.status
        if status.capacity and not status.allocatable:
            status.allocatable = dict(status.capacity)
        round_up(status.capacity)
        round_up(status.allocatable)
        _match_pod_cidrs(obj)

    def prepare_for_create(self, ctx: Context, obj: Node) -> None:
        obj.spec.configSource = None
        obj.status.config = None

    def validate_create(self, ctx: Context, obj: Node) -> Iterable[FieldError]:
        return validate_node(obj)

    def prepare_for_update(self, ctx: Context, obj: Node, old: Node) -> None:
        obj.status = old.status
        if old.spec.configSource is None:
            obj.spec.configSource = None

    def validate_update(self, ctx: Context, obj: Node, old: Node) -> Iterable[FieldError]:
        yield from validate_node(obj)
        yield from validate_node_update(obj, old)

    def warnings(self, ctx: Context, obj: Node, old: Node | None) -> Iterable[str]:
        if obj.spec.configSource is not None:
            yield "spec.configSource: the feature is removed"
        if obj.spec.externalID:
            yield "spec.externalID: this field is deprecated, and is unused by Kubernetes"
        for index, text in enumerate(obj.spec.podCIDRs):
            yield from cidr_warnings(text, f"spec.podCIDRs[{index}]")


def _match_pod_cidrs(node: Node) -> None:
    """Make podCIDR and the first of podCIDRs agree; podCIDR takes precedence."""
    spec = node.spec
    if spec.podCIDR:
        if spec.podCIDRs[:1] != [spec.podCIDR]:
            spec.podCIDRs = [spec.podCIDR]
    elif spec.podCIDRs:
        spec.podCIDR = spec.podCIDRs[0]


class NodeStatusStrategy(StatusStrategy):
    def prepare_for_update(self, ctx: Context, obj: Node, old: Node) -> None:
        super().prepare_for_update(ctx, obj, old)
        if old.status.config is None:
            obj.status.config = None

    def validate_update(self, ctx: Context, obj: Node, old: Node) -> Iterable[FieldError]:
        return validate_node_update(obj, old)


# -- table columns -----------------------------------------------------------------------------------------------------


def _address(node: Node, kind: str) -> str:
    return next((address.address for address in node.status.addresses if address.type == kind), cells.NONE)


_strategy = NodeStrategy()
BEHAVIOR = ResourceBehavior(strategy=_strategy, views={"status": NodeStatusStrategy(_strategy)})
HANDLERS: Handlers = {"proxy": proxy_to_node}
