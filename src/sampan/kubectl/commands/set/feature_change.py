"""Code that the subcommands of `kubectl set` share: their flags, the selection of objects, and the change of each."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from sampan.kubectl.client.factory import Factory
from sampan.kubectl.command_line.flags import arguments
from sampan.kubectl.command_line.shared_flags import (
    FilenameOptions,
    all_flag,
    dry_run_flag,
    field_manager_flag,
    filename_flags,
    local_flag,
    selector_flag,
)
from sampan.kubectl.errors import ErrorAggregate, KubectlError, ServerError
from sampan.kubectl.objects.object_writer import STRATEGIC, ObjectWriter
from sampan.kubectl.objects.pod_template import Change, ObjectChangeError, compute_patches
from sampan.kubectl.objects.targets import (
    LOCAL_WITHOUT_FILES_MESSAGE,
    ResourceBuilder,
    ResourceFetch,
    ResourceInfo,
    ResourceSelection,
    ResourceSource,
)
from sampan.kubectl.printers import OutputOptions, output_flags
from sampan.kubectl.printers.results import ResultPrinter
from sampan.machinery.cli_errors import CliError


@dataclass(frozen=True, slots=True, kw_only=True)
class SetOptions:
    words: tuple[str, ...] = arguments()
    output: OutputOptions = output_flags()
    files: FilenameOptions = filename_flags("to change")
    selects_all: bool = all_flag()
    local: bool = local_flag()
    dry_run: str = dry_run_flag()
    field_manager: str = field_manager_flag("kubectl-set")


@dataclass(frozen=True, slots=True, kw_only=True)
class SelectingSetOptions(SetOptions):
    selector: str = selector_flag()


def select_objects(
    factory: Factory, words: Sequence[str], options: SetOptions, *, files: FilenameOptions | None = None
) -> list[ResourceInfo]:
    """Return the objects that the words or files name; `files` replaces those of the options. The first error ends the
    command."""
    is_local = options.local
    if is_local and words:
        raise KubectlError(LOCAL_WITHOUT_FILES_MESSAGE)
    selector = options.selector if isinstance(options, SelectingSetOptions) and not is_local else ""
    builder = ResourceBuilder(
        factory,
        ResourceSelection(words=words, selector=selector, allows_all=options.selects_all),
        ResourceSource(files=options.files if files is None else files, is_local=is_local),
        ResourceFetch(fetches_latest=not is_local),
    )
    return list(builder.infos())


def apply_changes(
    infos: list[ResourceInfo],
    change: Change,
    *,
    factory: Factory,
    options: SetOptions,
    dry_run: str,
    printer: ResultPrinter,
    operation: str,
    failure: str,
    errors: ErrorAggregate | None = None,
    sends_empty: bool = False,
) -> None:
    """Change each object as --local and --dry-run say, and report it. Objects that are already as the change wants
    them are not reported. At the end, raise all errors, together with the `errors` of the caller.

    `failure` precedes the message of a failed request.
    """
    errors = errors if errors is not None else ErrorAggregate()
    is_local = options.local or dry_run == "client"
    writer = ObjectWriter(session=factory.session, field_manager=options.field_manager, dry_run=dry_run)
    for info, value, patch in compute_patches(infos, change):
        if isinstance(patch, CliError):
            errors.add(ObjectChangeError(info, patch))
            continue
        if not patch and not sends_empty:
            continue
        if is_local:
            printer.print(value, operation)
            continue
        try:
            value = writer.patch(info, patch, STRATEGIC)
        except ServerError as error:
            errors.add(KubectlError(f"{failure} {error.error.message}"))
            continue
        printer.print(value, operation)
    errors.raise_any()
