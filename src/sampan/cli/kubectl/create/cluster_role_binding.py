"""`kubectl create clusterrolebinding`: binds users, groups and service accounts to a ClusterRole."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import click

from sampan.cli.kubectl.create.generated import RBAC_GROUP, metadata, subjects
from sampan.cli.kubectl.create.generator import generator_command


def cluster_role_binding(
    name: str,
    *,
    clusterrole: str,
    user: Sequence[str] = (),
    group: Sequence[str] = (),
    serviceaccount: Sequence[str] = (),
) -> dict[str, Any]:
    value: dict[str, Any] = {
        "kind": "ClusterRoleBinding",
        "apiVersion": f"{RBAC_GROUP}/v1",
        "metadata": metadata(name),
    }
    if bound := subjects(user, group, serviceaccount):
        value["subjects"] = bound
    return value | {"roleRef": {"apiGroup": RBAC_GROUP, "kind": "ClusterRole", "name": clusterrole}}


command = generator_command(
    "clusterrolebinding",
    click.option("--clusterrole", default="", required=True, metavar="NAME", help="ClusterRole of the subjects."),
    click.option("--user", multiple=True, metavar="NAME", help="User to bind; repeatable."),
    click.option("--group", multiple=True, metavar="NAME", help="Group to bind; repeatable."),
    click.option(
        "--serviceaccount",
        multiple=True,
        metavar="NAMESPACE:NAME",
        help="Service account to bind; repeatable.",
    ),
    help="Bind subjects to a cluster role in the whole cluster.",
    failure="failed to create clusterrolebinding:",
)(lambda name, _namespace, **flags: cluster_role_binding(name, **flags))
