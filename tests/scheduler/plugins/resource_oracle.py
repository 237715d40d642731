"""Amounts of resources that pods request and nodes have in use, added up one pod at a time."""

from typing import Any

from sampan.api.semantics.pod_resources import effective_requests
from sampan.api.types.core_v1 import Node, Pod
from sampan.api.values import quantity
from tests.scheduler.random_clusters import Situation


def amount(name: str, text: Any) -> int:
    quantity_ = quantity.parse(text) if isinstance(text, str) else text
    return 0 if quantity_ is None else quantity_.milli_value() if name == "cpu" else quantity_.value()


def requested_amount(pod: Pod, name: str, assumed: dict[str, str] | None = None) -> int:
    return amount(name, effective_requests(pod.spec, assumed).get(name))


def used_amount(situation: Situation, node: Node, name: str, assumed: dict[str, str] | None = None) -> int:
    return sum(requested_amount(pod, name, assumed) for pod in situation.pods_on(node))
