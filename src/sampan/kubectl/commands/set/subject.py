"""`kubectl set subject`: add subjects to role bindings."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from sampan.kubectl.client.factory import Factory
from sampan.kubectl.command import KubectlCommand
from sampan.kubectl.command_line.flags import string_array_flag
from sampan.kubectl.command_line.shared_flags import check_all_and_selectors, check_local, dry_run_strategy
from sampan.kubectl.commands.create.generator import subjects
from sampan.kubectl.commands.set.feature_change import SelectingSetOptions, apply_changes, select_objects
from sampan.kubectl.errors import KubectlError
from sampan.kubectl.objects.targets import ResourceInfo
from sampan.kubectl.printers.results import ResultPrinter
from sampan.machinery.cli_errors import CliError


@dataclass(frozen=True, slots=True, kw_only=True)
class SubjectOptions(SelectingSetOptions):
    user: tuple[str, ...] = string_array_flag("--user", metavar="NAME", help="User to add; repeatable.")
    group: tuple[str, ...] = string_array_flag("--group", metavar="NAME", help="Group to add; repeatable.")
    serviceaccount: tuple[str, ...] = string_array_flag(
        "--serviceaccount", metavar="NAMESPACE:NAME", help="Service account to add; repeatable."
    )


@KubectlCommand.define("subject", SubjectOptions)
def command(factory: Factory, options: SubjectOptions) -> None:
    """Add users, groups and service accounts to role bindings and cluster role bindings."""
    dry_run = dry_run_strategy(options.dry_run)
    printer = ResultPrinter(options.output, dry_run)
    infos = select_objects(factory, options.words, options)
    check_local(options.local, dry_run)
    check_all_and_selectors(options.selects_all, options.selector)
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
        dry_run=dry_run,
        printer=printer,
        operation="subjects updated",
        failure="failed to patch subjects to rolebinding:",
    )


def _subjects(options: SubjectOptions, infos: list[ResourceInfo], factory: Factory) -> list[dict[str, str]]:
    """Return the subjects of the flags. A service account without a namespace is one of the current namespace."""
    if not (options.user or options.group or options.serviceaccount):
        raise KubectlError("you must specify at least one value of user, group or serviceaccount")
    accounts: list[str] = []
    for text in options.serviceaccount:
        namespace, _, name = text.partition(":")
        if text.count(":") != 1 or not name:
            raise KubectlError("serviceaccount must be <namespace>:<name>")
        if not namespace and any(info.kind.kind == "ClusterRoleBinding" for info in infos):
            raise KubectlError("serviceaccount must be <namespace>:<name>, namespace must be specified")
        accounts.append(f"{namespace or factory.namespace}:{name}")
    return subjects(sorted(set(options.user)), sorted(set(options.group)), sorted(set(accounts)))
