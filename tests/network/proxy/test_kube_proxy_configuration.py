from __future__ import annotations

import logging

import pytest
import yaml

from sampan.network.proxy.kube_proxy_configuration import (
    IPTABLES,
    IPVS,
    NFTABLES,
    USERSPACE,
    KubeProxyConfiguration,
    ProxyConfigurationError,
    as_yaml,
    decode,
    split_address,
    with_defaults,
)
from sampan.network.proxy.kube_proxy_validation import validate
from sampan.network.proxy.proxy_config import ProxyConfig, node_facts
from sampan.network.proxy.services import IPV4

HEAD = "apiVersion: kubeproxy.config.k8s.io/v1alpha1\nkind: KubeProxyConfiguration\n"


def read(text: str = "", *, default_mode: str = NFTABLES) -> KubeProxyConfiguration:
    configuration = with_defaults(decode(HEAD + text), default_mode=default_mode)
    validate(configuration)
    return configuration


def error_of(text: str) -> str:
    with pytest.raises(ProxyConfigurationError) as raised:
        read(text)
    return str(raised.value)


def test_defaults() -> None:
    configuration = read()
    assert configuration.mode == NFTABLES
    assert configuration.nodePortAddresses == ["primary"]
    assert configuration.healthzBindAddress == "0.0.0.0:10256"
    assert configuration.metricsBindAddress == "127.0.0.1:10249"
    assert (configuration.sync_period_s, configuration.min_sync_period_s) == (30, 1)
    assert configuration.detectLocalMode == "ClusterCIDR"
    assert configuration.oomScoreAdj == -999


def test_kubeadm_file() -> None:
    """kubeadm writes zero values and null, which mean the defaults."""
    configuration = read(
        'bindAddress: 0.0.0.0\nclientConnection: {acceptContentTypes: "", burst: 0, contentType: "", kubeconfig: '
        "/var/lib/kube-proxy/kubeconfig.conf, qps: 0}\nclusterCIDR: 10.244.0.0/16\nconfigSyncPeriod: 0s\n"
        "conntrack: {maxPerCore: null, min: null, tcpCloseWaitTimeout: null, tcpEstablishedTimeout: null}\n"
        'healthzBindAddress: ""\nmetricsBindAddress: ""\niptables: {masqueradeBit: null, syncPeriod: 0s, '
        'minSyncPeriod: 0s}\nipvs: {syncPeriod: 0s}\nmode: ""\nnodePortAddresses: null\noomScoreAdj: null\n'
    )
    assert configuration.clientConnection.kubeconfig == "/var/lib/kube-proxy/kubeconfig.conf"
    assert configuration.cluster_cidrs == ["10.244.0.0/16"]
    assert configuration.configSyncPeriod == "15m0s"
    assert configuration.conntrack.maxPerCore == 32768
    assert configuration.iptables.syncPeriod == "30s"
    assert configuration.masquerade_bit == 14


def test_bind_addresses_of_an_ipv6_node() -> None:
    configuration = read('bindAddress: "::"\nmetricsBindAddress: "::1"\n')
    assert configuration.healthzBindAddress == "[::]:10256"
    assert split_address(configuration.metricsBindAddress) == ("::1", 10249)


@pytest.mark.parametrize(("mode", "addresses"), [(IPTABLES, []), (IPVS, []), (NFTABLES, ["primary"])])
def test_node_port_addresses_depend_on_the_mode(mode: str, addresses: list[str]) -> None:
    assert read(f"mode: {mode}\n").nodePortAddresses == addresses


@pytest.mark.parametrize(
    ("keywords", "addresses"),
    [
        (["primary"], ("192.0.2.1",)),
        (["primary", "10.0.0.0/8"], ("192.0.2.1", "10.1.2.3")),
        (["localhost"], ()),
        (["localhost", "primary"], ("192.0.2.1",)),
        (["primary", "all"], None),
        ([], None),
    ],
)
def test_node_ports_are_accepted_on_the_addresses_of_keywords_and_cidrs(
    keywords: list[str], addresses: tuple[str, ...] | None
) -> None:
    local = ["127.0.0.1", "10.1.2.3", "192.0.2.1", "198.51.100.7", "::1"]
    facts = node_facts(ProxyConfig(node_port_addresses=keywords), IPV4, node_ips=["192.0.2.1"], local_addresses=local)
    assert facts.node_port_ips == addresses


def test_settings_come_from_the_section_of_the_mode() -> None:
    text = (
        "iptables: {masqueradeBit: 3, masqueradeAll: true, syncPeriod: 1m}\n"
        "nftables: {masqueradeBit: 4, minSyncPeriod: 2s}\nipvs: {syncPeriod: 2m}\n"
    )
    iptables, ipvs, nftables = (read(f"mode: {mode}\n{text}") for mode in (IPTABLES, IPVS, NFTABLES))
    assert (iptables.masquerade_bit, iptables.masquerades_all, iptables.sync_period_s) == (3, True, 60)
    assert (ipvs.masquerade_bit, ipvs.masquerades_all, ipvs.sync_period_s) == (3, True, 120)
    assert (nftables.masquerade_bit, nftables.masquerades_all, nftables.min_sync_period_s) == (4, False, 2)


def test_unknown_and_duplicate_fields_are_logged(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.WARNING):
        assert read("foo: 1\nmode: nftables\nmode: userspace\nconntrack: {bar: 1}\n").mode == USERSPACE
    errors = 'line 5: key "mode" already set in map, unknown field "foo", unknown field "conntrack.bar"'
    assert f"strict decoding error: {errors}" in caplog.text


PREFIX = "failed to decode: json: cannot unmarshal"
CIDR = "must be a valid CIDR block (e.g. 10.100.0.0/16 or fde4:8dba:82e1::/48)"


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("oomScoreAdj: x", f"{PREFIX} string into Go struct field KubeProxyConfiguration.oomScoreAdj of type int32"),
        ("nodePortAddresses: 3", f"{PREFIX} number into Go struct field KubeProxyConfiguration.nodePortAddresses of "),
        ("configSyncPeriod: 3x", 'failed to decode: time: unknown unit "x" in duration "3x"'),
        ("a: [", "failed to decode: error converting YAML to JSON: "),
        ("a: &a [*a]", "failed to decode: "),
        ("bindAddress: x", 'KubeProxyConfiguration.BindAddress: Invalid value: "x": not a valid textual '),
        ("healthzBindAddress: a", 'KubeProxyConfiguration.HealthzBindAddress: Invalid value: "a": must be IP:port'),
        ("metricsBindAddress: 1.2.3.4:0", 'KubeProxyConfiguration.MetricsBindAddress: Invalid value: "0": must be a'),
        ("mode: kernelspace", 'KubeProxyConfiguration.Mode.ProxyMode: Invalid value: "kernelspace": must be iptables,'),
        ("nftables: {masqueradeBit: 32}", "KubeProxyNFTablesConfiguration.MasqueradeBit: Invalid value: 32: must be "),
        ("nodePortAddresses: [all, primary, all]", 'NodePortAddresses[2]: Duplicate value: "all"'),
        (
            "nodePortAddresses: [10.0.0.1]",
            'NodePortAddresses[0]: Invalid value: "10.0.0.1": must be a valid CIDR or',
        ),
        ("nftables: {syncPeriod: 1s, minSyncPeriod: 2s}", 'SyncPeriod: Invalid value: "2s": must be greater than or '),
        ("detectLocalMode: x", 'DetectLocalMode: Unsupported value: "x": supported values: "ClusterCIDR", "NodeCIDR"'),
        ("detectLocalMode: BridgeInterface", 'DetectLocalConfiguration.InterfaceName: Invalid value: "": must not be '),
        ("clusterCIDR: 10.0.0.0", f'DetectLocalConfiguration.ClusterCIDRs[0]: Invalid value: "10.0.0.0": {CIDR}'),
        ("clusterCIDR: 10.0.0.0/8,11.0.0.0/8", "ClusterCIDRs: Invalid value: "),
        ("conntrack: {min: -1}", "KubeProxyConntrackConfiguration.Min: Invalid value: -1: must be greater than or "),
        ("oomScoreAdj: 1001\nbindAddress: x", "[KubeProxyConfiguration.KubeProxyLinuxConfiguration.OOMScoreAdj: "),
    ],
)
def test_invalid_values(text: str, message: str) -> None:
    assert message in error_of(text)


@pytest.mark.parametrize("text", ["", "[]", "kind: KubeProxyConfiguration", "apiVersion: v1\nkind: Pod"])
def test_other_kinds_are_rejected(text: str) -> None:
    with pytest.raises(ProxyConfigurationError, match="failed to decode"):
        decode(text)


def test_yaml_round_trip() -> None:
    configuration = read("mode: nftables\nconntrack: {tcpEstablishedTimeout: 3600s}\n")
    text = as_yaml(configuration)
    assert yaml.safe_load(text)["conntrack"]["tcpEstablishedTimeout"] == "1h0m0s"
    assert with_defaults(decode(text)) == configuration
