"""`kubectl create rolebinding`: binds users, groups and service accounts to a Role or ClusterRole in a namespace."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import click

from sampan.kubectl.commands.create.binding import binding, subject_options
from sampan.kubectl.commands.create.generator import generator_command
from sampan.machinery.cli_errors import CliError


def role_binding(
    name: str, namespace: str = "", *, role: str = "", clusterrole: str = "", **subjects: Sequence[str]
) -> dict[str, Any]:
    if bool(role) == bool(clusterrole):
        raise CliError("exactly one of clusterrole or role must be specified")
    role_kind = "Role" if role else "ClusterRole"
    return binding("RoleBinding", name, namespace, role_kind=role_kind, role=role or clusterrole, **subjects)


command = generator_command(
    "rolebinding",
    click.option("--clusterrole", default="", metavar="NAME", help="ClusterRole that the subjects get."),
    click.option("--role", default="", metavar="NAME", help="Role that the subjects get."),
    subject_options(),
    help="Bind subjects to a role in a namespace.",
    failure="failed to create rolebinding:",
)(role_binding)
