"""KubeProxyConfiguration (kubeproxy.config.k8s.io/v1alpha1): its fields, defaults and decoding.

Its counterpart is `pkg/proxy/apis/config`. Messages are those of the real kube-proxy.
"""

from __future__ import annotations

import logging
import re
from collections.abc import Mapping, Sequence
from ipaddress import ip_address
from typing import Any

import msgspec

from sampan.api.go_compat import gotext
from sampan.api.values.durations import DurationError, canonical_duration, parse_duration
from sampan.machinery.config_file import ConfigFileError, decode_leniently

log = logging.getLogger(__name__)

API_VERSION, KIND = "kubeproxy.config.k8s.io/v1alpha1", "KubeProxyConfiguration"

NFTABLES, USERSPACE, IPTABLES, IPVS = "nftables", "userspace", "iptables", "ipvs"
MODES = (IPTABLES, IPVS, NFTABLES, USERSPACE)
CLUSTER_CIDR, NODE_CIDR = "ClusterCIDR", "NodeCIDR"
BRIDGE_INTERFACE, INTERFACE_NAME_PREFIX = "BridgeInterface", "InterfaceNamePrefix"
LOCAL_MODES = (CLUSTER_CIDR, NODE_CIDR, BRIDGE_INTERFACE, INTERFACE_NAME_PREFIX)
PRIMARY, LOCALHOST, ALL = "primary", "localhost", "all"
NODE_PORT_KEYWORDS = (PRIMARY, LOCALHOST, ALL)
"""The values of nodePortAddresses besides CIDRs: the addresses of the node, loopback, and all addresses."""
"""The value of `nodePortAddresses` that stands for the addresses of the Node object."""

HEALTHZ_PORT, METRICS_PORT = 10256, 10249
MASQUERADE_BIT = 14


class ProxyConfigurationError(ConfigFileError):
    """The configuration of kube-proxy is invalid; the message is that of the real one."""


class ClientConnection(msgspec.Struct, kw_only=True):
    kubeconfig: str = ""
    acceptContentTypes: str = ""
    contentType: str = "application/vnd.kubernetes.protobuf"
    qps: float = 5
    burst: int = 10


class IptablesConfiguration(msgspec.Struct, kw_only=True):
    masqueradeBit: int | None = MASQUERADE_BIT
    masqueradeAll: bool = False
    localhostNodePorts: bool | None = True
    syncPeriod: str | None = "30s"
    minSyncPeriod: str | None = "1s"


class IpvsConfiguration(msgspec.Struct, kw_only=True):
    syncPeriod: str | None = "30s"
    minSyncPeriod: str | None = "0s"
    scheduler: str = ""
    excludeCIDRs: list[str] | None = None
    strictARP: bool = False
    tcpTimeout: str | None = "0s"
    tcpFinTimeout: str | None = "0s"
    udpTimeout: str | None = "0s"


class NftablesConfiguration(msgspec.Struct, kw_only=True):
    masqueradeBit: int | None = MASQUERADE_BIT
    masqueradeAll: bool = False
    syncPeriod: str | None = "30s"
    minSyncPeriod: str | None = "1s"


class WinkernelConfiguration(msgspec.Struct, kw_only=True):
    networkName: str = ""
    sourceVip: str = ""
    enableDSR: bool = False
    rootHnsEndpointName: str = ""
    forwardHealthCheckVip: bool = False


class DetectLocalConfiguration(msgspec.Struct, kw_only=True):
    bridgeInterface: str = ""
    interfaceNamePrefix: str = ""


class ConntrackConfiguration(msgspec.Struct, kw_only=True):
    maxPerCore: int | None = 32768
    min: int | None = 131072
    tcpEstablishedTimeout: str | None = "24h0m0s"
    tcpCloseWaitTimeout: str | None = "1h0m0s"
    tcpBeLiberal: bool = False
    udpTimeout: str | None = "0s"
    udpStreamTimeout: str | None = "0s"


class LoggingConfiguration(msgspec.Struct, kw_only=True):
    format: str = "text"
    flushFrequency: str | int = "5s"
    verbosity: int = 0
    vmodule: list[dict[str, str | int]] | None = None
    options: dict[str, Any] | None = None


class KubeProxyConfiguration(msgspec.Struct, kw_only=True):
    """The configuration with its defaults. Durations are texts as in Go; `seconds` converts them."""

    apiVersion: str = API_VERSION
    kind: str = KIND
    featureGates: dict[str, bool] | None = None
    clientConnection: ClientConnection = msgspec.field(default_factory=ClientConnection)
    logging: LoggingConfiguration = msgspec.field(default_factory=LoggingConfiguration)
    hostnameOverride: str = ""
    bindAddress: str = ""
    healthzBindAddress: str = ""
    metricsBindAddress: str = ""
    bindAddressHardFail: bool = False
    enableProfiling: bool = False
    showHiddenMetricsForVersion: str = ""
    mode: str = ""
    iptables: IptablesConfiguration = msgspec.field(default_factory=IptablesConfiguration)
    ipvs: IpvsConfiguration = msgspec.field(default_factory=IpvsConfiguration)
    nftables: NftablesConfiguration = msgspec.field(default_factory=NftablesConfiguration)
    winkernel: WinkernelConfiguration = msgspec.field(default_factory=WinkernelConfiguration)
    detectLocalMode: str = ""
    detectLocal: DetectLocalConfiguration = msgspec.field(default_factory=DetectLocalConfiguration)
    clusterCIDR: str = ""
    nodePortAddresses: list[str] | None = None
    oomScoreAdj: int | None = -999
    conntrack: ConntrackConfiguration = msgspec.field(default_factory=ConntrackConfiguration)
    configSyncPeriod: str | None = "15m0s"
    portRange: str = ""
    windowsRunAsService: bool = False

    @property
    def cluster_cidrs(self) -> list[str]:
        return [part.strip() for part in self.clusterCIDR.split(",")] if self.clusterCIDR else []

    @property
    def masquerade_bit(self) -> int:
        """The bit of the chosen mode. Configurations for iptables and ipvs have it in another section."""
        section = self.iptables if self.mode in (IPTABLES, IPVS) else self.nftables
        return section.masqueradeBit if section.masqueradeBit is not None else MASQUERADE_BIT

    @property
    def masquerades_all(self) -> bool:
        return self.iptables.masqueradeAll if self.mode in (IPTABLES, IPVS) else self.nftables.masqueradeAll

    @property
    def sync_period_s(self) -> float:
        return seconds(self.sync_section.syncPeriod)

    @property
    def min_sync_period_s(self) -> float:
        return seconds(self.sync_section.minSyncPeriod)

    @property
    def sync_section(self) -> IptablesConfiguration | IpvsConfiguration | NftablesConfiguration:
        sections: dict[str, IptablesConfiguration | IpvsConfiguration] = {IPTABLES: self.iptables, IPVS: self.ipvs}
        return sections.get(self.mode, self.nftables)


def seconds(duration: str | None) -> float:
    return parse_duration(duration) / 1e9 if duration else 0.0


# -- decoding ----------------------------------------------------------------------------------------------------------


def decode(text: str) -> KubeProxyConfiguration:
    """Decode a configuration file without applying defaults that depend on other fields.

    Unknown and duplicate fields are logged and ignored, as the real kube-proxy does for v1alpha1. Raise
    ProxyConfigurationError for everything else that is wrong.
    """
    try:
        content, warnings = decode_leniently(text)
    except ConfigFileError as error:
        raise ProxyConfigurationError(f"failed to decode: error converting YAML to JSON: {error}") from None
    if not isinstance(content, dict):
        raise ProxyConfigurationError("failed to decode: couldn't get version/kind; json parse error: not an object")
    _check_kind(content)
    fields, unknown = _split_fields(content, KubeProxyConfiguration, "")
    if warnings := [*warnings, *(f"unknown field {gotext.quote(name)}" for name in unknown)]:
        log.warning("Using lenient decoding as strict decoding failed: strict decoding error: %s", ", ".join(warnings))
    try:
        configuration = msgspec.convert(fields, KubeProxyConfiguration)
        _check_durations(configuration)
    except msgspec.ValidationError as error:
        raise ProxyConfigurationError(f"failed to decode: {_go_message(str(error))}") from None
    except DurationError as error:
        raise ProxyConfigurationError(f"failed to decode: {error}") from None
    return configuration


def _check_kind(content: Mapping[str, Any]) -> None:
    version, kind = content.get("apiVersion"), content.get("kind")
    if not kind:
        raise ProxyConfigurationError("failed to decode: Object 'Kind' is missing")
    if not version:
        raise ProxyConfigurationError("failed to decode: Object 'apiVersion' is missing")
    if (version, kind) != (API_VERSION, KIND):
        raise ProxyConfigurationError(
            f"failed to decode: no kind {gotext.quote(str(kind))} is registered for version "
            f"{gotext.quote(str(version))} in scheme: want {KIND} of {API_VERSION}"
        )


def _split_fields(content: Mapping[str, Any], type: Any, prefix: str) -> tuple[dict[str, Any], list[str]]:
    """Return the known fields of an object and the paths of the others. A field with the value null has its default."""
    types = {field.name: field.type for field in msgspec.structs.fields(type)}
    fields, unknown = {}, []
    for name, value in content.items():
        if name not in types:
            unknown.append(f"{prefix}{name}")
        elif isinstance(value, Mapping) and isinstance(types[name], msgspec.StructMeta):
            fields[name], below = _split_fields(value, types[name], f"{prefix}{name}.")
            unknown += below
        elif value is not None:
            fields[name] = value
    return fields, unknown


_MISMATCH = re.compile(r"Expected `(?P<expected>[^`]+)`, got `(?P<actual>\w+)`(?: - at `\$\.?(?P<path>[^`]*)`)?")
_JSON_TYPES = {"str": "string", "int": "number", "float": "number", "object": "object", "array": "array"}
_GO_TYPES = {"str": "string", "int": "int32", "float": "float32", "bool": "bool", "array": "[]string"}


def _go_message(text: str) -> str:
    """Return the message of Go's decoder for one of msgspec."""
    mismatch = _MISMATCH.match(text)
    if mismatch is None:
        return text
    expected = mismatch["expected"].partition(" ")[0]
    actual = _JSON_TYPES.get(mismatch["actual"], mismatch["actual"])
    field_text = f"{KIND}.{mismatch['path']}" if mismatch["path"] else KIND
    return (
        f"json: cannot unmarshal {actual} into Go struct field {field_text} of type {_GO_TYPES.get(expected, expected)}"
    )


def _check_durations(configuration: KubeProxyConfiguration) -> None:
    """Rewrite each duration in its canonical form."""
    structs = [configuration, *(getattr(configuration, name) for name in ("iptables", "ipvs", "nftables", "conntrack"))]
    for struct in structs:
        for name in struct.__struct_fields__:
            value = getattr(struct, name)
            if name.endswith(("Period", "Timeout")) and value is not None:
                setattr(struct, name, canonical_duration(value))


# -- defaults ----------------------------------------------------------------------------------------------------------


_ZERO_MEANS_DEFAULT = {
    "iptables": ("syncPeriod", "minSyncPeriod"),
    "ipvs": ("syncPeriod",),
    "nftables": ("syncPeriod", "minSyncPeriod"),
    "clientConnection": ("contentType", "qps", "burst"),
}
"""Fields whose zero value is replaced by the default; kubeadm writes such files."""


def with_defaults(configuration: KubeProxyConfiguration, *, default_mode: str = NFTABLES) -> KubeProxyConfiguration:
    """Fill in zero values and the fields whose defaults depend on other fields. `default_mode` is the best available
    mode."""
    for section, names in _ZERO_MEANS_DEFAULT.items():
        _replace_zeros(getattr(configuration, section), names)
    _replace_zeros(configuration, ("configSyncPeriod",))
    bind = configuration.bindAddress or "0.0.0.0"
    everywhere, loopback = ("[::]", "[::1]") if ":" in bind else ("0.0.0.0", "127.0.0.1")
    mode = configuration.mode or default_mode
    addresses = configuration.nodePortAddresses
    return msgspec.structs.replace(
        configuration,
        bindAddress=bind,
        healthzBindAddress=with_port(configuration.healthzBindAddress or everywhere, HEALTHZ_PORT),
        metricsBindAddress=with_port(configuration.metricsBindAddress or loopback, METRICS_PORT),
        mode=mode,
        nodePortAddresses=addresses or ([PRIMARY] if mode == NFTABLES else []),
        detectLocalMode=configuration.detectLocalMode or CLUSTER_CIDR,
    )


def _replace_zeros(struct: msgspec.Struct, names: Sequence[str]) -> None:
    defaults = {field.name: field.default for field in msgspec.structs.fields(struct)}
    for name in names:
        if getattr(struct, name) in ("", 0, "0s"):
            setattr(struct, name, defaults[name])


def with_port(address: str, port: int) -> str:
    """Append a port to an IP address; leave everything else unchanged."""
    bare = address.strip("[]")
    try:
        return f"[{bare}]:{port}" if ip_address(bare).version == 6 else f"{bare}:{port}"
    except ValueError:
        return address


def split_address(address: str) -> tuple[str, int]:
    """Split a valid HOST:PORT."""
    host, _, port = address.rpartition(":")
    return host.strip("[]"), int(port)


# -- output ------------------------------------------------------------------------------------------------------------


def as_object(configuration: KubeProxyConfiguration) -> dict[str, Any]:
    """Return the configuration as an object for /configz and for --write-config-to."""
    content: dict[str, Any] = msgspec.to_builtins(configuration)
    for name in ("featureGates", "windowsRunAsService"):
        if not content[name]:
            del content[name]
    return content


def as_yaml(configuration: KubeProxyConfiguration) -> str:
    import yaml

    return yaml.safe_dump(as_object(configuration), sort_keys=True)
