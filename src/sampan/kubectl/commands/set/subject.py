"""`kubectl set subject`: add subjects to role bindings."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import click

from sampan.kubectl.client.factory import Factory
from sampan.kubectl.command_line.command import KubectlCommand
from sampan.kubectl.command_line.shared_options import dry_run_of
from sampan.kubectl.commands.create.generator import subjects
from sampan.kubectl.commands.set import check_all_and_selector, select_objects, set_options
from sampan.kubectl.errors import KubectlError
from sampan.kubectl.objects.object_writer import ResultPrinter
from sampan.kubectl.objects.pod_template import apply_changes, check_local
from sampan.kubectl.objects.targets import ResourceInfo
from sampan.machinery.cli_errors import CliError


@click.command("subject", cls=KubectlCommand)
@set_options()
@click.option("--user", multiple=True, metavar="NAME", help="User to add; repeatable.")
@click.option("--group", multiple=True, metavar="NAME", help="Group to add; repeatable.")
@click.option("--serviceaccount", multiple=True, metavar="NAMESPACE:NAME", help="Service account to add; repeatable.")
@click.pass_obj
def command(factory: Factory, /, words: tuple[str, ...], **options: Any) -> None:
    """Add users, groups and service accounts to role bindings and cluster role bindings."""
    dry_run, printer = dry_run_of(options), ResultPrinter(options)
    infos = select_objects(factory, words, options)
    check_local(options, dry_run)
    check_all_and_selector(options)
    added = _subjects(options, infos, factory)

    def change(value: dict[str, Any], info: ResourceInfo) -> None:
        if info.kind.kind not in ("RoleBinding", "ClusterRoleBinding"):
            raise CliError("setting subjects is only supported for RoleBinding/ClusterRoleBinding")
        current = value.get("subjects") or []
        value["subjects"] = [*current, *(subject for subject in added if subject not in current)]

    apply_changes(
        infos,
        change,
        factory=factory,
        options=options,
        printer=printer,
        operation="subjects updated",
        failure="failed to patch subjects to rolebinding:",
    )


def _subjects(options: Mapping[str, Any], infos: list[ResourceInfo], factory: Factory) -> list[dict[str, str]]:
    """Return the subjects of the flags. A service account without a namespace is one of the current namespace."""
    if not (options["user"] or options["group"] or options["serviceaccount"]):
        raise KubectlError("you must specify at least one value of user, group or serviceaccount")
    accounts: list[str] = []
    for text in options["serviceaccount"]:
        namespace, _, name = text.partition(":")
        if text.count(":") != 1 or not name:
            raise KubectlError("serviceaccount must be <namespace>:<name>")
        if not namespace and any(info.kind.kind == "ClusterRoleBinding" for info in infos):
            raise KubectlError("serviceaccount must be <namespace>:<name>, namespace must be specified")
        accounts.append(f"{namespace or factory.namespace}:{name}")
    return subjects(sorted(set(options["user"])), sorted(set(options["group"])), sorted(set(accounts)))
