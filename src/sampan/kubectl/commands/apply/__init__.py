"""`kubectl apply`: bring objects to the state of their configuration in files, on the client or on the server side."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import click

from sampan.kubectl.client.factory import Factory
from sampan.kubectl.command_line.command import CHANGED_FLAGS, LateGroup
from sampan.kubectl.command_line.shared_options import (
    dry_run_of,
    dry_run_option,
    field_manager_option,
    filename_flags,
    filename_options,
    output_options,
    selector_option,
    subresource_option,
    validate_option,
    validation_of,
)
from sampan.kubectl.commands.apply.apply_set import ApplySet, is_enabled
from sampan.kubectl.commands.apply.patcher import ApplyPatcher, PatchSchemas
from sampan.kubectl.commands.apply.prune import prunable_objects, prunable_types
from sampan.kubectl.commands.apply.server_side import SERVER_SIDE_MANAGER, apply_on_server
from sampan.kubectl.errors import ErrorAggregate, KubectlError, ServerError, UsageError
from sampan.kubectl.objects.deletion import Deletion, cascade_policy, deletion_options
from sampan.kubectl.objects.last_applied import LAST_APPLIED, last_applied_text, with_last_applied
from sampan.kubectl.objects.object_writer import ObjectWriter, ResultPrinter, record_option, with_change_cause
from sampan.kubectl.objects.targets import ResourceInfo

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


@click.command(
    "apply",
    cls=LateGroup,
    package=__name__,
    modules={name: (name.replace("-", "_"), ()) for name in _COMMANDS},
    invoke_without_command=True,
)
@click.argument("words", nargs=-1)
@filename_options("to apply")
@deletion_options(waits=False)
@record_option()
@output_options()
@validate_option()
@dry_run_option()
@click.option("--server-side", is_flag=True, help="Let the server merge the configuration with the live object.")
@click.option("--force-conflicts", is_flag=True, help="With --server-side, take fields over from other managers.")
@field_manager_option(CLIENT_SIDE_MANAGER)
@selector_option()
@click.option("--prune", is_flag=True, help="Delete applied objects that are not among the files.")
@click.option(
    "--prune-allowlist", multiple=True, metavar="GROUP/VERSION/KIND", help="Kind that --prune deletes; repeatable."
)
@click.option("--all", "selects_all", is_flag=True, help="Let --prune consider all objects of the namespaces.")
@click.option(
    "--applyset",
    default="",
    hidden=True,
    metavar="[RESOURCE[.GROUP]/]NAME",
    help="Object that records the set of applied objects, for --prune; a Secret unless a resource is given.",
)
@click.option("--overwrite", is_flag=True, default=True, help="Overwrite changes of others. True by default.")
@click.option(
    "--openapi-patch",
    is_flag=True,
    default=True,
    help="Compute patches with the server's OpenAPI document. True by default.",
)
@subresource_option("With --server-side, apply to this subresource.")
@click.pass_obj
def command(factory: Factory, /, words: tuple[str, ...], **options: Any) -> None:
    """Bring objects to the state of their configuration in files. Objects that do not exist are created."""
    if words:
        raise UsageError(f"Unexpected args: [{' '.join(words)}]")
    dry_run = dry_run_of(options)
    files = filename_flags(options)
    if not files:
        raise KubectlError("must specify one of -f and -k")
    files.check()
    validation = validation_of(options)
    run = ApplyRun(factory, options, dry_run, validation)
    builder = factory.resources(files=files, selector=options["selector"], validates=validation == "Strict")
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

    def __init__(self, factory: Factory, options: dict[str, Any], dry_run: str, validation: str) -> None:
        self._factory, self._options, self._dry_run = factory, options, dry_run
        policy = cascade_policy(options["cascade"])
        self._apply_set = self._parent_set(validation)
        self._check_flags()
        has_types = options["prune"] and self._apply_set is None
        self._types = prunable_types(factory, options["prune_allowlist"]) if has_types else []
        self._printer = ResultPrinter(options)
        self._writer = ObjectWriter(
            session=factory.session, field_manager=self._field_manager(), dry_run=dry_run, validation=validation
        )
        self._deletion = Deletion(
            session=factory.session, policy=policy, grace_period=options["grace_period"], dry_run=dry_run, is_quiet=True
        )
        self._patcher = ApplyPatcher(
            writer=self._writer,
            schemas=PatchSchemas(factory.session, uses_openapi=options["openapi_patch"]),
            overwrites=options["overwrite"],
            deletion=self._deletion if options["force"] else None,
            timeout_s=options["timeout_s"],
        )
        self._uids: set[str] = set()
        self._namespaces: dict[str, None] = {factory.namespace: None} if factory.has_namespace_flag else {}
        self._applied: list[dict[str, Any]] = []

    def _parent_set(self, validation: str) -> ApplySet | None:
        reference = self._options["applyset"]
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
        changed = click.get_current_context().meta[CHANGED_FLAGS]
        if self._options["server_side"] and "field_manager" not in changed:
            return SERVER_SIDE_MANAGER
        return str(self._options["field_manager"])

    def _check_flags(self) -> None:
        options = self._options
        is_server_side, is_forced = options["server_side"], options["force"]
        if options["force_conflicts"] and not is_server_side:
            raise KubectlError("--force-conflicts only works with --server-side")
        if self._dry_run == "client" and is_server_side:
            raise KubectlError(
                "--dry-run=client doesn't work with --server-side (did you mean --dry-run=server instead?)"
            )
        if is_server_side and is_forced:
            raise KubectlError("--force cannot be used with --server-side")
        if self._dry_run == "server" and is_forced:
            raise KubectlError("--dry-run=server cannot be used with --force")
        if options["selects_all"] and options["selector"]:
            raise KubectlError("cannot set --all and --selector at the same time")
        if self._apply_set is not None:
            if not options["prune"]:
                raise KubectlError("--applyset requires --prune")
            self._apply_set.check_parent()
        if options["prune"]:
            self._check_prune_flags()
        if options["subresource"] and not is_server_side:
            raise KubectlError("--subresource can only be specified for --server-side")

    def _check_prune_flags(self) -> None:
        if self._options["force"]:
            raise KubectlError("--force cannot be used with --prune")
        if self._apply_set is not None:
            for name in ("selects_all", "selector", "prune_allowlist"):
                if self._options[name]:
                    flag = "all" if name == "selects_all" else name.replace("_", "-")
                    raise KubectlError(f"--{flag} is incompatible with --applyset")
            return
        if not (self._options["selects_all"] or self._options["selector"]):
            raise KubectlError(_ALL_PRUNED)
        if self._options["server_side"]:
            raise KubectlError("--prune is in alpha and doesn't currently work on objects created by server-side apply")

    def begin(self, infos: Sequence[ResourceInfo]) -> None:
        """Record the objects in the parent of --applyset, before they are applied."""
        if self._apply_set is not None:
            self._apply_set.add_labels(infos)
            self._apply_set.begin(infos)

    def apply(self, info: ResourceInfo) -> None:
        if info.kind.is_namespaced:
            self._namespaces[info.namespace] = None
        info.value = with_change_cause(info.value, self._options)
        metadata = info.value.get("metadata") or {}
        if not info.name and metadata.get("generateName"):
            raise KubectlError(f"from {metadata['generateName']}: cannot use generate name with apply")
        if self._options["server_side"]:
            info.subresource = self._options["subresource"]
            value = apply_on_server(self._writer, info, force=self._options["force_conflicts"])
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
        elif self._options["prune"]:
            selector = self._options["selector"]
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
