"""The validation of a KubeProxyConfiguration (`pkg/proxy/apis/config/validation`). Messages are those of the real
kube-proxy."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from ipaddress import ip_network

from sampan.api.addresses import is_address
from sampan.api.field_errors import FieldError, FieldPath, join_messages
from sampan.network.proxy.kube_proxy_configuration import (
    BRIDGE_INTERFACE,
    CLUSTER_CIDR,
    INTERFACE_NAME_PREFIX,
    IPVS,
    KIND,
    LOCAL_MODES,
    MODES,
    NFTABLES,
    NODE_PORT_KEYWORDS,
    ConntrackConfiguration,
    IpvsConfiguration,
    KubeProxyConfiguration,
    ProxyConfigurationError,
    seconds,
)


def validate(configuration: KubeProxyConfiguration) -> None:
    """Raise ProxyConfigurationError with all field errors of a configuration that has its defaults."""
    errors = [str(error) for error in _validate_configuration(configuration, FieldPath(KIND))]
    if errors:
        raise ProxyConfigurationError(join_messages(errors))


def _validate_configuration(configuration: KubeProxyConfiguration, path: FieldPath) -> Iterator[FieldError]:
    yield from _validate_masquerade_bit(configuration.iptables.masqueradeBit, path / "KubeProxyIPTablesConfiguration")
    if configuration.mode == NFTABLES:
        yield from _validate_masquerade_bit(
            configuration.nftables.masqueradeBit, path / "KubeProxyNFTablesConfiguration"
        )
    if configuration.mode == IPVS:
        yield from _validate_ipvs(configuration.ipvs, path / "KubeProxyIPVSConfiguration")
    yield from _validate_conntrack(
        configuration.conntrack, path / "KubeProxyLinuxConfiguration" / "KubeProxyConntrackConfiguration"
    )
    score = configuration.oomScoreAdj
    if score is not None and not -1000 <= score <= 1000:
        score_path = path / "KubeProxyLinuxConfiguration" / "OOMScoreAdj"
        yield FieldError.invalid(score_path, score, "must be within the range [-1000, 1000]")
    if configuration.mode not in MODES:
        detail = f"must be {', '.join(MODES)} or blank (blank means the best-available proxy [currently nftables])"
        yield FieldError.invalid(path / "Mode" / "ProxyMode", configuration.mode, detail)
    if configuration.clientConnection.burst < 0:
        score_path = path / "ClientConnection" / "Burst"
        yield FieldError.invalid(score_path, configuration.clientConnection.burst, "must be greater than or equal to 0")
    yield from _validate_periods(configuration, path)
    if not is_address(configuration.bindAddress):
        detail = "not a valid textual representation of an IP address"
        yield FieldError.invalid(path / "BindAddress", configuration.bindAddress, detail)
    for name, address in (
        ("HealthzBindAddress", configuration.healthzBindAddress),
        ("MetricsBindAddress", configuration.metricsBindAddress),
    ):
        yield from _validate_host_port(address, path / name) if address else ()
    yield from _validate_node_port_addresses(configuration.nodePortAddresses or (), path / "NodePortAddresses")
    yield from _validate_local_detection(configuration, path)


def _validate_masquerade_bit(bit: int | None, path: FieldPath) -> Iterator[FieldError]:
    if bit is not None and not 0 <= bit <= 31:
        yield FieldError.invalid(path / "MasqueradeBit", bit, "must be within the range [0, 31]")


def _validate_ipvs(ipvs: IpvsConfiguration, path: FieldPath) -> Iterator[FieldError]:
    timeouts = (("TCPTimeout", ipvs.tcpTimeout), ("TCPFinTimeout", ipvs.tcpFinTimeout), ("UDPTimeout", ipvs.udpTimeout))
    for name, timeout in timeouts:
        yield from _validate_not_negative(timeout, path / name)
    for index, cidr in enumerate(ipvs.excludeCIDRs or ()):
        if not _is_network(cidr):
            yield FieldError.invalid((path / "ExcludeCidrs")[index], cidr, "must be a valid CIDR")


def _validate_conntrack(conntrack: ConntrackConfiguration, path: FieldPath) -> Iterator[FieldError]:
    for name, number in (("MaxPerCore", conntrack.maxPerCore), ("Min", conntrack.min)):
        if number is not None and number < 0:
            yield FieldError.invalid(path / name, number, "must be greater than or equal to 0")
    yield from _validate_not_negative(conntrack.tcpEstablishedTimeout, path / "TCPEstablishedTimeout")
    yield from _validate_not_negative(conntrack.tcpCloseWaitTimeout, path / "TCPCloseWaitTimeout")
    yield from _validate_not_negative(conntrack.udpTimeout, path / "UDPTimeout")
    yield from _validate_not_negative(conntrack.udpStreamTimeout, path / "UDPStreamTimeout")


def _validate_not_negative(duration: str | None, path: FieldPath) -> Iterator[FieldError]:
    if seconds(duration) < 0:
        yield FieldError.invalid(path, duration, "must be greater than or equal to 0")


def _validate_periods(configuration: KubeProxyConfiguration, path: FieldPath) -> Iterator[FieldError]:
    if seconds(configuration.configSyncPeriod) <= 0:
        yield FieldError.invalid(path / "ConfigSyncPeriod", configuration.configSyncPeriod, "must be greater than 0")
    section = configuration.sync_section
    sync_s, min_sync_s = seconds(section.syncPeriod), seconds(section.minSyncPeriod)
    if sync_s <= 0:
        yield FieldError.invalid(path / "SyncPeriod", section.syncPeriod, "must be greater than 0")
    yield from _validate_not_negative(section.minSyncPeriod, path / "MinSyncPeriod")
    if min_sync_s > sync_s:
        detail = f"must be greater than or equal to {path / 'MinSyncPeriod'}"
        yield FieldError.invalid(path / "SyncPeriod", section.minSyncPeriod, detail)


def _validate_host_port(address: str, path: FieldPath) -> Iterator[FieldError]:
    host, colon, port = address.rpartition(":")
    if not colon or (":" in host and not (host.startswith("[") and host.endswith("]"))):
        yield FieldError.invalid(path, address, "must be IP:port")
        return
    if not is_address(host.strip("[]")):
        yield FieldError.invalid(path, host, "must be a valid IP")
    if not (port.isdecimal() and 1 <= int(port) <= 65535):
        yield FieldError.invalid(path, port, "must be a valid port")


def _validate_node_port_addresses(addresses: Sequence[str], path: FieldPath) -> Iterator[FieldError]:
    for index, address in enumerate(addresses):
        if address in NODE_PORT_KEYWORDS:
            if address in addresses[:index]:
                yield FieldError.duplicate(path[index], address)
        elif not _is_network(address):
            detail = "must be a valid CIDR or one of the keywords 'primary', 'localhost', 'all'"
            yield FieldError.invalid(path[index], address, detail)


def _validate_local_detection(configuration: KubeProxyConfiguration, path: FieldPath) -> Iterator[FieldError]:
    mode, below = configuration.detectLocalMode, path / "DetectLocalConfiguration"
    if mode not in LOCAL_MODES:
        yield FieldError.not_supported(path / "DetectLocalMode", mode, (*LOCAL_MODES, ""))
    elif mode == BRIDGE_INTERFACE and not configuration.detectLocal.bridgeInterface:
        yield FieldError.invalid(below / "InterfaceName", "", "must not be empty")
    elif mode == INTERFACE_NAME_PREFIX and not configuration.detectLocal.interfaceNamePrefix:
        yield FieldError.invalid(below / "InterfacePrefix", "", "must not be empty")
    elif mode == CLUSTER_CIDR:
        yield from _validate_cluster_cidrs(configuration.cluster_cidrs, below / "ClusterCIDRs")


def _validate_cluster_cidrs(cidrs: list[str], path: FieldPath) -> Iterator[FieldError]:
    pair = "must be a either a single CIDR or dual-stack pair of CIDRs (e.g. [10.100.0.0/16, fde4:8dba:82e1::/48]"
    if len(cidrs) > 2:
        yield FieldError.invalid(path, cidrs, pair)
        return
    invalid = [index for index, cidr in enumerate(cidrs) if not _is_network(cidr)]
    for index in invalid:
        detail = "must be a valid CIDR block (e.g. 10.100.0.0/16 or fde4:8dba:82e1::/48)"
        yield FieldError.invalid(path[index], cidrs[index], detail)
    if len(cidrs) == 2 and not invalid and len({":" in cidr for cidr in cidrs}) != 2:
        yield FieldError.invalid(path, cidrs, pair)


def _is_network(text: str) -> bool:
    try:
        ip_network(text, strict=False)
    except ValueError:
        return False
    return "/" in text
