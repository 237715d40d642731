"""`kubectl create rolebinding`: binds users, groups and service accounts to a Role or ClusterRole in a namespace."""

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
from sampan.machinery.cli_errors import CliError


@dataclass(frozen=True, slots=True, kw_only=True)
class CreateRoleBindingOptions(NameOptions):
    clusterrole: str = string_flag("--clusterrole", metavar="NAME", help="ClusterRole that the subjects get.")
    role: str = string_flag("--role", metavar="NAME", help="Role that the subjects get.")
    subjects: BindingSubjectOptions = subject_flags()
    creation: CreationOptions = creation_flags()


def role_binding(name: str, namespace: str, options: CreateRoleBindingOptions) -> dict[str, Any]:
    role, clusterrole = options.role, options.clusterrole
    if bool(role) == bool(clusterrole):
        raise CliError("exactly one of clusterrole or role must be specified")
    role_kind = "Role" if role else "ClusterRole"
    return binding(
        "RoleBinding", name, namespace, role_kind=role_kind, role=role or clusterrole, options=options.subjects
    )


command = generator_command(
    "rolebinding",
    CreateRoleBindingOptions,
    pure(role_binding),
    help="Bind subjects to a role in a namespace.",
    failure="failed to create rolebinding:",
)
