"""Node: a machine that runs pods."""

from collections.abc import Iterable

from sampan.api.faults import FieldError
from sampan.api.types.core_v1 import Node
from sampan.apiserver.proxy.proxied import proxy_to_node
from sampan.apiserver.registry.address_rules import cidr_warnings
from sampan.apiserver.registry.behaviour import ResourceBehaviour
from sampan.apiserver.registry.node_rules import validate_node, validate_node_update
from sampan.apiserver.registry.podspec.amounts import round_up
from sampan.apiserver.registry.strategy import Column, Context, StatusStrategy, Strategy
from sampan.apiserver.tables import cells
from sampan.apiserver.tables.columns import AGE, NAME

_ROLE_PREFIX, _ROLE = "node-role.kubernetes.io/", "kubernetes.io/role"
_UNKNOWN = "<unknown>"


class NodeStrategy(Strategy):
    validates_whole = True

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


def _address(node: Node, kind: str) -> str:
    return next((address.address for address in node.status.addresses if address.type == kind), cells.NONE)


def _kernel(node: Node, now: float) -> str:
    info = node.status.nodeInfo
    kernel = info.kernelVersion or _UNKNOWN
    return f"{kernel} ({info.architecture})" if info.architecture else kernel


NodeStrategy.columns = (
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

_strategy = NodeStrategy()
BEHAVIOUR = ResourceBehaviour(
    strategy=_strategy, views={"status": NodeStatusStrategy(_strategy)}, handlers={"proxy": proxy_to_node}
)
