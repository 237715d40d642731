"""`sampan kube-proxy`: flags, configuration file, and the modes in a process of their own."""

import asyncio
import contextlib
import json
import logging
import threading
from collections.abc import Iterator
from pathlib import Path

import click
import pytest
import yaml
from click.testing import CliRunner

from sampan.api.types.core_v1 import Node, Service
from sampan.api.types.discovery_v1 import EndpointSlice
from sampan.cli.flags.kube_proxy import kube_proxy_configuration, kube_proxy_options
from sampan.cli.main import cli
from sampan.machinery.cli_errors import CliError
from sampan.network.proxy.kube_proxy_configuration import NFTABLES, KubeProxyConfiguration
from sampan.testing import Cluster, builders
from tests.cli.command import Sampan, get
from tests.network.proxy.objects import endpoint, endpoint_slice, port, service
from tests.ports import free_node_port, free_ports

HEAD = "apiVersion: kubeproxy.config.k8s.io/v1alpha1\nkind: KubeProxyConfiguration\n"
NODE = "the-node"


def configuration_of(*words: str) -> KubeProxyConfiguration:
    configurations: list[KubeProxyConfiguration] = []

    @click.command()
    @kube_proxy_options
    def command(**options: object) -> None:
        configurations.append(kube_proxy_configuration(options, default_mode=NFTABLES))

    result = CliRunner().invoke(command, words, standalone_mode=False, catch_exceptions=True)
    if result.exception is not None:
        raise result.exception
    return configurations[0]


class TestFlags:
    def test_defaults(self) -> None:
        configuration = configuration_of()
        assert configuration.mode == NFTABLES
        assert configuration.healthzBindAddress == "0.0.0.0:10256"
        assert configuration.metricsBindAddress == "127.0.0.1:10249"
        assert configuration.nodePortAddresses == ["primary"]

    def test_values(self) -> None:
        configuration = configuration_of(
            *("--proxy-mode", "nftables", "--cluster-cidr", "10.244.0.0/16,fd00::/48", "--masquerade-all"),
            *("--iptables-masquerade-bit", "7", "--iptables-sync-period", "1m", "--iptables-min-sync-period=5s"),
            *("--nodeport-addresses", "10.0.0.0/8,192.168.0.0/16", "--conntrack-max-per-core", "0"),
            *("--conntrack-tcp-timeout-established", "1h", "--hostname-override", " Node-A "),
            *("--healthz-bind-address", "127.0.0.1", "--metrics-bind-address", "", "--feature-gates", "A=true"),
            "--iptables-localhost-nodeports=false",
        )
        assert configuration.cluster_cidrs == ["10.244.0.0/16", "fd00::/48"]
        assert (configuration.masquerade_bit, configuration.masquerades_all) == (7, True)
        assert (configuration.sync_period_s, configuration.min_sync_period_s) == (60, 5)
        assert configuration.nodePortAddresses == ["10.0.0.0/8", "192.168.0.0/16"]
        assert configuration.conntrack.maxPerCore == 0
        assert configuration.conntrack.tcpEstablishedTimeout == "1h0m0s"
        assert configuration.hostnameOverride == "node-a"
        assert (configuration.healthzBindAddress, configuration.metricsBindAddress) == ("127.0.0.1:10256", "")
        assert configuration.featureGates == {"A": True}
        assert configuration.iptables.localhostNodePorts is False

    def test_healthz_port_and_metrics_port_set_bind_addresses(self) -> None:
        configuration = configuration_of("--healthz-port", "0", "--metrics-port", "10300")
        assert (configuration.healthzBindAddress, configuration.metricsBindAddress) == ("", "127.0.0.1:10300")

    def test_config_file_replaces_flags_except_hostname_override(
        self, tmp_path: Path, caplog: pytest.LogCaptureFixture
    ) -> None:
        file = tmp_path / "config"
        file.write_text(f"{HEAD}mode: userspace\nhostnameOverride: a\nclusterCIDR: 10.1.0.0/16\n")
        with caplog.at_level(logging.WARNING):
            configuration = configuration_of(
                *("--config", str(file), "--hostname-override", "b", "--cluster-cidr", "10.2.0.0/16")
            )
        assert (configuration.mode, configuration.hostnameOverride) == ("userspace", "b")
        assert configuration.cluster_cidrs == ["10.1.0.0/16"]
        assert "ignoring --cluster-cidr, as --config is given" in caplog.text

    @pytest.mark.parametrize(
        ("words", "message"),
        [
            (("--proxy-mode", "x"), 'KubeProxyConfiguration.Mode.ProxyMode: Invalid value: "x"'),
            (("--config", "/nowhere"), "--config: cannot read /nowhere"),
            (("--hostname-override", " "), "empty hostname-override is invalid"),
            (("--iptables-masquerade-bit", "40"), "must be within the range [0, 31]"),
            (("--conntrack-udp-timeout", "x"), 'time: invalid duration "x"'),
            (("--feature-gates", "A"), "--feature-gates: want NAME=true or NAME=false"),
            (("--metrics-port", "70000"), "--metrics-port: 70000 is not a port"),
        ],
    )
    def test_invalid_flags_are_reported(self, words: tuple[str, ...], message: str) -> None:
        with pytest.raises(CliError) as raised:
            configuration_of(*words)
        assert message in raised.value.format_message()


def test_write_config_to_writes_the_configuration(tmp_path: Path) -> None:
    file = tmp_path / "config.yaml"
    done = CliRunner().invoke(cli, ["kube-proxy", "--write-config-to", str(file), "--cluster-cidr", "10.1.0.0/16"])
    assert done.exit_code == 0, done.output
    content = yaml.safe_load(file.read_text())
    assert (content["kind"], content["clusterCIDR"]) == ("KubeProxyConfiguration", "10.1.0.0/16")
    assert configuration_of("--config", str(file)).cluster_cidrs == ["10.1.0.0/16"]


@pytest.fixture
def cluster() -> Iterator[Cluster]:
    with Cluster(components=["apiserver"]) as cluster:
        yield cluster


@contextlib.contextmanager
def server(text: bytes) -> Iterator[int]:
    """Run an HTTP server on all addresses; yield its port."""
    loop = asyncio.new_event_loop()

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        writer.write(b"HTTP/1.0 200 OK\r\n\r\n" + text)
        writer.close()

    listening = loop.run_until_complete(asyncio.start_server(serve, "0.0.0.0", 0))
    thread = threading.Thread(target=loop.run_forever)
    thread.start()
    try:
        yield listening.sockets[0].getsockname()[1]
    finally:
        loop.call_soon_threadsafe(loop.stop)
        thread.join()
        listening.close()
        loop.run_until_complete(listening.wait_closed())
        loop.close()


async def make_node(cluster: Cluster, address: str) -> None:
    nodes = cluster.client.for_kind(Node)
    await nodes.create(builders.node(NODE))
    status = {"addresses": [{"type": "InternalIP", "address": address}]}
    await nodes.patch(NODE, {"status": status}, subresource="status")


def test_userspace_mode_serves_services_health_and_metrics(sampan: Sampan, cluster: Cluster) -> None:
    """Without packet rules, a service is reachable on an address of the loopback network and by its node port."""
    health, metrics, service_port, node_port = *free_ports(3), free_node_port()
    with server(b"hello") as number:

        async def make() -> str:
            await make_node(cluster, "127.0.0.1")
            obj = service("web", port(service_port, node_port=node_port), type="NodePort", ip=[])
            created = await cluster.client.for_kind(Service).create(obj)
            target = endpoint_slice("web", endpoint(_find_machine_address()), number=number)
            await cluster.client.for_kind(EndpointSlice).create(target)
            return str(created.spec.clusterIP)

        cluster_ip = cluster.run(make())
        words = [
            *("kube-proxy", "--kubeconfig", str(cluster.kubeconfig), "--proxy-mode", "userspace"),
            *("--hostname-override", NODE, "--healthz-bind-address", f"127.0.0.1:{health}"),
            *("--metrics-bind-address", f"127.0.0.1:{metrics}"),
        ]
        with sampan.running_command(*words) as process:
            assert process.stdout is not None
            assert f"kube-proxy has started: node {NODE}, mode userspace" in process.stdout.readline()
            loopback = f"127.{cluster_ip.partition('.')[2]}"
            for address in (f"{loopback}:{service_port}", f"127.0.0.1:{node_port}"):
                assert get(f"http://{address}/") == (200, "hello")
            status = json.loads(get(f"http://127.0.0.1:{health}/healthz")[1])
            assert set(status) == {"lastUpdated", "currentTime", "nodeEligible"}
            base = f"http://127.0.0.1:{metrics}"
            assert get(f"{base}/proxyMode") == (200, "userspace")
            config = json.loads(get(f"{base}/configz")[1])
            assert config["kubeproxy.config.k8s.io"]["mode"] == "userspace"
            text = get(f"{base}/metrics")[1]
            assert 'kubeproxy_sync_proxy_rules_duration_seconds_count{ip_family="IPv4"}' in text
            assert "kubeproxy_network_programming_duration_seconds" in text
            assert 'kubernetes_feature_enabled{name="NFTablesProxyMode",stage=""} 1' in text


def _find_machine_address() -> str:
    """Return an address of this machine that is not a loopback address, which endpoints may not have."""
    from sampan.kubelet.agent.machine import find_machine_addresses

    return next(address for address in find_machine_addresses() if ":" not in address)


def test_a_missing_kubeconfig_is_reported(sampan: Sampan) -> None:
    assert "--kubeconfig" in sampan.expect_failure("kube-proxy", "--proxy-mode", "userspace")
