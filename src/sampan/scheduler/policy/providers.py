"""The algorithm providers: profiles that are known by a name."""

from __future__ import annotations

from collections.abc import Mapping

from sampan.scheduler.config import ProfileConfig

PROVIDERS: Mapping[str, ProfileConfig] = {
    "DefaultProvider": ProfileConfig(),
    "ClusterAutoscalerProvider": ProfileConfig(
        args={"NodeResourcesFit": {"scoringStrategy": {"type": "MostAllocated"}}}
    ),
}
"""The second fills nodes one after the other, so that others stay empty and can go."""

__all__ = ["PROVIDERS"]
