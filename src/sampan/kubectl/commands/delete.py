"""`kubectl delete`: delete objects by name, selector or file."""

from __future__ import annotations

import sys
from dataclasses import dataclass
from typing import Any

import click

from sampan.kubectl.client.factory import Factory
from sampan.kubectl.client.raw_request import check_raw_flags, send_raw
from sampan.kubectl.command import KubectlCommand
from sampan.kubectl.command_line.flags import arguments, bool_flag, changed_flags, string_flag
from sampan.kubectl.command_line.shared_flags import (
    FilenameOptions,
    all_namespaces_flag,
    check_all_and_selectors,
    dry_run_flag,
    dry_run_strategy,
    field_selector_flag,
    filename_flags,
    selector_flag,
)
from sampan.kubectl.errors import ErrorAggregate, KubectlError, ServerError
from sampan.kubectl.objects.deletion import (
    Deletion,
    DeletionOptions,
    cascade_policy,
    deletion_flags,
    wait_until_deleted,
)
from sampan.kubectl.objects.targets import (
    ResourceBuilder,
    ResourceFetch,
    ResourceInfo,
    ResourceSelection,
    ResourceSource,
)

_FORCED = (
    "Immediate deletion does not wait for confirmation that the running resource has been terminated. The resource may "
    "continue to run on the cluster indefinitely."
)


@dataclass(frozen=True, slots=True, kw_only=True)
class DeleteCommandOptions:
    words: tuple[str, ...] = arguments()
    files: FilenameOptions = filename_flags("to delete")
    selector: str = selector_flag()
    field_selector: str = field_selector_flag()
    selects_all: bool = bool_flag("--all", help="Delete all objects of the types in the namespace.")
    all_namespaces: bool = all_namespaces_flag()
    deletion: DeletionOptions = deletion_flags(waits=True)
    now: bool = bool_flag("--now", help="Signal termination at once; the same as --grace-period=1.")
    ignore_not_found: bool = bool_flag("--ignore-not-found", help="Treat an object that does not exist as success.")
    output: str = string_flag("-o", "--output", metavar="name", help="Output format; name prints only the names.")
    raw: str = string_flag("--raw", metavar="PATH", help="Path of the server to send a DELETE request to.")
    interactive: bool = bool_flag("-i", "--interactive", help="Ask for confirmation before the deletion.")
    dry_run: str = dry_run_flag()
    changed_flags: frozenset[str] = changed_flags()


@KubectlCommand.define("delete", DeleteCommandOptions)
def command(factory: Factory, options: DeleteCommandOptions) -> None:
    """Delete objects by name, label selector or file."""
    policy = cascade_policy(options.deletion.cascade)
    grace_period = _grace_period(options)
    dry_run, files = dry_run_strategy(options.dry_run), options.files
    builder = ResourceBuilder(
        factory,
        ResourceSelection(
            words=options.words,
            selector=options.selector,
            field_selector=options.field_selector,
            selects_all=options.selects_all,
            all_namespaces=options.all_namespaces,
        ),
        ResourceSource(files=files),
        ResourceFetch(fetches=False),
    )
    if not options.raw:
        builder.check()
    _check_flags(options, grace_period)
    if options.raw:
        check_raw_flags(options.raw, files, options.output, is_interactive=options.interactive, needs_file=False)
        send_raw(factory.session, "DELETE", options.raw, files.filenames[0] if files.filenames else "")
        return
    errors = ErrorAggregate()
    infos = builder.infos(errors)
    if options.interactive:
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
        is_short=options.output == "name",
    )
    _delete(factory, deletion, infos, errors, options)


def _grace_period(options: DeleteCommandOptions) -> int:
    grace_period: int = options.deletion.grace_period
    if options.now:
        if grace_period != -1:
            raise KubectlError("--now and --grace-period cannot be specified together")
        grace_period = 1
    if grace_period == 0 and not options.deletion.force:
        return 1
    return 0 if options.deletion.force and grace_period < 0 else grace_period


def _check_flags(options: DeleteCommandOptions, grace_period: int) -> None:
    output = options.output
    if output not in ("", "name"):
        raise KubectlError(f"unexpected -o output mode: {output}. We only support '-o name'")
    check_all_and_selectors(options.selects_all, options.selector, options.field_selector)
    if options.deletion.force and grace_period == 0:
        click.echo(f"Warning: {_FORCED}", err=True)
    elif options.deletion.force and grace_period > 0:
        raise KubectlError("--force and --grace-period greater than 0 cannot be specified together")


def _ask_for_confirmation(infos: list[ResourceInfo]) -> bool:
    """Print what will be deleted, and return whether the user agrees."""
    click.echo(f"You are about to delete the following {len(infos)} resource(s):")
    for info in infos:
        click.echo(info.qualified_name)
    click.echo("Do you want to continue? (y/N): ", nl=False)
    return sys.stdin.readline().strip().lower() == "y"


def _delete(
    factory: Factory, deletion: Deletion, infos: Any, errors: ErrorAggregate, options: DeleteCommandOptions
) -> None:
    is_selection = options.selects_all or options.selector or options.field_selector
    ignores = options.ignore_not_found or (is_selection and "ignore-not-found" not in options.changed_flags)
    warns = factory.has_namespace_flag and not options.all_namespaces
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
    if options.deletion.wait and deletion.dry_run == "none":
        wait_until_deleted(factory.session, deleted, options.deletion.timeout_s, errors)
        errors.raise_any()
