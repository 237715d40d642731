"""`kubectl delete`: delete objects by name, selector or file."""

from __future__ import annotations

import sys
from typing import Any

import click

from sampan.kubectl.client.factory import Factory
from sampan.kubectl.client.raw_request import check_raw_flags, send_raw
from sampan.kubectl.command_line.command import CHANGED_FLAGS, KubectlCommand
from sampan.kubectl.command_line.shared_options import (
    all_namespaces_option,
    dry_run_of,
    dry_run_option,
    field_selector_option,
    filename_flags,
    filename_options,
    selector_option,
)
from sampan.kubectl.errors import ErrorAggregate, KubectlError, ServerError
from sampan.kubectl.objects.deletion import Deletion, cascade_policy, deletion_options, wait_until_deleted
from sampan.kubectl.objects.targets import ResourceInfo

_FORCED = (
    "Immediate deletion does not wait for confirmation that the running resource has been terminated. The resource may "
    "continue to run on the cluster indefinitely."
)


@click.command("delete", cls=KubectlCommand)
@click.argument("words", nargs=-1)
@filename_options("to delete")
@selector_option()
@field_selector_option()
@click.option("--all", "selects_all", is_flag=True, help="Delete all objects of the types in the namespace.")
@all_namespaces_option()
@deletion_options(waits=True)
@click.option("--now", is_flag=True, help="Signal termination at once; the same as --grace-period=1.")
@click.option("--ignore-not-found", is_flag=True, help="Treat an object that does not exist as success.")
@click.option("-o", "--output", default="", metavar="name", help="Output format; name prints only the names.")
@click.option("--raw", default="", metavar="PATH", help="Path of the server to send a DELETE request to.")
@click.option("-i", "--interactive", is_flag=True, help="Ask for confirmation before the deletion.")
@dry_run_option()
@click.pass_obj
def command(factory: Factory, /, words: tuple[str, ...], **options: Any) -> None:
    """Delete objects by name, label selector or file."""
    policy = cascade_policy(options["cascade"])
    grace_period = _grace_period(options)
    dry_run, files = dry_run_of(options), filename_flags(options)
    builder = factory.resources(
        words=words,
        files=files,
        selector=options["selector"],
        field_selector=options["field_selector"],
        selects_all=options["selects_all"],
        all_namespaces=options["all_namespaces"],
        fetches=False,
    )
    if not options["raw"]:
        builder.check()
    _check_flags(options, grace_period)
    if options["raw"]:
        check_raw_flags(options, files, needs_file=False)
        send_raw(factory.session, "DELETE", options["raw"], files.files[0] if files.files else "")
        return
    errors = ErrorAggregate()
    infos = builder.infos(errors)
    if options["interactive"]:
        preview = list(infos)
        errors.raise_any()
        if not preview:
            click.echo("No resources found")
            return
        if not _ask_for_confirmation(preview):
            click.echo("deletion is cancelled")
            return
        infos = iter(preview)
    deletion = Deletion(
        session=factory.session,
        policy=policy,
        grace_period=grace_period,
        dry_run=dry_run,
        is_short=options["output"] == "name",
    )
    _delete(factory, deletion, infos, errors, options)


def _grace_period(options: dict[str, Any]) -> int:
    grace_period: int = options["grace_period"]
    if options["now"]:
        if grace_period != -1:
            raise KubectlError("--now and --grace-period cannot be specified together")
        grace_period = 1
    if grace_period == 0 and not options["force"]:
        return 1
    return 0 if options["force"] and grace_period < 0 else grace_period


def _check_flags(options: dict[str, Any], grace_period: int) -> None:
    output = options["output"]
    if output not in ("", "name"):
        raise KubectlError(f"unexpected -o output mode: {output}. We only support '-o name'")
    for name in ("selector", "field_selector"):
        if options["selects_all"] and options[name]:
            raise KubectlError(f"cannot set --all and --{name.replace('_', '-')} at the same time")
    if options["force"] and grace_period == 0:
        click.echo(f"Warning: {_FORCED}", err=True)
    elif options["force"] and grace_period > 0:
        raise KubectlError("--force and --grace-period greater than 0 cannot be specified together")


def _ask_for_confirmation(infos: list[ResourceInfo]) -> bool:
    """Print what will be deleted, and return whether the user agrees."""
    click.echo(f"You are about to delete the following {len(infos)} resource(s):")
    for info in infos:
        click.echo(info.qualified_name)
    click.echo("Do you want to continue? (y/N): ", nl=False)
    return sys.stdin.readline().strip().lower() == "y"


def _delete(factory: Factory, deletion: Deletion, infos: Any, errors: ErrorAggregate, options: dict[str, Any]) -> None:
    changed = click.get_current_context().meta[CHANGED_FLAGS]
    is_selection = options["selects_all"] or options["selector"] or options["field_selector"]
    ignores = options["ignore_not_found"] or (is_selection and "ignore_not_found" not in changed)
    warns = factory.has_namespace_flag and not options["all_namespaces"]
    deleted: list[tuple[ResourceInfo, str]] = []
    count = 0
    for info in infos:
        count += 1
        if warns and not info.kind.is_namespaced:
            text = "deleting cluster-scoped resources, not scoped to the provided namespace"
            click.echo(f"Warning: {text}", err=True)
            warns = False
        try:
            deleted.append((info, deletion.delete(info)))
        except ServerError as error:
            if not (ignores and error.is_not_found):
                errors.add(error)
    if errors:
        errors.raise_any()
    if not count:
        click.echo("No resources found")
        return
    if options["wait"] and deletion.dry_run == "none":
        wait_until_deleted(factory.session, deleted, options["timeout_s"], errors)
        errors.raise_any()
