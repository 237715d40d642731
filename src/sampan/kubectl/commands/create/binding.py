"""The flags and the object that `kubectl create rolebinding` and `clusterrolebinding` share."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import click

from sampan.kubectl.command_line.shared_options import Decorator, combine_options
from sampan.kubectl.commands.create.generator import RBAC_GROUP, metadata, subjects


def subject_options() -> Decorator:
    """Return a decorator that adds --user, --group and --serviceaccount."""
    return combine_options(
        click.option("--user", multiple=True, metavar="NAME", help="User to bind; repeatable."),
        click.option("--group", multiple=True, metavar="NAME", help="Group to bind; repeatable."),
        click.option(
            "--serviceaccount",
            multiple=True,
            metavar="NAMESPACE:NAME",
            help="Service account to bind; repeatable.",
        ),
    )


def binding(
    kind: str,
    name: str,
    namespace: str = "",
    *,
    role_kind: str,
    role: str,
    user: Sequence[str] = (),
    group: Sequence[str] = (),
    serviceaccount: Sequence[str] = (),
) -> dict[str, Any]:
    """Return a RoleBinding or ClusterRoleBinding of subjects to a role."""
    value: dict[str, Any] = {
        "kind": kind,
        "apiVersion": f"{RBAC_GROUP}/v1",
        "metadata": metadata(name, namespace),
    }
    if bound := subjects(user, group, serviceaccount):
        value["subjects"] = bound
    return value | {"roleRef": {"apiGroup": RBAC_GROUP, "kind": role_kind, "name": role}}
