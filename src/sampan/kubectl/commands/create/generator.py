"""Code that all generators of `kubectl create` share: their flags, the request, the report, and parts of the generated
objects such as metadata, containers and label selectors.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Protocol, TypeVar

from sampan.kubectl.client.factory import Factory
from sampan.kubectl.client.session import ConnectionFailure
from sampan.kubectl.command import KubectlCommand
from sampan.kubectl.command_line.flags import arguments, arguments_before_dash, flag_group
from sampan.kubectl.command_line.shared_flags import (
    dry_run_flag,
    dry_run_strategy,
    field_manager_flag,
    save_config_flag,
    validate_flag,
    validation_directive,
)
from sampan.kubectl.errors import KubectlError, ServerError, UsageError
from sampan.kubectl.objects.last_applied import with_last_applied
from sampan.kubectl.objects.object_writer import ObjectWriter
from sampan.kubectl.objects.targets import ResourceInfo
from sampan.kubectl.printers import OutputOptions, output_flags
from sampan.kubectl.printers.results import ResultPrinter
from sampan.machinery.cli_errors import CliError

RBAC_GROUP = "rbac.authorization.k8s.io"


@dataclass(frozen=True, slots=True, kw_only=True)
class CreationOptions:
    """The flags that all generators have after their own."""

    output: OutputOptions = output_flags()
    save_config: bool = save_config_flag()
    validate: str = validate_flag()
    dry_run: str = dry_run_flag()
    field_manager: str = field_manager_flag("kubectl-create")


def creation_flags() -> CreationOptions:
    return flag_group(CreationOptions)


@dataclass(frozen=True, slots=True, kw_only=True)
class NameOptions:
    """The words of the command line of a generator."""

    words: tuple[str, ...] = arguments()
    words_before_dash: int = arguments_before_dash()

    @property
    def command(self) -> tuple[str, ...]:
        """The words after the name."""
        return self.words[1:]


class NamedOptions(Protocol):
    @property
    def words(self) -> tuple[str, ...]: ...
    @property
    def words_before_dash(self) -> int: ...


class GeneratorOptions(NamedOptions, Protocol):
    """A subclass of `NameOptions` with the field `creation`, which has the flags of `creation_flags`."""

    @property
    def creation(self) -> CreationOptions: ...


T = TypeVar("T", bound=GeneratorOptions)
Generate = Callable[[Factory, str, str, T], dict[str, Any]]
"""Returns the object of a name and a namespace that options describe. The namespace is empty without --namespace."""


def generator_command(
    name: str,
    options_type: type[T],
    generate: Generate[T],
    *,
    help: str,
    failure: str | None = None,
    aliases: Sequence[str] = (),
) -> KubectlCommand:
    """Return a command that creates an object. `failure` precedes the message of a failed request; without it, the
    server's error is printed as it is."""

    def run(factory: Factory, options: T) -> None:
        creation, object_name = options.creation, only_name(options)
        dry_run = dry_run_strategy(creation.dry_run)
        # The generated object has its fields in kubectl's order, which is not that of their names.
        printer = ResultPrinter(creation.output, dry_run, is_sorted=dry_run != "client")
        validation = validation_directive(creation.validate)
        if not object_name and name not in _NAMELESS:
            raise KubectlError("name must be specified")
        value = generate(factory, object_name, factory.options.namespace, options)
        if creation.save_config:
            value = with_last_applied(value)
        if dry_run != "client":
            writer = ObjectWriter(
                session=factory.session,
                field_manager=creation.field_manager,
                dry_run=dry_run,
                validation=validation,
            )
            value = _create(factory, writer, value, failure)
        printer.print(value, "created")

    return KubectlCommand(name, options_type=options_type, run=run, help=help, aliases=aliases)


def pure(generate: Callable[[str, str, T], dict[str, Any]]) -> Generate[T]:
    """Return the generator of a function that needs no server."""
    return lambda _factory, name, namespace, options: generate(name, namespace, options)


_NAMELESS = frozenset(("deployment", "job", "cronjob", "clusterip", "nodeport", "loadbalancer", "externalname"))
"""Commands that do not reject an empty name themselves. As in kubectl, the server does."""


def only_name(options: NamedOptions) -> str:
    """Return the only word before `--`, which is the name of the object. Raise UsageError unless there is exactly
    one."""
    count = len(options.words) if options.words_before_dash == -1 else options.words_before_dash
    if count != 1:
        raise UsageError(f"exactly one NAME is required, got {count}")
    return options.words[0]


def _create(factory: Factory, writer: ObjectWriter, value: dict[str, Any], failure: str | None) -> dict[str, Any]:
    try:
        kind = factory.kinds.find_by_kind(value["apiVersion"], value["kind"])
        info = ResourceInfo(kind, factory.namespace if kind.is_namespaced else "", value["metadata"].get("name", ""))
        return writer.create(info, value)
    except ConnectionFailure as error:
        raise error.add_context(failure.removesuffix(":")) if failure is not None else error from None
    except ServerError as error:
        if failure is None:
            raise
        raise KubectlError(f"{failure} {error.error.message}") from None


def metadata(name: str, namespace: str = "", **more: Any) -> dict[str, Any]:
    """Return an object's metadata without empty fields."""
    fields = {"name": name, "namespace": namespace, **more}
    return {key: value for key, value in fields.items() if value}


def container(name: str, image: str, command: Sequence[str] = (), ports: Sequence[int] = ()) -> dict[str, Any]:
    fields: dict[str, Any] = {"name": name, "image": image}
    if command:
        fields["command"] = list(command)
    if ports:
        fields["ports"] = [{"containerPort": port} for port in ports]
    return fields | {"resources": {}}


def subjects(users: Sequence[str], groups: Sequence[str], service_accounts: Sequence[str]) -> list[dict[str, str]]:
    """Return the subjects of a role binding. A service account has the form namespace:name."""
    result = [{"kind": "User", "apiGroup": RBAC_GROUP, "name": user} for user in users]
    result += [{"kind": "Group", "apiGroup": RBAC_GROUP, "name": group} for group in groups]
    for account in service_accounts:
        parts = account.split(":")
        if len(parts) != 2 or not all(parts):
            raise CliError("serviceaccount must be <namespace>:<name>")
        result.append({"kind": "ServiceAccount", "name": parts[1], "namespace": parts[0]})
    return result


def label_selector(text: str) -> dict[str, Any]:
    """Return the LabelSelector for the text of a selector: equalities become matchLabels, all other requirements become
    matchExpressions."""
    from sampan.api.selectors import labels
    from sampan.api.selectors.label_grammar import SelectorError
    from sampan.api.selectors.labels import Operator

    try:
        requirements = labels.parse(text).requirements
    except SelectorError as error:
        raise CliError(f'couldn\'t parse the selector string "{text}": {error}') from None
    operators = {
        Operator.IN: "In",
        Operator.NOT_IN: "NotIn",
        Operator.EXISTS: "Exists",
        Operator.DOES_NOT_EXIST: "DoesNotExist",
    }
    match_labels: dict[str, str] = {}
    expressions: list[dict[str, Any]] = []
    for requirement in requirements:
        if requirement.operator in (Operator.EQUALS, Operator.DOUBLE_EQUALS):
            match_labels[requirement.key] = requirement.values[0]
        elif requirement.operator not in operators:
            raise CliError(f'"{requirement.operator.value}" isn\'t supported in label selectors')
        else:
            values = {"values": sorted(requirement.values)} if requirement.values else {}
            expressions.append({"key": requirement.key, "operator": operators[requirement.operator], **values})
    fields = {"matchLabels": match_labels, "matchExpressions": expressions}
    return {key: value for key, value in fields.items() if value}
