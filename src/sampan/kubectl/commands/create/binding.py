"""The flags and the object that `kubectl create rolebinding` and `clusterrolebinding` share."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from sampan.kubectl.command_line.flags import flag_group, string_array_flag
from sampan.kubectl.commands.create.generator import RBAC_GROUP, metadata, subjects


@dataclass(frozen=True, slots=True, kw_only=True)
class BindingSubjectOptions:
    user: tuple[str, ...] = string_array_flag("--user", metavar="NAME", help="User to bind; repeatable.")
    group: tuple[str, ...] = string_array_flag("--group", metavar="NAME", help="Group to bind; repeatable.")
    serviceaccount: tuple[str, ...] = string_array_flag(
        "--serviceaccount", metavar="NAMESPACE:NAME", help="Service account to bind; repeatable."
    )


def subject_flags() -> BindingSubjectOptions:
    """Declare --user, --group and --serviceaccount."""
    return flag_group(BindingSubjectOptions)


def binding(
    kind: str, name: str, namespace: str, *, role_kind: str, role: str, options: BindingSubjectOptions
) -> dict[str, Any]:
    """Return a RoleBinding or ClusterRoleBinding of subjects to a role."""
    value: dict[str, Any] = {
        "kind": kind,
        "apiVersion": f"{RBAC_GROUP}/v1",
        "metadata": metadata(name, namespace),
    }
    if bound := subjects(options.user, options.group, options.serviceaccount):
        value["subjects"] = bound
    return value | {"roleRef": {"apiGroup": RBAC_GROUP, "kind": role_kind, "name": role}}
