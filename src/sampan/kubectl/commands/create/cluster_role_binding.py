"""`kubectl create clusterrolebinding`: binds users, groups and service accounts to a ClusterRole."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import click

from sampan.kubectl.commands.create.binding import binding, subject_options
from sampan.kubectl.commands.create.generator import generator_command


def cluster_role_binding(name: str, *, clusterrole: str, **subjects: Sequence[str]) -> dict[str, Any]:
    return binding("ClusterRoleBinding", name, "", role_kind="ClusterRole", role=clusterrole, **subjects)


command = generator_command(
    "clusterrolebinding",
    click.option("--clusterrole", default="", required=True, metavar="NAME", help="ClusterRole that the subjects get."),
    subject_options(),
    help="Bind subjects to a cluster role in the whole cluster.",
    failure="failed to create clusterrolebinding:",
)(lambda name, _namespace, **flags: cluster_role_binding(name, **flags))
