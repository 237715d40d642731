"""`kubectl create priorityclass`: a PriorityClass."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from sampan.kubectl.command_line.flags import bool_flag, int_flag, string_flag
from sampan.kubectl.commands.create.generator import (
    CreationOptions,
    NameOptions,
    creation_flags,
    generator_command,
    metadata,
    pure,
)


@dataclass(frozen=True, slots=True, kw_only=True)
class CreatePriorityClassOptions(NameOptions):
    value: int = int_flag("--value", default=0, help="Priority of the pods of this class.")
    global_default: bool = bool_flag("--global-default", help="Use this class for pods without a priority class.")
    description: str = string_flag("--description", help="When this class should be used.")
    preemption_policy: str = string_flag(
        "--preemption-policy",
        default="PreemptLowerPriority",
        metavar="POLICY",
        help="PreemptLowerPriority, or Never if its pods must not preempt others.",
    )
    creation: CreationOptions = creation_flags()


def priority_class(name: str, options: CreatePriorityClassOptions) -> dict[str, Any]:
    fields: dict[str, Any] = {
        "kind": "PriorityClass",
        "apiVersion": "scheduling.k8s.io/v1",
        "metadata": metadata(name),
        "value": options.value,
    }
    if options.global_default:
        fields["globalDefault"] = True
    if options.description:
        fields["description"] = options.description
    return fields | {"preemptionPolicy": options.preemption_policy}


command = generator_command(
    "priorityclass",
    CreatePriorityClassOptions,
    pure(lambda name, _namespace, options: priority_class(name, options)),
    help="Create a priority class.",
    failure="failed to create priorityclass:",
    aliases=("pc",),
)
