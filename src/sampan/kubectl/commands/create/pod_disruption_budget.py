"""`kubectl create poddisruptionbudget`: a PodDisruptionBudget for the pods of a selector."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Any

from sampan.api.values import int_or_string
from sampan.kubectl.command_line.flags import string_flag
from sampan.kubectl.commands.create.generator import (
    CreationOptions,
    NameOptions,
    creation_flags,
    generator_command,
    label_selector,
    metadata,
    pure,
)
from sampan.machinery.cli_errors import CliError

_is_count = re.compile("[0-9]+%?").fullmatch


@dataclass(frozen=True, slots=True, kw_only=True)
class CreatePodDisruptionBudgetOptions(NameOptions):
    min_available: str = string_flag("--min-available", metavar="N|N%", help="How many pods must stay available.")
    max_unavailable: str = string_flag("--max-unavailable", metavar="N|N%", help="How many pods may be unavailable.")
    selector: str = string_flag("--selector", help="Label selector of the pods.")
    creation: CreationOptions = creation_flags()


def pod_disruption_budget(name: str, namespace: str, options: CreatePodDisruptionBudgetOptions) -> dict[str, Any]:
    selector, min_available, max_unavailable = options.selector, options.min_available, options.max_unavailable
    if not selector:
        raise CliError("a selector must be specified")
    if not (min_available or max_unavailable):
        raise CliError("one of min-available or max-unavailable must be specified")
    if min_available and max_unavailable:
        raise CliError("min-available and max-unavailable cannot be both specified")
    for flag, text in (("min-available", min_available), ("max-unavailable", max_unavailable)):
        if text and not _is_count(text):
            raise CliError(f"invalid format specified for {flag}")
    spec: dict[str, Any] = {}
    if min_available:
        spec["minAvailable"] = int_or_string.parse(min_available)
    spec["selector"] = label_selector(selector)
    if max_unavailable:
        spec["maxUnavailable"] = int_or_string.parse(max_unavailable)
    counts = ("disruptionsAllowed", "currentHealthy", "desiredHealthy", "expectedPods")
    return {
        "kind": "PodDisruptionBudget",
        "apiVersion": "policy/v1",
        "metadata": metadata(name, namespace),
        "spec": spec,
        "status": dict.fromkeys(counts, 0),
    }


command = generator_command(
    "poddisruptionbudget",
    CreatePodDisruptionBudgetOptions,
    pure(pod_disruption_budget),
    help="Create a pod disruption budget.",
    failure="failed to create poddisruptionbudgets:",
    aliases=("pdb",),
)
