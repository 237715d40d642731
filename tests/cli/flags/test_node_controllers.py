"""Flags of the node, route and service controllers."""

import click
import pytest
from click.testing import CliRunner

from sampan.cli.flags.node_controllers import node_controller_options, node_controller_settings, range_options
from sampan.controllers.descriptor import ControllerConfig
from sampan.machinery.cli_errors import CliError
from tests.cli.command import Sampan
from tests.eventually import wait_until
from tests.ports import free_port


def settings(*words: str, only_ranges: bool = False) -> ControllerConfig:
    controller_configs: list[ControllerConfig] = []

    @click.command()
    @(range_options if only_ranges else node_controller_options)
    def command(**options: object) -> None:
        controller_configs.append(ControllerConfig(**node_controller_settings(options)))

    result = CliRunner().invoke(command, words, standalone_mode=False)
    if isinstance(result.exception, click.ClickException):
        raise result.exception
    assert result.exit_code == 0, result.output
    return controller_configs[0]


def test_default_flags_equal_the_default_controller_config() -> None:
    default = ControllerConfig(cluster_cidr=[], service_cluster_ip_range=[])
    assert settings() == settings(only_ranges=True) == default


def test_explicit_flags_override_the_defaults() -> None:
    words = "--node-monitor-grace-period=40s --node-eviction-rate 1 --terminated-pod-gc-threshold=0"
    words += " --allocate-node-cidrs --cluster-cidr 10.0.0.0/16,fd00::/56 --node-cidr-mask-size-ipv6 60"
    words += " --configure-cloud-routes=false --service-cluster-ip-range 10.96.0.0/12 --max-endpoints-per-slice 50"
    assert settings(*words.split()) == ControllerConfig(
        node_monitor_grace_period_s=40,
        node_eviction_rate=1,
        terminated_pod_gc_threshold=0,
        allocate_node_cidrs=True,
        cluster_cidr=["10.0.0.0/16", "fd00::/56"],
        node_cidr_mask_size_ipv6=60,
        configure_cloud_routes=False,
        service_cluster_ip_range=["10.96.0.0/12"],
        max_endpoints_per_slice=50,
    )


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ("--allocate-node-cidrs", "--allocate-node-cidrs: Must specify --cluster-cidr"),
        ("--allocate-node-cidrs --cluster-cidr nonsense", "--cluster-cidr: invalid CIDR address: nonsense"),
        ("--max-endpoints-per-slice 0", "--max-endpoints-per-slice: must be between 1 and 1000"),
        ("--node-monitor-period soon", '--node-monitor-period: time: invalid duration "soon"'),
    ],
)
def test_invalid_flags_are_rejected(words: str, message: str) -> None:
    with pytest.raises(CliError, match=message):
        settings(*words.split())


def test_nodes_get_pod_cidrs_from_cluster_cidr(sampan: Sampan) -> None:
    where = ("--secure-port", str(free_port()), "--bind-address", "127.0.0.1")
    ranges = ("--allocate-node-cidrs", "--cluster-cidr", "10.200.0.0/22")
    sampan("up", "--detach", *where, "--runtime", "hollow", "--nodes", "2", *ranges)
    sampan("node", "add", "third")
    path = "jsonpath={.items[*].spec.podCIDR}"

    def pod_cidrs() -> list[str]:
        return sorted(sampan("kubectl", "get", "nodes", "-o", path).split())

    expected = ["10.200.0.0/24", "10.200.1.0/24", "10.200.2.0/24"]
    wait_until(lambda: pod_cidrs() == expected, poll_s=0.1, describe=pod_cidrs)
