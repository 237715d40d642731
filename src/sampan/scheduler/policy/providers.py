"""The algorithm providers, which are predefined profiles."""

from __future__ import annotations

from collections.abc import Mapping

from sampan.scheduler.config import ProfileConfig

PROVIDERS: Mapping[str, ProfileConfig] = {
    "DefaultProvider": ProfileConfig(),
    "ClusterAutoscalerProvider": ProfileConfig(
        args={"NodeResourcesFit": {"scoringStrategy": {"type": "MostAllocated"}}}
    ),
}
"""ClusterAutoscalerProvider packs pods onto few nodes, so that the autoscaler can remove the others."""
