"""The metric with the feature gates of a component."""

from sampan.api.feature_gates import FeatureGates
from sampan.machinery.telemetry.feature_gates import export_feature_gates
from sampan.machinery.telemetry.metrics import Metrics


def test_metric_has_name_stage_and_value_of_every_gate() -> None:
    gates = FeatureGates({"StorageVersionMigrator": True})
    metrics = Metrics()
    export_feature_gates(metrics, gates)
    lines = metrics.text().splitlines()
    assert len(lines) == 2 + len(list(gates.specs()))
    for name, stage, value in (
        ("HostnameOverride", "", 1),
        ("ClusterTrustBundle", "", 1),
        ("StorageVersionMigrator", "", 1),
        ("GenericWorkload", "BETA", 0),
        ("GitRepoVolumeDriver", "DEPRECATED", 0),
    ):
        assert f'kubernetes_feature_enabled{{name="{name}",stage="{stage}"}} {value}' in lines
