"""The metric with the feature gates of a component (`k8s.io/component-base/metrics/prometheus/feature`)."""

from __future__ import annotations

from collections.abc import Iterator

from sampan.api.feature_gates import FeatureGates
from sampan.machinery.telemetry.metrics import Metrics, Sample


def export_feature_gates(metrics: Metrics, gates: FeatureGates) -> None:
    """Export which feature gates are on. The values are computed at each scrape: a simulated cluster has thousands of
    components, with some 250 gates each."""

    def read() -> Iterator[Sample]:
        for name, spec in gates.specs():
            stage = "" if spec.stage == "GA" else spec.stage.upper()
            yield (name, stage), float(gates.is_enabled(name))

    metrics.function(
        "kubernetes_feature_enabled",
        "Whether a feature gate is on (1) or off (0), by name and stage; GA gates have an empty stage.",
        read,
        ("name", "stage"),
    )
