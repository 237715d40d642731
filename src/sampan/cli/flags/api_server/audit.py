"""The flags of kube-apiserver and `sampan up` for auditing."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import click

from sampan.apiserver.config.server_config import AuditConfig
from sampan.cli.flags import parsers
from sampan.cli.flags.flag_table import Flag
from sampan.machinery.cli_errors import CliError

if TYPE_CHECKING:
    from sampan.apiserver.audit.webhook import AuditWebhookConfig

_BATCH = "batch"
FLAGS = (
    Flag(
        name="--audit-policy-file",
        help="Audit policy file: which requests are recorded in the audit log, and at which level.",
        metavar="F",
    ),
    Flag(
        name="--audit-log-path",
        help="File of the audit log; - is standard output. Needs --audit-policy-file.",
        metavar="F",
    ),
    Flag(
        name="--audit-log-maxsize", help="Size in megabytes at which the audit log is rotated.", default=100, type=int
    ),
    Flag(name="--audit-log-maxbackup", help="Number of rotated audit logs to keep; 0 keeps all.", default=0, type=int),
    Flag(
        name="--audit-log-maxage",
        help="Number of days to keep rotated audit logs; 0 keeps them forever.",
        default=0,
        type=int,
    ),
    Flag(
        name="--audit-webhook-config-file",
        help="Kubeconfig file of the webhook that audit events are sent to. Needs --audit-policy-file.",
        metavar="F",
    ),
    Flag(
        name="--audit-webhook-mode",
        help="How events are sent to the audit webhook: in batches, in the background.",
        default=_BATCH,
        type=click.Choice([_BATCH]),
    ),
    Flag(
        name="--audit-webhook-batch-buffer-size",
        help="Number of events that may wait for the audit webhook; further ones are dropped and counted.",
        default=10_000,
        type=click.IntRange(1),
        metavar="N",
    ),
    Flag(
        name="--audit-webhook-batch-max-size",
        help="Largest number of events in a batch for the audit webhook.",
        default=400,
        type=click.IntRange(1),
        metavar="N",
    ),
    Flag(
        name="--audit-webhook-batch-max-wait",
        help="How long an event waits until its batch is sent to the audit webhook although it is not full.",
        default="30s",
        metavar="T",
    ),
    Flag(
        name="--audit-webhook-batch-throttle-enable",
        help="Limit the rate of batches for the audit webhook.",
        default=True,
        is_switch=True,
    ),
    Flag(
        name="--audit-webhook-batch-throttle-qps",
        help="Largest average number of batches per second for the audit webhook.",
        default=10.0,
        type=click.FloatRange(0, min_open=True),
        metavar="N",
    ),
    Flag(
        name="--audit-webhook-batch-throttle-burst",
        help="Number of batches that may be sent to the audit webhook at once if none was sent for a while.",
        default=15,
        type=click.IntRange(1),
        metavar="N",
    ),
    Flag(
        name="--audit-webhook-initial-backoff",
        help="How long to wait before a batch that the audit webhook did not accept is sent again.",
        default="10s",
        metavar="T",
    ),
)


def audit_config(options: Mapping[str, Any]) -> AuditConfig | None:
    """Return the audit configuration. As in Kubernetes there is none without a policy, or without a log file and a
    webhook to send events to."""
    policy = parsers.audit_policy("--audit-policy-file", options["audit_policy_file"])
    for flag in ("maxsize", "maxbackup", "maxage"):
        if options[f"audit_log_{flag}"] < 0:
            raise CliError(f"--audit-log-{flag}: cannot be negative")
    path = options["audit_log_path"]
    if path:
        parsers.check_writable("--audit-log-path", path)
    webhook = _webhook(options)
    if policy is None or not (path or webhook):
        return None
    return AuditConfig(
        policy=policy,
        path=path or "",
        max_size_mb=options["audit_log_maxsize"] or 100,
        max_backups=options["audit_log_maxbackup"],
        max_age_days=options["audit_log_maxage"],
        webhook=webhook,
    )


def _webhook(options: Mapping[str, Any]) -> AuditWebhookConfig | None:
    flag, path = "--audit-webhook-config-file", options["audit_webhook_config_file"]
    if not path:
        return None
    from sampan.apiserver.audit.webhook import AuditWebhookConfig

    prefix = "audit_webhook_batch"
    wait_s = parsers.positive_s("--audit-webhook-batch-max-wait", options[f"{prefix}_max_wait"])
    backoff_s = parsers.positive_s("--audit-webhook-initial-backoff", options["audit_webhook_initial_backoff"])
    is_throttled = options[f"{prefix}_throttle_enable"]
    return AuditWebhookConfig(
        access=parsers.access(flag, path),
        initial_backoff_s=backoff_s,
        max_entries=options[f"{prefix}_buffer_size"],
        max_batch=options[f"{prefix}_max_size"],
        max_wait_s=wait_s,
        batches_per_s=options[f"{prefix}_throttle_qps"] if is_throttled else None,
        burst=options[f"{prefix}_throttle_burst"],
    )
