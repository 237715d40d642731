"""The flags of kube-apiserver and `sampan up` for the API server, and their conversion to a ServerConfig."""

from __future__ import annotations

import ipaddress
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from sampan.api.feature_gates import LEVEL, FeatureGates
from sampan.api.resources import runtime_config
from sampan.api.resources.runtime_config import ForwardCompatibility
from sampan.apiserver.admission.default_toleration_seconds import TolerationDefaults
from sampan.apiserver.admission.framework.admission_configuration import (
    ConfigurationError,
    Configurations,
    read_configurations,
)
from sampan.apiserver.admission.plugins import UnknownAdmissionPlugin, check_names, default_plugins
from sampan.apiserver.authz.modes import ABAC
from sampan.apiserver.classic.abac import AbacPolicy, AbacPolicyError, read_policies
from sampan.apiserver.config.server_config import ServerConfig, TlsFiles
from sampan.apiserver.proxy.kubelets import ADDRESS_TYPES, KubeletAccess
from sampan.apiserver.server_address import find_default_route_address
from sampan.cli.flags import parsers, server_tls, store
from sampan.cli.flags.api_server import audit, identity, service_accounts
from sampan.cli.flags.feature_gates import GATES_FLAG, VERSION_FLAGS, effective_gates
from sampan.cli.flags.flag_table import Flag, add_flags, config_fields
from sampan.machinery.cli_errors import CliError

BIND_ALL_ADDRESSES = Flag(
    name="--bind-address",
    help="The address on which the secure port listens; 0.0.0.0 or :: for all.",
    default="0.0.0.0",
    metavar="A",
)
BIND_LOOPBACK = Flag(
    name="--bind-address",
    help="The address on which the secure port and the kubelets listen; 0.0.0.0 or :: for all, so that other "
    "machines can join.  [loopback, with real nodes also the node's address]",
    default="",
    metavar="A",
)
_FLAGS = (
    Flag(
        name="--secure-port",
        help="Port that serves HTTPS with authentication and authorization; 0 disables it.",
        default=6443,
        type=int,
        target="secure_port",
        parse=parsers.port,
    ),
    Flag(
        name="--insecure-port",
        help="Port that serves plain HTTP without authentication or authorization; 0 disables it.",
        default=0,
        type=int,
        target="insecure_port",
        parse=parsers.port,
    ),
    Flag(
        name="--insecure-bind-address",
        help="IP address on which the plain HTTP port listens.",
        default="127.0.0.1",
        metavar="A",
        target="insecure_bind_address",
        parse=parsers.address,
    ),
    Flag(
        name="--advertise-address",
        help="IP address at which the rest of the cluster reaches the API server. Default: an address of this machine.",
        default="",
        metavar="A",
    ),
    Flag(
        name="--token-auth-file",
        help='CSV file with static bearer tokens: token,user,uid,"group1,group2".',
        metavar="F",
        target="tokens",
        parse=parsers.tokens,
    ),
    Flag(
        name="--basic-auth-file",
        help='CSV file with passwords for HTTP basic authentication: password,user,uid,"group1,group2".',
        metavar="F",
        target="basic_users",
        parse=parsers.users,
    ),
    Flag(
        name="--enable-bootstrap-token-auth",
        help="Accept bootstrap tokens (Secrets of type bootstrap.kubernetes.io/token in kube-system), with which "
        "nodes join. Default: true in `sampan up`, otherwise false.",
        is_switch=True,
        target="has_bootstrap_tokens",
        parse=lambda flag, value: bool(value),
    ),
    Flag(
        name="--anonymous-auth",
        help="Accept requests without credentials as the user system:anonymous. Default: true.",
        default=None,
        is_switch=True,
    ),
    Flag(
        name="--authorization-policy-file",
        help="ABAC policy file, one JSON policy per line; needs ABAC in --authorization-mode.",
        metavar="F",
    ),
    *service_accounts.FLAGS,
    Flag(
        name="--authorization-mode",
        help="Authorizers in the order in which they are consulted: Node, RBAC, ABAC, Webhook, AlwaysAllow, "
        "AlwaysDeny. Default: Node,RBAC.",
        default="",
        metavar="LIST",
    ),
    Flag(
        name="--kubelet-client-certificate",
        help="Client certificate with which the API server authenticates to kubelets.",
        metavar="F",
    ),
    Flag(name="--kubelet-client-key", help="Private key that belongs to --kubelet-client-certificate.", metavar="F"),
    Flag(
        name="--kubelet-certificate-authority",
        help="CA certificates that verify the serving certificates of kubelets. Default: they are not verified.",
        metavar="F",
    ),
    Flag(
        name="--kubelet-preferred-address-types",
        help="Node address types in the order in which they are tried to reach a kubelet.",
        default="",
        metavar="LIST",
    ),
    Flag(
        name="--enable-priority-and-fairness",
        help="Queue requests by the FlowSchemas and PriorityLevelConfigurations of API Priority and Fairness.",
        default=True,
        is_switch=True,
        target="has_fairness",
    ),
    Flag(
        name="--dashboard",
        help="Serve the dashboard under /ui/ of the secure port. Its pages need a log-in.",
        default=True,
        is_switch=True,
        target="has_dashboard",
    ),
    *server_tls.FLAGS,
    Flag(
        name="--proxy-client-cert-file",
        help="Client certificate of the API server for aggregated API servers and webhooks.",
        metavar="F",
    ),
    Flag(name="--proxy-client-key-file", help="Private key that belongs to --proxy-client-cert-file.", metavar="F"),
    Flag(name="--kubelet-timeout", help="Timeout of requests to kubelets.", default="5s", metavar="T"),
    *store.FLAGS,
    Flag(
        name="--service-cluster-ip-range",
        help="CIDR range for cluster IPs of services; two for dual stack.",
        default="10.96.0.0/16",
        metavar="CIDR",
        target="service_cluster_ip_range",
        parse=parsers.network,
    ),
    Flag(
        name="--service-node-port-range",
        help="Port range for services of type NodePort.",
        default="30000-32767",
        metavar="A-B",
        target="service_node_port_range",
        parse=parsers.port_range,
    ),
    Flag(
        name="--runtime-config",
        help="API groups and versions to enable or disable, for example batch/v1=true,api/beta=false.",
        default="",
        metavar="K=V,…",
    ),
    GATES_FLAG,
    *audit.FLAGS,
    Flag(
        name="--enable-admission-plugins",
        help="Admission plugins to enable in addition to the default ones, comma-separated.",
        default="",
        metavar="LIST",
    ),
    Flag(
        name="--disable-admission-plugins",
        help="Admission plugins to disable although they are on by default, comma-separated.",
        default="",
        metavar="LIST",
    ),
    Flag(
        name="--admission-control-config-file",
        help="AdmissionConfiguration file with the configuration of admission plugins.",
        metavar="F",
    ),
    Flag(
        name="--default-not-ready-toleration-seconds",
        help="Seconds that a pod without a toleration of its own stays on a node that is not ready.",
        default=TolerationDefaults().not_ready_s,
        type=parsers.Int64(),
        metavar="N",
    ),
    Flag(
        name="--default-unreachable-toleration-seconds",
        help="Seconds that a pod without a toleration of its own stays on a node that is unreachable.",
        default=TolerationDefaults().unreachable_s,
        type=parsers.Int64(),
        metavar="N",
    ),
    Flag(
        name="--event-ttl",
        help="How long Events are kept.",
        default="1h0m0s",
        metavar="T",
        target="event_ttl_s",
        parse=parsers.duration_s,
    ),
    Flag(
        name="--max-requests-inflight",
        help="Largest number of read-only requests that are served at the same time.",
        default=400,
        type=int,
        target="max_in_flight",
        parse=parsers.check_not_negative,
    ),
    Flag(
        name="--max-mutating-requests-inflight",
        help="Largest number of mutating requests that are served at the same time.",
        default=200,
        type=int,
        target="max_mutating_in_flight",
        parse=parsers.check_not_negative,
    ),
    *identity.FLAGS,
    Flag(
        name="--v",
        short="-v",
        parameter="verbosity",
        help="Log verbosity: 0 logs warnings and errors, 2 also normal operation, 4 everything.",
        default=0,
        type=int,
    ),
)


EMULATION_FLAGS = (
    *VERSION_FLAGS,
    Flag(
        name="--emulation-forward-compatible",
        help="Serve newer stable and beta versions of the API versions that are enabled, although the emulated version "
        "did not have them. Needs an emulated version.",
        default=False,
        is_switch=True,
    ),
    Flag(
        name="--runtime-config-emulation-forward-compatible",
        help="Serve API versions that --runtime-config enables explicitly, although the emulated version did not have "
        "them. Needs an emulated version.",
        default=False,
        is_switch=True,
    ),
)
"""The flags of kube-apiserver for older levels; `sampan up` has --kubernetes-version."""


def server_options(bind: Flag) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Return a decorator that adds the flags. `bind` is --bind-address, which differs between kube-apiserver and
    `sampan up`."""
    return add_flags((_FLAGS[0], bind, *_FLAGS[1:]))


def server_config(options: Mapping[str, Any], *, tls: TlsFiles | None, addresses: Sequence[str] = ()) -> ServerConfig:
    """Return the configuration. `addresses` are those of the secure port; the default is --bind-address."""
    bound, *others = addresses or [parsers.address("--bind-address", options["bind_address"] or "127.0.0.1")]
    if not (options["secure_port"] or options["insecure_port"]):
        raise CliError("--secure-port: 0 needs an --insecure-port, because the server would have no port to listen on")
    enabled = _plugins("--enable-admission-plugins", options["enable_admission_plugins"])
    disabled = _plugins("--disable-admission-plugins", options["disable_admission_plugins"])
    gates, forward = effective_gates(options), _forward_compatibility(options)
    return ServerConfig(
        **config_fields(_FLAGS, options),
        kubelets=_kubelets(options),
        proxy_client=_proxy_client(options),
        bind_address=bound,
        other_bind_addresses=others,
        advertise_address=resolve_advertise_address(options),
        feature_gates=gates,
        tls=replace(tls, settings=server_tls.tls_settings(options)) if tls is not None else None,
        **identity.authentication(options),
        abac_policies=_policies(options),
        **identity.authorization(options),
        **service_accounts.service_accounts(options),
        runtime_config=_runtime_config(options["runtime_config"], gates, forward),
        forward_compatibility=forward,
        audit=audit.audit_config(options),
        **store.encryption(options),
        enabled_admission_plugins=enabled,
        disabled_admission_plugins=disabled,
        admission_configurations=_configurations(options["admission_control_config_file"], enabled, disabled, gates),
        tolerations=TolerationDefaults(
            not_ready_s=options["default_not_ready_toleration_seconds"],
            unreachable_s=options["default_unreachable_toleration_seconds"],
        ),
    )


def _plugins(flag: str, text: str) -> tuple[str, ...]:
    names = tuple(name.strip() for name in text.split(",") if name.strip())
    try:
        check_names(names)
    except UnknownAdmissionPlugin as error:
        raise CliError(f"{flag}: {error}") from None
    return names


def _configurations(
    path: str | None, enabled: Sequence[str], disabled: Sequence[str], gates: FeatureGates
) -> Configurations:
    """Read the plugin configurations and instantiate the plugins once, so that errors are reported before anything
    starts."""
    flag = "--admission-control-config-file"
    try:
        configurations = read_configurations(Path(path)) if path else {}
        default_plugins(disabled, enabled, configurations, feature_gates=gates)
    except (ConfigurationError, UnknownAdmissionPlugin) as error:
        raise CliError(f"{flag}: {error}") from None
    return configurations


def resolve_advertise_address(options: Mapping[str, Any]) -> str:
    if options["advertise_address"]:
        return parsers.address("--advertise-address", options["advertise_address"])
    bound = ipaddress.ip_address(parsers.address("--bind-address", options["bind_address"] or "0.0.0.0"))
    return find_default_route_address() if bound.is_unspecified or bound.is_loopback else str(bound)


def _proxy_client(options: Mapping[str, Any]) -> tuple[Path, Path] | None:
    names = ("proxy_client_cert_file", "proxy_client_key_file")
    return parsers.key_pair("--proxy-client-cert-file", options[names[0]], "--proxy-client-key-file", options[names[1]])


def _kubelets(options: Mapping[str, Any]) -> KubeletAccess | None:
    names = ("kubelet_client_certificate", "kubelet_client_key")
    pair = parsers.key_pair(
        "--kubelet-client-certificate", options[names[0]], "--kubelet-client-key", options[names[1]]
    )
    certificate, key = pair or (None, None)
    ca = parsers.authority("--kubelet-certificate-authority", options["kubelet_certificate_authority"])
    types = options["kubelet_preferred_address_types"]
    if not (certificate or ca or types):
        return None
    return KubeletAccess(
        certificate=certificate,
        key=key,
        ca=ca,
        address_types=[type_name.strip() for type_name in types.split(",")] if types else ADDRESS_TYPES,
        timeout_s=parsers.duration_s("--kubelet-timeout", options["kubelet_timeout"]),
    )


def _policies(options: Mapping[str, Any]) -> Sequence[AbacPolicy]:
    flag, path = "--authorization-policy-file", options["authorization_policy_file"]
    is_wanted = ABAC in identity.authorization_names(options)
    if is_wanted and not path:
        raise CliError(f"{flag}: required by authorization mode {ABAC}")
    if path and not is_wanted:
        raise CliError(f"{flag}: used only by authorization mode {ABAC}")
    try:
        return read_policies(Path(path)) if path else ()
    except OSError as error:
        raise CliError(f"{flag}: cannot read {path}: {error.strerror}") from None
    except AbacPolicyError as error:
        raise CliError(f"{flag}: {error}") from None


def _forward_compatibility(options: Mapping[str, Any]) -> ForwardCompatibility:
    return ForwardCompatibility(
        versions=options.get("emulation_forward_compatible", False),
        runtime_config=options.get("runtime_config_emulation_forward_compatible", False),
    )


def _runtime_config(text: str, gates: FeatureGates, forward: ForwardCompatibility) -> dict[str, bool]:
    for name, is_set in (
        ("EmulationForwardCompatible", forward.versions),
        ("RuntimeConfigEmulationForwardCompatible", forward.runtime_config),
    ):
        if is_set and gates.level == LEVEL:
            raise CliError(
                f"ServerRunOptions.{name} cannot be set to true if the emulation version is the same as the binary "
                "version"
            )
    try:
        config = runtime_config.parse(text)
        runtime_config.select_versions(config, gates, forward)
    except runtime_config.RuntimeConfigError as error:
        raise CliError(f"--runtime-config: {error}") from None
    return config
