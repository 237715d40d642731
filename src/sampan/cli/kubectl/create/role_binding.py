"""`kubectl create rolebinding`: binds users, groups and service accounts to a Role or ClusterRole in a namespace."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import click

from sampan.cli.failures import CliError
from sampan.cli.kubectl.create.generated import RBAC_GROUP, metadata, subjects
from sampan.cli.kubectl.create.generator import generator_command


def role_binding(
    name: str,
    namespace: str = "",
    *,
    role: str = "",
    clusterrole: str = "",
    user: Sequence[str] = (),
    group: Sequence[str] = (),
    serviceaccount: Sequence[str] = (),
) -> dict[str, Any]:
    if bool(role) == bool(clusterrole):
        raise CliError("exactly one of clusterrole or role must be specified")
    value: dict[str, Any] = {
        "kind": "RoleBinding",
        "apiVersion": f"{RBAC_GROUP}/v1",
        "metadata": metadata(name, namespace),
    }
    if bound := subjects(user, group, serviceaccount):
        value["subjects"] = bound
    kind = "Role" if role else "ClusterRole"
    return value | {"roleRef": {"apiGroup": RBAC_GROUP, "kind": kind, "name": role or clusterrole}}


command = generator_command(
    "rolebinding",
    click.option("--clusterrole", default="", metavar="NAME", help="ClusterRole of the subjects."),
    click.option("--role", default="", metavar="NAME", help="Role of the subjects."),
    click.option("--user", multiple=True, metavar="NAME", help="User to bind; repeatable."),
    click.option("--group", multiple=True, metavar="NAME", help="Group to bind; repeatable."),
    click.option(
        "--serviceaccount",
        multiple=True,
        metavar="NAMESPACE:NAME",
        help="Service account to bind; repeatable.",
    ),
    help="Bind subjects to a role in a namespace.",
    failure="failed to create rolebinding:",
)(role_binding)
