"""`kubectl replace`: replace objects by those in files."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

from sampan.kubectl.client.factory import Factory
from sampan.kubectl.client.raw_request import check_raw_flags, send_raw
from sampan.kubectl.command import KubectlCommand
from sampan.kubectl.command_line.flags import arguments, string_flag
from sampan.kubectl.command_line.shared_flags import (
    FilenameOptions,
    dry_run_flag,
    dry_run_strategy,
    field_manager_flag,
    filename_flags,
    record_flag,
    save_config_flag,
    subresource_flag,
    validate_flag,
    validation_directive,
)
from sampan.kubectl.errors import ErrorAggregate, KubectlError, ServerError
from sampan.kubectl.objects.deletion import (
    Deletion,
    DeletionOptions,
    cascade_policy,
    deletion_flags,
    wait_until_deleted,
)
from sampan.kubectl.objects.last_applied import with_last_applied
from sampan.kubectl.objects.object_writer import ObjectWriter, with_change_cause
from sampan.kubectl.objects.targets import ResourceBuilder, ResourceInfo, ResourceSelection, ResourceSource
from sampan.kubectl.printers import OutputOptions, output_flags
from sampan.kubectl.printers.results import ResultPrinter

_REPLACE_TIMEOUT_S = 300.0


@dataclass(frozen=True, slots=True, kw_only=True)
class ReplaceOptions:
    words: tuple[str, ...] = arguments()
    output: OutputOptions = output_flags()
    files: FilenameOptions = filename_flags("to replace")
    deletion: DeletionOptions = deletion_flags(waits=False)
    record: bool = record_flag()
    validate: str = validate_flag()
    save_config: bool = save_config_flag()
    dry_run: str = dry_run_flag()
    raw: str = string_flag("--raw", metavar="PATH", help="Path of the server to send the file to with PUT.")
    field_manager: str = field_manager_flag("kubectl-replace")
    subresource: str = subresource_flag("Replace this subresource of the object.")


@KubectlCommand.define("replace", ReplaceOptions)
def command(factory: Factory, options: ReplaceOptions) -> None:
    """Replace objects by those in files.

    With --force, objects are deleted and created again.
    """
    validation = validation_directive(options.validate)
    dry_run = dry_run_strategy(options.dry_run)
    printer = ResultPrinter(options.output, dry_run)
    policy = cascade_policy(options.deletion.cascade)
    if options.deletion.grace_period == 0:
        options = replace(options, deletion=replace(options.deletion, grace_period=1))
    files = options.files
    if not files:
        raise KubectlError("must specify one of -f and -k")
    files.check()
    _check_flags(options, dry_run)
    if options.raw:
        check_raw_flags(options.raw, files, options.output.format)
        send_raw(factory.session, "PUT", options.raw, files.filenames[0])
        return
    writer = ObjectWriter(
        session=factory.session, field_manager=options.field_manager, dry_run=dry_run, validation=validation
    )
    if options.deletion.force:
        _delete_and_create(factory, writer, files, options, policy, printer)
        return
    errors = ErrorAggregate()
    builder = ResourceBuilder(
        factory,
        ResourceSelection(subresource=options.subresource),
        ResourceSource(files=files, validates=validation == "Strict"),
    )
    for info in builder.infos(errors):
        value = _add_annotations(info, options)
        if dry_run != "client":
            try:
                value = writer.replace(info, value)
            except ServerError as error:
                errors.add(error.add_context(f'error when replacing "{info.source}"'))
                continue
        printer.print(value, "replaced")
    errors.raise_any()


def _check_flags(options: ReplaceOptions, dry_run: str) -> None:
    if options.deletion.grace_period >= 0 and not options.deletion.force:
        raise KubectlError("--grace-period must have --force specified")
    if options.deletion.timeout_s != 0 and not options.deletion.force:
        raise KubectlError("--timeout must have --force specified")
    if options.deletion.force and dry_run != "none":
        raise KubectlError("--dry-run can not be used when --force is set")


def _add_annotations(info: ResourceInfo, options: ReplaceOptions) -> dict[str, Any]:
    value = with_last_applied(info.value) if options.save_config else info.value
    return with_change_cause(value, options.record)


def _delete_and_create(
    factory: Factory,
    writer: ObjectWriter,
    files: FilenameOptions,
    options: ReplaceOptions,
    policy: str,
    printer: ResultPrinter,
) -> None:
    deletion = Deletion(
        session=factory.session,
        policy=policy,
        grace_period=options.deletion.grace_period,
        is_short=options.output.format == "name",
    )
    errors = ErrorAggregate()
    infos = list(ResourceBuilder(factory, source=ResourceSource(files=files)).infos(errors))
    errors.raise_any()
    deleted: list[tuple[ResourceInfo, str]] = []
    for info in infos:
        try:
            deleted.append((info, deletion.delete(info)))
        except ServerError as error:
            if not error.is_not_found:
                errors.add(error)
    errors.raise_any()
    wait_until_deleted(factory.session, deleted, options.deletion.timeout_s or _REPLACE_TIMEOUT_S, errors)
    errors.raise_any()
    for info in infos:
        with errors.collect():
            printer.print(writer.create(info, _add_annotations(info, options)), "replaced")
    errors.raise_any()
