"""The metrics that the rules and dashboards of kube-prometheus use are there, with their types and labels, and
Prometheus with the example configuration finds them."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
import yaml

from tests.e2e.conformance.storage.real_node import missing_requirement
from tests.eventually import wait_until
from tests.operators.prometheus.expected_metrics import (
    ServedMetric,
    missing_parts,
    parse_text,
    read_expected_metrics,
)
from tests.operators.prometheus.monitored_cluster import EXAMPLES, MonitoredCluster, running_monitored_cluster
from tests.operators.prometheus.program import build_or_skip, running_prometheus

METRICS = read_expected_metrics()
_READS = 'job="apiserver",verb=~"LIST|GET",subresource!~"proxy|attach|log|exec|portforward"'
_SLI = "apiserver_request_sli_duration_seconds"
_COMBINATIONS = (
    f"sum(rate({_SLI}_count{{{_READS}}}[1m])) - ("
    f'sum(rate({_SLI}_bucket{{{_READS},scope=~"resource|",le=~"1(\\\\.0)?"}}[1m]))'
    f'+ sum(rate({_SLI}_bucket{{{_READS},scope="namespace",le=~"5(\\\\.0)?"}}[1m]))'
    f'+ sum(rate({_SLI}_bucket{{{_READS},scope="cluster",le=~"30(\\\\.0)?"}}[1m])))',
    "histogram_quantile(0.99, sum by (instance, le) (rate(kubelet_pleg_relist_duration_seconds_bucket[1m])))"
    '* on (instance) group_left (node) kubelet_node_name{job="kubelet",metrics_path="/metrics"}',
    'sum by (pod) (increase(container_cpu_cfs_throttled_periods_total{container!=""}[1m]))'
    '/ sum by (pod) (increase(container_cpu_cfs_periods_total{container!=""}[1m]))',
    'max by (name) (avg_over_time(aggregator_unavailable_apiservice{job="apiserver"}[1m]))',
    "count(count by (git_version) (kubernetes_build_info)) == 1",
)
"""Expressions of the forms that alerts have: they combine metrics and rely on values of labels."""
_JOBS = sorted({metric.job for metric in METRICS})


@pytest.fixture(scope="module")
def monitored() -> Iterator[MonitoredCluster]:
    if reason := missing_requirement():
        pytest.skip(reason)
    with running_monitored_cluster() as cluster:
        yield cluster


@pytest.mark.parametrize("job", _JOBS)
def test_metrics_have_the_types_and_labels_that_rules_and_dashboards_use(monitored: MonitoredCluster, job: str) -> None:
    missing: list[str] = []

    def is_complete() -> bool:
        served: dict[str, ServedMetric] = parse_text(monitored.scrape(job))
        missing[:] = [part for metric in METRICS if metric.job == job for part in missing_parts(metric, served)]
        return not missing

    wait_until(is_complete, describe=lambda: "\n".join(missing))


def test_prometheus_with_the_example_configuration_evaluates_the_expressions(
    monitored: MonitoredCluster, tmp_path: Path
) -> None:
    program = build_or_skip()
    _write_configuration(monitored, tmp_path)
    expressions = [metric.expression() for metric in METRICS if not metric.absent] + list(_COMBINATIONS)
    with running_prometheus(program, tmp_path) as prometheus:
        empty: list[str] = []

        def are_evaluated() -> bool:
            empty[:] = [expression for expression in expressions if not prometheus.query(expression)]
            return not empty

        wait_until(are_evaluated, describe=lambda: "\n".join([*empty, str(prometheus.unhealthy_targets())]))
        assert prometheus.unhealthy_targets() == {}


def _write_configuration(monitored: MonitoredCluster, directory: Path) -> None:
    """Write the example configuration with the address of the cluster, and the files that it names."""
    text = (EXAMPLES / "prometheus.yml").read_text()
    address = monitored.cluster.url.removeprefix("https://")
    text = text.replace("127.0.0.1:6443", address).replace("scrape_interval: 15s", "scrape_interval: 1s")
    assert yaml.safe_load(text)["scrape_configs"]
    (directory / "prometheus.yml").write_text(text)
    (directory / "ca.crt").write_bytes(monitored.cluster.ca.read_bytes())
    (directory / "token").write_text(monitored.make_token())
