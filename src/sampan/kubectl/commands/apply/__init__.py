"""`kubectl apply`: bring objects to the state of their configuration in files, on the client or on the server side."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import click

from sampan.kubectl.client.factory import Factory
from sampan.kubectl.command import LateGroup
from sampan.kubectl.command_line.flags import arguments, bool_flag, changed_flags, string_array_flag, string_flag
from sampan.kubectl.command_line.shared_flags import (
    FilenameOptions,
    dry_run_flag,
    dry_run_strategy,
    field_manager_flag,
    filename_flags,
    record_flag,
    selector_flag,
    subresource_flag,
    validate_flag,
    validation_directive,
)
from sampan.kubectl.commands.apply.apply_set import ApplySet, is_enabled
from sampan.kubectl.commands.apply.patcher import ApplyPatcher, PatchSchemas
from sampan.kubectl.commands.apply.prune import prunable_objects, prunable_types
from sampan.kubectl.commands.apply.server_side import SERVER_SIDE_MANAGER, apply_on_server
from sampan.kubectl.errors import ErrorAggregate, KubectlError, ServerError, UsageError
from sampan.kubectl.objects.deletion import Deletion, DeletionOptions, cascade_policy, deletion_flags
from sampan.kubectl.objects.last_applied import LAST_APPLIED, last_applied_text, with_last_applied
from sampan.kubectl.objects.object_writer import ObjectWriter, with_change_cause
from sampan.kubectl.objects.targets import ResourceBuilder, ResourceInfo, ResourceSelection, ResourceSource
from sampan.kubectl.printers import OutputOptions, output_flags
from sampan.kubectl.printers.results import ResultPrinter

CLIENT_SIDE_MANAGER = "kubectl-client-side-apply"
_COMMANDS = ("edit-last-applied", "set-last-applied", "view-last-applied")
_MISSING = (
    f"Warning: resource {{}} is missing the {LAST_APPLIED} annotation which is required by kubectl apply. "
    "kubectl apply should only be used on resources created declaratively by either kubectl create --save-config or "
    "kubectl apply. The missing annotation will be patched automatically."
)
_ALL_PRUNED = (
    "all resources selected for prune without explicitly passing --all. To prune all resources, pass the --all flag. "
    "If you did not mean to prune all resources, specify a label selector"
)


@dataclass(frozen=True, slots=True, kw_only=True)
class ApplyOptions:
    words: tuple[str, ...] = arguments()
    files: FilenameOptions = filename_flags("to apply")
    deletion: DeletionOptions = deletion_flags(waits=False)
    record: bool = record_flag()
    output: OutputOptions = output_flags()
    validate: str = validate_flag()
    dry_run: str = dry_run_flag()
    server_side: bool = bool_flag("--server-side", help="Let the server merge the configuration with the live object.")
    force_conflicts: bool = bool_flag(
        "--force-conflicts", help="With --server-side, take fields over from other managers."
    )
    field_manager: str = field_manager_flag(CLIENT_SIDE_MANAGER)
    selector: str = selector_flag()
    prune: bool = bool_flag("--prune", help="Delete applied objects that are not among the files.")
    prune_allowlist: tuple[str, ...] = string_array_flag(
        "--prune-allowlist", metavar="GROUP/VERSION/KIND", help="Kind that --prune deletes; repeatable."
    )
    selects_all: bool = bool_flag("--all", help="Let --prune consider all objects of the namespaces.")
    applyset: str = string_flag(
        "--applyset",
        hidden=True,
        metavar="[RESOURCE[.GROUP]/]NAME",
        help="Object that records the set of applied objects, for --prune; a Secret unless a resource is given.",
    )
    overwrite: bool = bool_flag("--overwrite", default=True, help="Overwrite changes of others. True by default.")
    openapi_patch: bool = bool_flag(
        "--openapi-patch", default=True, help="Compute patches with the server's OpenAPI document. True by default."
    )
    subresource: str = subresource_flag("With --server-side, apply to this subresource.")
    changed_flags: frozenset[str] = changed_flags()


@LateGroup.define(
    "apply", ApplyOptions, package=__name__, modules={name: (name.replace("-", "_"), ()) for name in _COMMANDS}
)
def command(factory: Factory, options: ApplyOptions) -> None:
    """Bring objects to the state of their configuration in files. Objects that do not exist are created."""
    if options.words:
        raise UsageError(f"Unexpected args: [{' '.join(options.words)}]")
    dry_run = dry_run_strategy(options.dry_run)
    files = options.files
    if not files:
        raise KubectlError("must specify one of -f and -k")
    files.check()
    validation = validation_directive(options.validate)
    run = ApplyRun(factory, options, dry_run, validation)
    builder = ResourceBuilder(
        factory,
        ResourceSelection(selector=options.selector),
        ResourceSource(files=files, validates=validation == "Strict"),
    )
    errors = ErrorAggregate()
    infos = list(builder.infos(errors))
    if not infos and not errors:
        raise KubectlError("no objects passed to apply")
    run.begin(infos)
    for info in infos:
        with errors.collect():
            run.apply(info)
    errors.raise_any()
    run.finish()


class ApplyRun:
    """Applies the objects of a command line, prints the results and prunes."""

    def __init__(self, factory: Factory, options: ApplyOptions, dry_run: str, validation: str) -> None:
        self._factory, self._options, self._dry_run = factory, options, dry_run
        policy = cascade_policy(options.deletion.cascade)
        self._apply_set = self._parent_set(validation)
        self._check_flags()
        has_types = options.prune and self._apply_set is None
        self._types = prunable_types(factory, options.prune_allowlist) if has_types else []
        self._printer = ResultPrinter(options.output, dry_run)
        self._writer = ObjectWriter(
            session=factory.session, field_manager=self._field_manager(), dry_run=dry_run, validation=validation
        )
        self._deletion = Deletion(
            session=factory.session,
            policy=policy,
            grace_period=options.deletion.grace_period,
            dry_run=dry_run,
            is_quiet=True,
        )
        self._patcher = ApplyPatcher(
            writer=self._writer,
            schemas=PatchSchemas(factory.session, uses_openapi=options.openapi_patch),
            overwrites=options.overwrite,
            deletion=self._deletion if options.deletion.force else None,
            timeout_s=options.deletion.timeout_s,
        )
        self._uids: set[str] = set()
        self._namespaces: dict[str, None] = {factory.namespace: None} if factory.has_namespace_flag else {}
        self._applied: list[dict[str, Any]] = []

    def _parent_set(self, validation: str) -> ApplySet | None:
        reference = self._options.applyset
        if not reference:
            return None
        if not is_enabled():
            raise KubectlError("unknown flag: --applyset\nSee 'kubectl apply --help' for usage.")
        writer = ObjectWriter(
            session=self._factory.session,
            field_manager="kubectl-applyset",
            dry_run=self._dry_run,
            validation=validation,
        )
        return ApplySet(factory=self._factory, reference=reference, writer=writer)

    def _field_manager(self) -> str:
        if self._options.server_side and "field-manager" not in self._options.changed_flags:
            return SERVER_SIDE_MANAGER
        return str(self._options.field_manager)

    def _check_flags(self) -> None:
        options = self._options
        is_server_side, is_forced = options.server_side, options.deletion.force
        if options.force_conflicts and not is_server_side:
            raise KubectlError("--force-conflicts only works with --server-side")
        if self._dry_run == "client" and is_server_side:
            raise KubectlError(
                "--dry-run=client doesn't work with --server-side (did you mean --dry-run=server instead?)"
            )
        if is_server_side and is_forced:
            raise KubectlError("--force cannot be used with --server-side")
        if self._dry_run == "server" and is_forced:
            raise KubectlError("--dry-run=server cannot be used with --force")
        if options.selects_all and options.selector:
            raise KubectlError("cannot set --all and --selector at the same time")
        if self._apply_set is not None:
            if not options.prune:
                raise KubectlError("--applyset requires --prune")
            self._apply_set.check_parent()
        if options.prune:
            self._check_prune_flags()
        if options.subresource and not is_server_side:
            raise KubectlError("--subresource can only be specified for --server-side")

    def _check_prune_flags(self) -> None:
        if self._options.deletion.force:
            raise KubectlError("--force cannot be used with --prune")
        if self._apply_set is not None:
            options = self._options
            excluded = (
                ("all", options.selects_all),
                ("selector", options.selector),
                ("prune-allowlist", options.prune_allowlist),
            )
            for flag, value in excluded:
                if value:
                    raise KubectlError(f"--{flag} is incompatible with --applyset")
            return
        if not (self._options.selects_all or self._options.selector):
            raise KubectlError(_ALL_PRUNED)
        if self._options.server_side:
            raise KubectlError("--prune is in alpha and doesn't currently work on objects created by server-side apply")

    def begin(self, infos: Sequence[ResourceInfo]) -> None:
        """Record the objects in the parent of --applyset, before they are applied."""
        if self._apply_set is not None:
            self._apply_set.add_labels(infos)
            self._apply_set.begin(infos)

    def apply(self, info: ResourceInfo) -> None:
        if info.kind.is_namespaced:
            self._namespaces[info.namespace] = None
        info.value = with_change_cause(info.value, self._options.record)
        metadata = info.value.get("metadata") or {}
        if not info.name and metadata.get("generateName"):
            raise KubectlError(f"from {metadata['generateName']}: cannot use generate name with apply")
        if self._options.server_side:
            info.subresource = self._options.subresource
            value = apply_on_server(self._writer, info, force=self._options.force_conflicts)
            self._report(value, "serverside-applied")
        else:
            self._apply_on_client(info)

    def _apply_on_client(self, info: ResourceInfo) -> None:
        modified = with_last_applied(info.value)
        live = self._live(info)
        if live is None:
            self._create(info, modified)
            return
        self._uids.add(live["metadata"].get("uid", ""))
        if last_applied_text(live) is None:
            click.echo(_MISSING.format(f"{info.kind.plural}/{info.name}"), err=True)
        if self._dry_run == "client":
            patch, media = self._patcher.patch_of(info, live, modified)
            value = self._patcher.patch_locally(info, live, patch, media) if patch else live
        else:
            patch, value = self._patcher.send(info, live, modified)
        self._report(value, "configured" if patch else "unchanged")

    def _live(self, info: ResourceInfo) -> dict[str, Any] | None:
        group = f"{info.kind.group}/{info.kind.version}"
        operation = (
            f'error when retrieving current configuration of:\nResource: "{group}, Resource={info.kind.plural}", '
            f'GroupVersionKind: "{group}, Kind={info.kind.kind}"\nName: "{info.name}", Namespace: '
            f'"{info.namespace}"\nfrom server for: "{info.source}"'
        )
        if not info.name:
            raise KubectlError(f"{operation}: resource name may not be empty")
        try:
            live: dict[str, Any] = self._factory.session.get(info.path)
        except ServerError as error:
            if error.is_not_found:
                return None
            raise error.add_context(operation) from None
        return live

    def _create(self, info: ResourceInfo, modified: dict[str, Any]) -> None:
        value = without_nulls(modified)
        if self._dry_run != "client":
            try:
                value = self._writer.create(info, value)
            except ServerError as error:
                raise error.add_context(f'error when creating "{info.source}"') from None
        self._report(value, "created", warns=False)

    def _report(self, value: dict[str, Any], operation: str, *, warns: bool = True) -> None:
        self._uids.add(value["metadata"].get("uid", ""))
        if warns:
            warn_if_deleted(value)
        if self._printer.prints_objects:
            self._applied.append(value)
        else:
            self._printer.print(value, operation)

    def finish(self) -> None:
        """Print the objects in the format of -o, and prune."""
        if len(self._applied) == 1:
            self._printer.print(self._applied[0], "")
        elif self._applied:
            value = {"kind": "List", "apiVersion": "v1", "metadata": {}, "items": self._applied}
            self._printer.print(value, "")
        if self._apply_set is not None:
            self._prune(list(self._apply_set.prunable_objects(self._uids)))
            self._apply_set.finish()
        elif self._options.prune:
            selector = self._options.selector
            self._prune(prunable_objects(self._factory, self._types, self._namespaces, self._uids, selector))

    def _prune(self, infos: Iterable[ResourceInfo]) -> None:
        for info in infos:
            self._deletion.delete(info)
            self._printer.print(info.value, "pruned")


def without_nulls(value: Any) -> Any:
    """Return a value without null fields, which a create request must not contain."""
    if isinstance(value, dict):
        return {key: without_nulls(part) for key, part in value.items() if part is not None}
    return [without_nulls(part) for part in value] if isinstance(value, list) else value


def warn_if_deleted(value: dict[str, Any] | None) -> None:
    """Warn about a change of an object that is being deleted."""
    metadata = (value or {}).get("metadata") or {}
    if metadata.get("deletionTimestamp"):
        name = metadata["name"]
        click.echo(f"Warning: Detected changes to resource {name} which is currently being deleted.", err=True)
