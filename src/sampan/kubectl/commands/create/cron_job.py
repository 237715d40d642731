"""`kubectl create cronjob`: a CronJob that runs an image on a schedule."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import click

from sampan.kubectl.commands.create.generator import container, generator_command, metadata


def cron_job(
    name: str,
    namespace: str = "",
    *,
    image: str,
    schedule: str,
    command: Sequence[str] = (),
    restart: str = "",
) -> dict[str, Any]:
    pod_spec = {"containers": [container(name, image, command)], "restartPolicy": restart or "OnFailure"}
    job_template = {"metadata": {"name": name}, "spec": {"template": {"metadata": {}, "spec": pod_spec}}}
    return {
        "kind": "CronJob",
        "apiVersion": "batch/v1",
        "metadata": metadata(name, namespace),
        "spec": {"schedule": schedule, "jobTemplate": job_template},
        "status": {},
    }


command = generator_command(
    "cronjob",
    click.option("--image", default="", required=True, help="Image that the job runs."),
    click.option("--schedule", default="", required=True, metavar="CRON", help="Schedule in cron format."),
    click.option("--restart", default="", metavar="POLICY", help="Restart policy: OnFailure (the default) or Never."),
    help="Create a cron job.",
    failure="failed to create cronjob:",
    aliases=("cj",),
    takes_command=True,
)(cron_job)
