"""The flags of kube-proxy, each with its field in KubeProxyConfiguration.

As in the real kube-proxy, a configuration file replaces the flags, except for --hostname-override, --master and the
verbosity.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from typing import Any

import click

from sampan.cli.flags import parsers
from sampan.cli.flags.flag_table import Flag, add_flags
from sampan.machinery.cli_errors import CliError
from sampan.network.proxy.kube_proxy_configuration import (
    HEALTHZ_PORT,
    IPVS,
    METRICS_PORT,
    KubeProxyConfiguration,
    ProxyConfigurationError,
    decode,
    with_defaults,
    with_port,
)
from sampan.network.proxy.kube_proxy_validation import validate

log = logging.getLogger(__name__)

_PROCESS_FLAGS = (
    Flag(
        name="--config",
        help="KubeProxyConfiguration file (kubeproxy.config.k8s.io/v1alpha1). It replaces the flags that have a field.",
        metavar="F",
    ),
    Flag(
        name="--write-config-to",
        help="Write the configuration with its default values to this file, and exit.",
        metavar="F",
    ),
    Flag(
        name="--cleanup",
        help="Remove the nftables tables of kube-proxy from this machine, and exit.",
        default=False,
        is_switch=True,
    ),
    Flag(
        name="--init-only",
        help="Make the changes that need full root privileges (sysctls), and exit. Afterwards kube-proxy can run with "
        "only the capability CAP_NET_ADMIN.",
        default=False,
        is_switch=True,
    ),
    Flag(
        name="--master",
        help="Address of the API server; overrides the server in the kubeconfig.",
        default="",
        metavar="URL",
    ),
    Flag(
        name="--hostname-override",
        help="Name of the Node object of this machine. Default: the host name in lower case.",
        default="",
        metavar="NAME",
    ),
    Flag(
        name="--healthz-port",
        help="Deprecated: port of the health server; use --healthz-bind-address. 0 disables it.",
        default=HEALTHZ_PORT,
        type=int,
    ),
    Flag(
        name="--metrics-port",
        help="Deprecated: port of the metrics server; use --metrics-bind-address. 0 disables it.",
        default=METRICS_PORT,
        type=int,
    ),
    Flag(
        name="--v",
        short="-v",
        parameter="verbosity",
        help="Log verbosity: 0 logs warnings and errors, 2 also normal operation, 4 everything.",
        default=0,
        type=int,
    ),
)
"""Flags that have no field, or that override their field."""


def _flag(name: str, field: str, help: str, **attributes: Any) -> Flag:
    return Flag(name=name, config_field=field, help=help, **attributes)


_FIELD_FLAGS = (
    _flag(
        "--kubeconfig",
        "clientConnection.kubeconfig",
        "Kubeconfig file with the address of the API server and the credentials to use. Default: in-cluster "
        "configuration.",
        metavar="F",
    ),
    _flag(
        "--kube-api-content-type",
        "clientConnection.contentType",
        "Content type of requests to the API server (has no effect).",
        metavar="TYPE",
    ),
    _flag(
        "--kube-api-burst",
        "clientConnection.burst",
        "Number of requests to the API server that may exceed --kube-api-qps (has no effect).",
        type=int,
    ),
    _flag(
        "--kube-api-qps",
        "clientConnection.qps",
        "Requests to the API server per second (has no effect).",
        type=float,
    ),
    _flag(
        "--bind-address",
        "bindAddress",
        "IP address that replaces the primary address of the Node object; no socket is bound to it.",
        metavar="A",
    ),
    _flag(
        "--healthz-bind-address",
        "healthzBindAddress",
        "Address and port of the health server. Default: 0.0.0.0:10256.",
        metavar="A:PORT",
    ),
    _flag(
        "--metrics-bind-address",
        "metricsBindAddress",
        "Address and port of the metrics server. Default: 127.0.0.1:10249. Empty disables it.",
        metavar="A:PORT",
    ),
    _flag(
        "--bind-address-hard-fail",
        "bindAddressHardFail",
        "Exit if the health or metrics server cannot bind its port.",
        is_switch=True,
    ),
    _flag("--profiling", "enableProfiling", "Enable profiling on the metrics port (has no effect).", is_switch=True),
    _flag(
        "--show-hidden-metrics-for-version",
        "showHiddenMetricsForVersion",
        "Previous version whose hidden metrics are shown (has no effect: no metrics are hidden).",
        metavar="VERSION",
    ),
    _flag(
        "--feature-gates",
        "featureGates",
        "Feature gates as NAME=true or NAME=false, comma-separated (without effect on kube-proxy).",
        metavar="GATES",
        parse=parsers.switches,
    ),
    _flag(
        "--proxy-mode",
        "mode",
        "How services are implemented: nftables or userspace. iptables and ipvs are accepted and served by nftables. "
        "Default: nftables where it can be used, otherwise userspace.",
        metavar="MODE",
    ),
    _flag(
        "--iptables-masquerade-bit",
        "iptables.masqueradeBit",
        "Bit of the packet mark for packets that must be masqueraded, 0 to 31, in all modes. Default: 14.",
        type=int,
    ),
    _flag(
        "--masquerade-all",
        "iptables.masqueradeAll",
        "Masquerade all traffic to cluster IPs of services.",
        is_switch=True,
    ),
    _flag(
        "--iptables-localhost-nodeports",
        "iptables.localhostNodePorts",
        "Make node ports reachable by localhost, in all modes and IP families. Default: true.",
        is_switch=True,
    ),
    _flag(
        "--iptables-sync-period",
        "iptables.syncPeriod",
        "Interval at which the packet rules are verified. Default: 30s.",
        metavar="T",
    ),
    _flag(
        "--iptables-min-sync-period",
        "iptables.minSyncPeriod",
        "Minimum time between two syncs of the packet rules. Default: 1s.",
        metavar="T",
    ),
    _flag(
        "--ipvs-sync-period",
        "ipvs.syncPeriod",
        "Interval at which the packet rules are verified in mode ipvs. Default: 30s.",
        metavar="T",
    ),
    _flag(
        "--ipvs-min-sync-period",
        "ipvs.minSyncPeriod",
        "Minimum time between two syncs of the packet rules in mode ipvs.",
        metavar="T",
    ),
    _flag("--ipvs-scheduler", "ipvs.scheduler", "IPVS scheduler in mode ipvs (has no effect).", metavar="NAME"),
    _flag(
        "--ipvs-exclude-cidrs",
        "ipvs.excludeCIDRs",
        "CIDRs that cleaning up IPVS rules must not touch (has no effect).",
        metavar="CIDR,…",
        parse=parsers.words,
    ),
    _flag(
        "--ipvs-strict-arp",
        "ipvs.strictARP",
        "Set arp_ignore and arp_announce in mode ipvs (has no effect).",
        is_switch=True,
    ),
    _flag(
        "--ipvs-tcp-timeout", "ipvs.tcpTimeout", "Timeout of idle IPVS TCP connections (has no effect).", metavar="T"
    ),
    _flag(
        "--ipvs-tcpfin-timeout",
        "ipvs.tcpFinTimeout",
        "Timeout of IPVS TCP connections after a FIN (has no effect).",
        metavar="T",
    ),
    _flag("--ipvs-udp-timeout", "ipvs.udpTimeout", "Timeout of IPVS UDP packets (has no effect).", metavar="T"),
    _flag(
        "--detect-local-mode",
        "detectLocalMode",
        "How traffic of the node's own pods is recognized: ClusterCIDR, NodeCIDR, BridgeInterface or "
        "InterfaceNamePrefix. Default: ClusterCIDR.",
        metavar="MODE",
    ),
    _flag(
        "--pod-bridge-interface",
        "detectLocal.bridgeInterface",
        "Bridge of the pods, for the mode BridgeInterface of --detect-local-mode.",
        metavar="NAME",
    ),
    _flag(
        "--pod-interface-name-prefix",
        "detectLocal.interfaceNamePrefix",
        "Prefix of the interfaces of pods, for the mode InterfaceNamePrefix of --detect-local-mode.",
        metavar="PREFIX",
    ),
    _flag(
        "--cluster-cidr",
        "clusterCIDR",
        "CIDR of the pods in the cluster, or one per IP family, for the mode ClusterCIDR of --detect-local-mode.",
        metavar="CIDR,…",
    ),
    _flag(
        "--nodeport-addresses",
        "nodePortAddresses",
        "CIDRs of the node addresses that accept connections to node ports, or primary for the addresses of the Node "
        "object. Default: primary; all addresses in modes iptables and ipvs.",
        metavar="CIDR,…",
        parse=parsers.words,
    ),
    _flag(
        "--oom-score-adj",
        "oomScoreAdj",
        "The oom_score_adj of the process, -1000 to 1000. Default: -999.",
        type=int,
    ),
    _flag(
        "--conntrack-max-per-core",
        "conntrack.maxPerCore",
        "Maximum number of tracked connections per CPU; 0 leaves the limit unchanged. Default: 32768.",
        type=int,
    ),
    _flag(
        "--conntrack-min",
        "conntrack.min",
        "Minimum of the limit of tracked connections, unless --conntrack-max-per-core is 0. Default: 131072.",
        type=int,
    ),
    _flag(
        "--conntrack-tcp-timeout-established",
        "conntrack.tcpEstablishedTimeout",
        "Idle timeout of established TCP connections; 0 leaves it unchanged. Default: 24h.",
        metavar="T",
    ),
    _flag(
        "--conntrack-tcp-timeout-close-wait",
        "conntrack.tcpCloseWaitTimeout",
        "Timeout of TCP connections in state CLOSE_WAIT; 0 leaves it unchanged. Default: 1h.",
        metavar="T",
    ),
    _flag(
        "--conntrack-tcp-be-liberal",
        "conntrack.tcpBeLiberal",
        "Accept TCP packets whose sequence numbers are outside of the window.",
        is_switch=True,
    ),
    _flag(
        "--conntrack-udp-timeout",
        "conntrack.udpTimeout",
        "Idle timeout of UDP flows without a reply; 0 leaves it unchanged.",
        metavar="T",
    ),
    _flag(
        "--conntrack-udp-timeout-stream",
        "conntrack.udpStreamTimeout",
        "Idle timeout of UDP flows with replies; 0 leaves it unchanged.",
        metavar="T",
    ),
    _flag(
        "--config-sync-period",
        "configSyncPeriod",
        "Interval at which objects are fetched again from the API server (has no effect: watches suffice).",
        metavar="T",
    ),
)


def kube_proxy_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """Add the flags. Those with a field have no default for click, so that it is known whether they are given."""
    return add_flags((*_PROCESS_FLAGS, *_FIELD_FLAGS))(command)


def kube_proxy_configuration(options: Mapping[str, Any], *, default_mode: str) -> KubeProxyConfiguration:
    """Return the configuration of the file, or else that of the flags. Raise CliError if it is invalid."""
    try:
        configuration = _from_file(options) if options["config"] else _from_flags(options)
        configuration = with_defaults(configuration, default_mode=default_mode)
        if not options["config"] and not options["write_config_to"]:
            _apply_ports(configuration, options)
        configuration.hostnameOverride = _host_name(options) or configuration.hostnameOverride
        validate(configuration)
    except ProxyConfigurationError as error:
        raise CliError(f"{_source_of_error(options)}: {error}") from None
    return configuration


def _source_of_error(options: Mapping[str, Any]) -> str:
    """Return --config or the name of the flag that has an invalid value. If only the combination of the flags is
    invalid, return the names of all of them."""
    if options["config"]:
        return f"--config: {options['config']}"
    used = [flag for flag in _FIELD_FLAGS if options[flag.option_name] is not None]
    nothing = dict.fromkeys(options)
    for flag in used:
        try:
            validate(with_defaults(_from_flags({**nothing, flag.option_name: options[flag.option_name]})))
        except ProxyConfigurationError:
            return flag.name
    return ", ".join(flag.name for flag in used)


def _from_file(options: Mapping[str, Any]) -> KubeProxyConfiguration:
    ignored = [flag.name for flag in _FIELD_FLAGS if options[flag.option_name] is not None]
    if ignored:
        log.warning("ignoring %s, as --config is given", ", ".join(ignored))
    return decode(parsers.file_text("--config", options["config"]))


def _from_flags(options: Mapping[str, Any]) -> KubeProxyConfiguration:
    content: dict[str, Any] = {"apiVersion": KubeProxyConfiguration().apiVersion, "kind": KubeProxyConfiguration().kind}
    for flag in _FIELD_FLAGS:
        value = options[flag.option_name]
        if value is None:
            continue
        section, _, field = flag.config_field.rpartition(".")
        target = content.setdefault(section, {}) if section else content
        target[field] = flag.parse(flag.name, value) if flag.parse is not None else value
    _share_sections(content)
    import msgspec

    return decode(msgspec.json.encode(content).decode())


def _share_sections(content: dict[str, Any]) -> None:
    """Copy the settings of the flags named after iptables to the section of nftables, whose settings have no flags."""
    iptables = content.get("iptables", {})
    content["nftables"] = {name: value for name, value in iptables.items() if name != "localhostNodePorts"}
    if content.get("mode") == IPVS and "ipvs" not in content:
        content["ipvs"] = {}


def _apply_ports(configuration: KubeProxyConfiguration, options: Mapping[str, Any]) -> None:
    """Apply the deprecated port flags of the health and metrics servers. A port of 0 or an empty address disables a
    server."""
    source = click.get_current_context().get_parameter_source
    for name, port_option in (("healthzBindAddress", "healthz_port"), ("metricsBindAddress", "metrics_port")):
        is_empty = options[_option_of(name)] == ""
        port = parsers.port(f"--{port_option.replace('_', '-')}", options[port_option])
        if port == 0 or is_empty:
            setattr(configuration, name, "")
        elif source(port_option) is not click.core.ParameterSource.DEFAULT and not options[_option_of(name)]:
            host = getattr(configuration, name).rpartition(":")[0]
            setattr(configuration, name, with_port(host, port))


def _option_of(field: str) -> str:
    return next(flag.option_name for flag in _FIELD_FLAGS if flag.config_field == field)


def _host_name(options: Mapping[str, Any]) -> str:
    override: str = options["hostname_override"]
    if override and not override.strip():
        raise CliError("--hostname-override: empty hostname-override is invalid")
    return override.strip().lower()
