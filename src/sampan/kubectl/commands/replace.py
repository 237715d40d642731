"""`kubectl replace`: replace objects by those in files."""

from __future__ import annotations

from typing import Any

import click

from sampan.kubectl.client.factory import Factory
from sampan.kubectl.client.raw_request import check_raw_flags, send_raw
from sampan.kubectl.command_line.command import KubectlCommand
from sampan.kubectl.command_line.shared_options import (
    dry_run_of,
    dry_run_option,
    field_manager_option,
    filename_flags,
    filename_options,
    output_options,
    subresource_option,
    validate_option,
    validation_of,
)
from sampan.kubectl.errors import ErrorAggregate, KubectlError, ServerError
from sampan.kubectl.objects.deletion import Deletion, cascade_policy, deletion_options, wait_until_deleted
from sampan.kubectl.objects.last_applied import with_last_applied
from sampan.kubectl.objects.manifests import FilenameFlags
from sampan.kubectl.objects.object_writer import (
    ObjectWriter,
    ResultPrinter,
    record_option,
    save_config_option,
    with_change_cause,
)
from sampan.kubectl.objects.targets import ResourceInfo

_REPLACE_TIMEOUT_S = 300.0


@click.command("replace", cls=KubectlCommand)
@click.argument("words", nargs=-1)
@output_options()
@filename_options("to replace")
@deletion_options(waits=False)
@record_option()
@validate_option()
@save_config_option()
@dry_run_option()
@click.option("--raw", default="", metavar="PATH", help="Path of the server to send the file to with PUT.")
@field_manager_option("kubectl-replace")
@subresource_option("Replace this subresource of the object.")
@click.pass_obj
def command(factory: Factory, /, words: tuple[str, ...], **options: Any) -> None:
    """Replace objects by those in files.

    With --force, objects are deleted and created again.
    """
    validation, dry_run, printer = validation_of(options), dry_run_of(options), ResultPrinter(options)
    policy = cascade_policy(options["cascade"])
    if options["grace_period"] == 0:
        options |= {"grace_period": 1, "wait": True}
    files = filename_flags(options)
    if not files:
        raise KubectlError("must specify one of -f and -k")
    files.check()
    _check_flags(options, dry_run)
    if options["raw"]:
        check_raw_flags(options, files)
        send_raw(factory.session, "PUT", options["raw"], files.files[0])
        return
    writer = ObjectWriter(
        session=factory.session, field_manager=options["field_manager"], dry_run=dry_run, validation=validation
    )
    if options["force"]:
        _delete_and_create(factory, writer, files, options, policy, printer)
        return
    errors = ErrorAggregate()
    builder = factory.resources(files=files, subresource=options["subresource"], validates=validation == "Strict")
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


def _check_flags(options: dict[str, Any], dry_run: str) -> None:
    if options["grace_period"] >= 0 and not options["force"]:
        raise KubectlError("--grace-period must have --force specified")
    if options["timeout_s"] != 0 and not options["force"]:
        raise KubectlError("--timeout must have --force specified")
    if options["force"] and dry_run != "none":
        raise KubectlError("--dry-run can not be used when --force is set")


def _add_annotations(info: ResourceInfo, options: dict[str, Any]) -> dict[str, Any]:
    value = with_last_applied(info.value) if options["save_config"] else info.value
    return with_change_cause(value, options)


def _delete_and_create(
    factory: Factory,
    writer: ObjectWriter,
    files: FilenameFlags,
    options: dict[str, Any],
    policy: str,
    printer: ResultPrinter,
) -> None:
    deletion = Deletion(
        session=factory.session,
        policy=policy,
        grace_period=options["grace_period"],
        is_short=options["output"] == "name",
    )
    errors = ErrorAggregate()
    infos = list(factory.resources(files=files).infos(errors))
    errors.raise_any()
    deleted: list[tuple[ResourceInfo, str]] = []
    for info in infos:
        try:
            deleted.append((info, deletion.delete(info)))
        except ServerError as error:
            if not error.is_not_found:
                errors.add(error)
    errors.raise_any()
    wait_until_deleted(factory.session, deleted, options["timeout_s"] or _REPLACE_TIMEOUT_S, errors)
    errors.raise_any()
    for info in infos:
        with errors.collect():
            printer.print(writer.create(info, _add_annotations(info, options)), "replaced")
    errors.raise_any()
