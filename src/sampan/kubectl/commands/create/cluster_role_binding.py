"""`kubectl create clusterrolebinding`: binds users, groups and service accounts to a ClusterRole."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from sampan.kubectl.command_line.flags import string_flag
from sampan.kubectl.commands.create.binding import BindingSubjectOptions, binding, subject_flags
from sampan.kubectl.commands.create.generator import (
    CreationOptions,
    NameOptions,
    creation_flags,
    generator_command,
    pure,
)


@dataclass(frozen=True, slots=True, kw_only=True)
class CreateClusterRoleBindingOptions(NameOptions):
    clusterrole: str = string_flag(
        "--clusterrole", required=True, metavar="NAME", help="ClusterRole that the subjects get."
    )
    subjects: BindingSubjectOptions = subject_flags()
    creation: CreationOptions = creation_flags()


def cluster_role_binding(name: str, options: CreateClusterRoleBindingOptions) -> dict[str, Any]:
    return binding(
        "ClusterRoleBinding", name, "", role_kind="ClusterRole", role=options.clusterrole, options=options.subjects
    )


command = generator_command(
    "clusterrolebinding",
    CreateClusterRoleBindingOptions,
    pure(lambda name, _namespace, options: cluster_role_binding(name, options)),
    help="Bind subjects to a cluster role in the whole cluster.",
    failure="failed to create clusterrolebinding:",
)
