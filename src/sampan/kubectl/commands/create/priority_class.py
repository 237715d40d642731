"""`kubectl create priorityclass`: a PriorityClass."""

from __future__ import annotations

from typing import Any

import click

from sampan.kubectl.commands.create.generator import generator_command, metadata


def priority_class(
    name: str,
    *,
    value: int = 0,
    global_default: bool = False,
    description: str = "",
    preemption_policy: str = "PreemptLowerPriority",
) -> dict[str, Any]:
    fields: dict[str, Any] = {
        "kind": "PriorityClass",
        "apiVersion": "scheduling.k8s.io/v1",
        "metadata": metadata(name),
        "value": value,
    }
    if global_default:
        fields["globalDefault"] = True
    if description:
        fields["description"] = description
    return fields | {"preemptionPolicy": preemption_policy}


command = generator_command(
    "priorityclass",
    click.option("--value", type=click.INT, default=0, help="Priority of the pods of this class."),
    click.option("--global-default", is_flag=True, help="Use this class for pods without a priority class."),
    click.option("--description", default="", help="When this class should be used."),
    click.option(
        "--preemption-policy",
        default="PreemptLowerPriority",
        metavar="POLICY",
        help="PreemptLowerPriority, or Never if its pods must not preempt others.",
    ),
    help="Create a priority class.",
    failure="failed to create priorityclass:",
    aliases=("pc",),
)(lambda name, _namespace, **flags: priority_class(name, **flags))
