"""`kubectl create cronjob`: a CronJob that runs an image on a schedule."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from sampan.kubectl.command_line.flags import string_flag
from sampan.kubectl.commands.create.generator import (
    CreationOptions,
    NameOptions,
    container,
    creation_flags,
    generator_command,
    metadata,
    pure,
)


@dataclass(frozen=True, slots=True, kw_only=True)
class CreateCronJobOptions(NameOptions):
    image: str = string_flag("--image", required=True, help="Image that the job runs.")
    schedule: str = string_flag("--schedule", required=True, metavar="CRON", help="Schedule in cron format.")
    restart: str = string_flag("--restart", metavar="POLICY", help="Restart policy: OnFailure (the default) or Never.")
    creation: CreationOptions = creation_flags()


def cron_job(name: str, namespace: str, options: CreateCronJobOptions) -> dict[str, Any]:
    pod_spec = {
        "containers": [container(name, options.image, options.command)],
        "restartPolicy": options.restart or "OnFailure",
    }
    job_template = {"metadata": {"name": name}, "spec": {"template": {"metadata": {}, "spec": pod_spec}}}
    return {
        "kind": "CronJob",
        "apiVersion": "batch/v1",
        "metadata": metadata(name, namespace),
        "spec": {"schedule": options.schedule, "jobTemplate": job_template},
        "status": {},
    }


command = generator_command(
    "cronjob",
    CreateCronJobOptions,
    pure(cron_job),
    help="Create a cron job.",
    failure="failed to create cronjob:",
    aliases=("cj",),
)
