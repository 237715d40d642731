"""The flags of kube-controller-manager for controllers, and their conversion to a ControllerConfig."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from sampan.cli.flags import parsers
from sampan.cli.flags.feature_gates import GATES_FLAG, STORAGE_VERSION_MIGRATOR, VERSION_FLAGS, effective_gates
from sampan.cli.flags.flag_table import Flag, add_flags, config_fields
from sampan.controllers.descriptor import ControllerConfig
from sampan.machinery.cli_errors import CliError

_SIGNERS = {
    "kube-apiserver-client": "kubernetes.io/kube-apiserver-client",
    "kubelet-client": "kubernetes.io/kube-apiserver-client-kubelet",
    "kubelet-serving": "kubernetes.io/kubelet-serving",
    "legacy-unknown": "kubernetes.io/legacy-unknown",
}
SIGNING_FLAGS = (
    Flag(
        name="--cluster-signing-cert-file",
        help="CA certificate that signs approved CertificateSigningRequests.",
        metavar="F",
    ),
    Flag(
        name="--cluster-signing-key-file", help="Private key that belongs to --cluster-signing-cert-file.", metavar="F"
    ),
    Flag(
        name="--cluster-signing-duration",
        help="Longest validity of a certificate issued for a CertificateSigningRequest.",
        default="8760h0m0s",
        metavar="T",
    ),
    *(
        Flag(
            name=f"--cluster-signing-{signer}-{part}-file",
            help=f"{what} that signs requests for the signer {signer}, instead of the cluster-wide one.",
            metavar="F",
        )
        for signer in _SIGNERS
        for part, what in (("cert", "CA certificate"), ("key", "Private key of the CA"))
    ),
)


def parse_signing_flags(options: Mapping[str, Any]) -> dict[str, Any]:
    """Return the fields of ControllerConfig for signing."""
    start = "--cluster-signing"
    certificate, key = _pair(options, start)
    own = {name: pair for short, name in _SIGNERS.items() if all(pair := _pair(options, f"{start}-{short}"))}
    if own and certificate:
        raise CliError(f"{start}-cert-file: cannot be given together with a CA for a single signer")
    return {
        "cluster_signing_cert_file": certificate,
        "cluster_signing_key_file": key,
        "cluster_signing_files": own,
        "cluster_signing_duration_s": parsers.positive_s(
            "--cluster-signing-duration", options["cluster_signing_duration"]
        ),
    }


def _pair(options: Mapping[str, Any], start: str) -> tuple[str, str]:
    flag_names = (f"{start}-cert-file", f"{start}-key-file")
    files = [parsers.file(flag, options[flag.lstrip("-").replace("-", "_")]) for flag in flag_names]
    certificate, key = (str(file) if file is not None else "" for file in files)
    if bool(certificate) != bool(key):
        raise CliError(f"{' and '.join(flag_names)}: give both or neither")
    return certificate, key


_FLAGS = (
    GATES_FLAG,
    *VERSION_FLAGS,
    Flag(
        name="--root-ca-file",
        help="CA certificate that is published to pods so that they can verify the API server.",
        metavar="F",
        target="root_ca",
        parse=parsers.file_text,
    ),
    *SIGNING_FLAGS,
    Flag(
        name="--service-account-private-key-file",
        help="Private key that signs service account tokens stored in Secrets.",
        metavar="F",
        target="service_account_private_key_file",
        parse=parsers.file_name,
    ),
    Flag(
        name="--legacy-service-account-token-clean-up-period",
        help="How long a service account token stored in a Secret may stay unused before it is removed.",
        default="8760h0m0s",
        metavar="T",
        target="legacy_token_clean_up_period_s",
        parse=parsers.positive_s,
    ),
    Flag(
        name="--enable-hostpath-provisioner",
        help="Provision volumes of classes with the provisioner kubernetes.io/host-path as directories of this machine "
        "in /tmp/hostpath_pv; for tests on one node.",
        default=False,
        is_switch=True,
        target="enable_hostpath_provisioner",
    ),
    Flag(
        name="--horizontal-pod-autoscaler-sync-period",
        help="How often each HorizontalPodAutoscaler is evaluated.",
        default="15s",
        metavar="T",
        target="horizontal_pod_autoscaler_sync_period_s",
        parse=parsers.positive_s,
    ),
    Flag(
        name="--horizontal-pod-autoscaler-downscale-stabilization",
        help="How long a HorizontalPodAutoscaler keeps the highest recent recommendation before it scales down.",
        default="5m0s",
        metavar="T",
        target="horizontal_pod_autoscaler_downscale_stabilization_s",
        parse=parsers.positive_s,
    ),
    Flag(
        name="--horizontal-pod-autoscaler-tolerance",
        help="Smallest relative difference between a metric and its target that makes a HorizontalPodAutoscaler scale.",
        default=0.1,
        type=float,
        metavar="N",
        target="horizontal_pod_autoscaler_tolerance",
    ),
    Flag(
        name="--horizontal-pod-autoscaler-cpu-initialization-period",
        help="Time after the start of a pod during which its CPU usage counts only if the pod was ready for the "
        "whole sample.",
        default="5m0s",
        metavar="T",
        target="horizontal_pod_autoscaler_cpu_initialization_period_s",
        parse=parsers.positive_s,
    ),
    Flag(
        name="--horizontal-pod-autoscaler-initial-readiness-delay",
        help="Time after the start of a pod during which changes of its readiness count as initial readiness.",
        default="30s",
        metavar="T",
        target="horizontal_pod_autoscaler_initial_readiness_delay_s",
        parse=parsers.positive_s,
    ),
)

controller_options = add_flags(_FLAGS)


def controller_config(options: Mapping[str, Any]) -> ControllerConfig:
    gates = effective_gates(options)
    return ControllerConfig(
        **config_fields(_FLAGS, options),
        **parse_signing_flags(options),
        feature_gates=gates,
        serves_storage_migration=gates.is_enabled(STORAGE_VERSION_MIGRATOR),
    )
