"""Pure conversion of the runtime status to fields of the node status."""

from __future__ import annotations

from collections.abc import Sequence

from sampan.api.types.core_v1 import NodeFeatures, NodeRuntimeHandler, NodeRuntimeHandlerFeatures
from sampan.kubelet.node_status import Said
from sampan.runtimes.contract import RuntimeStatus


def not_ready(faults: Sequence[str]) -> Said:
    message = faults[0] if len(faults) == 1 else f"[{', '.join(faults)}]"
    return "False", "KubeletNotReady", message


def handlers(status: RuntimeStatus) -> list[NodeRuntimeHandler]:
    return [
        NodeRuntimeHandler(
            name=handler.name,
            features=NodeRuntimeHandlerFeatures(
                recursiveReadOnlyMounts=handler.has_recursive_read_only, userNamespaces=handler.has_user_namespaces
            ),
        )
        for handler in status.handlers
    ]


def features(status: RuntimeStatus) -> NodeFeatures | None:
    policy = status.heeds_groups_policy
    return NodeFeatures(supplementalGroupsPolicy=policy) if policy is not None else None
