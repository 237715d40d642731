"""The flags of kube-controller-manager for controllers, and their conversion to a ControllerConfig."""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import click

from sampan.cli import csr_flags, flags
from sampan.cli.failures import CliError
from sampan.controllers.descriptor import ControllerConfig

_OPTIONS: tuple[tuple[tuple[str, ...], dict[str, Any]], ...] = (
    (
        ("--root-ca-file",),
        {"metavar": "F", "help": "CA certificate that is published to pods so that they can verify the API server."},
    ),
    *csr_flags.OPTIONS,
    (
        ("--service-account-private-key-file",),
        {"metavar": "F", "help": "Private key that signs service account tokens stored in Secrets."},
    ),
    (
        ("--legacy-service-account-token-clean-up-period",),
        {
            "default": "8760h0m0s",
            "metavar": "T",
            "help": "How long a service account token stored in a Secret may stay unused before it is removed.",
        },
    ),
    (
        ("--horizontal-pod-autoscaler-sync-period",),
        {"default": "15s", "metavar": "T", "help": "How often each HorizontalPodAutoscaler is evaluated."},
    ),
    (
        ("--horizontal-pod-autoscaler-downscale-stabilization",),
        {
            "default": "5m0s",
            "metavar": "T",
            "help": "How long a HorizontalPodAutoscaler keeps the highest recent recommendation before it scales down.",
        },
    ),
    (
        ("--horizontal-pod-autoscaler-tolerance",),
        {
            "default": 0.1,
            "type": float,
            "metavar": "N",
            "help": (
                "Smallest relative difference between a metric and its target that makes a HorizontalPodAutoscaler "
                "scale."
            ),
        },
    ),
    (
        ("--horizontal-pod-autoscaler-cpu-initialization-period",),
        {
            "default": "5m0s",
            "metavar": "T",
            "help": (
                "Time after the start of a pod during which its CPU usage counts only if the pod was ready for the "
                "whole sample."
            ),
        },
    ),
    (
        ("--horizontal-pod-autoscaler-initial-readiness-delay",),
        {
            "default": "30s",
            "metavar": "T",
            "help": "Time after the start of a pod during which changes of its readiness count as initial readiness.",
        },
    ),
)

_HPA = "horizontal_pod_autoscaler"


def controller_options(command: Callable[..., Any]) -> Callable[..., Any]:
    decorators = [
        click.option(*names, show_default=kwargs.get("default") != "", **kwargs) for names, kwargs in _OPTIONS
    ]
    return functools.reduce(lambda wrapped, option: option(wrapped), reversed(decorators), command)


def controller_config(options: Mapping[str, Any]) -> ControllerConfig:
    return ControllerConfig(
        root_ca=_text("--root-ca-file", options["root_ca_file"]),
        **csr_flags.signing(options),
        service_account_private_key_file=_path(options, "service_account_private_key_file"),
        legacy_token_clean_up_period_s=_positive_s(options, "legacy_service_account_token_clean_up_period"),
        horizontal_pod_autoscaler_sync_period_s=_positive_s(options, f"{_HPA}_sync_period"),
        horizontal_pod_autoscaler_downscale_stabilization_s=_positive_s(options, f"{_HPA}_downscale_stabilization"),
        horizontal_pod_autoscaler_tolerance=options[f"{_HPA}_tolerance"],
        horizontal_pod_autoscaler_cpu_initialization_period_s=_positive_s(options, f"{_HPA}_cpu_initialization_period"),
        horizontal_pod_autoscaler_initial_readiness_delay_s=_positive_s(options, f"{_HPA}_initial_readiness_delay"),
    )


def _path(options: Mapping[str, Any], name: str) -> str:
    path = flags.file(f"--{name.replace('_', '-')}", options[name])
    return str(path) if path is not None else ""


def _positive_s(options: Mapping[str, Any], name: str) -> float:
    flag = f"--{name.replace('_', '-')}"
    seconds = flags.duration_s(flag, options[name])
    if seconds <= 0:
        raise CliError(f"{flag}: must be longer than nothing")
    return seconds


def _text(flag: str, path: str | None) -> str:
    file: Path | None = flags.file(flag, path)
    if file is None:
        return ""
    try:
        return file.read_text()
    except (OSError, UnicodeDecodeError) as error:
        raise CliError(f"{flag}: cannot read {path}: {error}") from None
