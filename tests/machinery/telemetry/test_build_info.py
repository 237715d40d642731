"""The metric with the version of a component."""

from sampan.api.kubernetes_version import GIT_VERSION
from sampan.machinery.telemetry.build_info import export_build_info, info
from sampan.machinery.telemetry.metrics import Metrics


def test_build_info_has_the_labels_of_kubernetes() -> None:
    metrics = Metrics()
    export_build_info(metrics)
    line = metrics.text().splitlines()[-1]
    assert line.startswith('kubernetes_build_info{major="1",minor="')
    assert line.endswith("} 1")
    for label, value in (
        ("git_version", GIT_VERSION),
        ("git_commit", info().gitCommit),
        ("git_tree_state", "clean"),
        ("build_date", info().buildDate),
        ("go_version", info().goVersion),
        ("compiler", info().compiler),
        ("platform", info().platform),
    ):
        assert f'{label}="{value}"' in line
