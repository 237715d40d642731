"""The names of the legacy priorities and the score plug-ins that implement them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple


class Meaning(NamedTuple):
    plugin: str
    args: Mapping[str, Any] = {}
    """Plug-in arguments; if there are any, a separate plug-in instance is created under the priority's name."""


PRIORITIES: Mapping[str, Meaning | None] = {
    "LeastRequestedPriority": Meaning("NodeResourcesFit"),
    "MostRequestedPriority": Meaning("NodeResourcesFit", {"scoringStrategy": {"type": "MostAllocated"}}),
    "BalancedResourceAllocation": Meaning("NodeResourcesBalancedAllocation"),
    "SelectorSpreadPriority": Meaning("SelectorSpread"),
    "ServiceSpreadingPriority": Meaning("SelectorSpread", {"servicesOnly": True}),
    "ImageLocalityPriority": Meaning("ImageLocality"),
    "NodeAffinityPriority": Meaning("NodeAffinity"),
    "TaintTolerationPriority": Meaning("TaintToleration"),
    "InterPodAffinityPriority": Meaning("InterPodAffinity"),
    "EvenPodsSpreadPriority": Meaning("PodTopologySpread"),
    "EqualPriority": None,
}
"""None stands for a constant score, which needs no plug-in."""

LABEL_PREFERENCE, CAPACITY_RATIO = "CalculateNodeLabelPriority", "RequestedToCapacityRatioPriority"
"""These priorities require an argument (labelPreference, requestedToCapacityRatioArguments); with one, a priority may
have any name.
"""
