"""What the classic priorities were called, and the plug-ins that score by them today."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple


class Meaning(NamedTuple):
    plugin: str
    args: Mapping[str, Any] = {}
    """If there are any, the plug-in is one of its own, under the priority's name."""


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
"""None: the same for every node, so there is nothing to ask."""

LABEL_PREFERENCE, CAPACITY_RATIO = "CalculateNodeLabelPriority", "RequestedToCapacityRatioPriority"
"""They need an argument (labelPreference, requestedToCapacityRatioArguments); with one a priority may have any name."""

__all__ = ["CAPACITY_RATIO", "LABEL_PREFERENCE", "PRIORITIES", "Meaning"]
