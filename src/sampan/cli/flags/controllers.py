"""The flags of kube-controller-manager for controllers, and their conversion to a ControllerConfig."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from sampan.cli.flags import certificate_signing, parsers
from sampan.cli.flags.feature_gates import STORAGE_VERSION_MIGRATOR, feature_gates
from sampan.cli.flags.table import Flag, add_flags, config_fields
from sampan.controllers.descriptor import ControllerConfig

_FLAGS = (
    Flag(
        name="--feature-gates",
        help=f"Feature gates to enable or disable: {STORAGE_VERSION_MIGRATOR}=true runs the controller of "
        "StorageVersionMigrations. Most can only have their default.",
        default="",
        metavar="K=V,…",
    ),
    Flag(
        name="--root-ca-file",
        help="CA certificate that is published to pods so that they can verify the API server.",
        metavar="F",
        target="root_ca",
        parse=parsers.file_text,
    ),
    *certificate_signing.FLAGS,
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
    gates = feature_gates(options["feature_gates"])
    return ControllerConfig(
        **config_fields(_FLAGS, options),
        **certificate_signing.signing(options),
        serves_storage_migration=gates.get(STORAGE_VERSION_MIGRATOR, False),
    )
