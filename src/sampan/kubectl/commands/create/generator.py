"""Code that all generators of `kubectl create` share: their flags, the request, the report, and parts of the generated
objects such as metadata, containers and label selectors.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import click

from sampan.kubectl.client.factory import Factory
from sampan.kubectl.client.session import ConnectionFailure
from sampan.kubectl.command_line.command import ARGS_BEFORE_DASH, KubectlCommand
from sampan.kubectl.command_line.shared_options import (
    Decorator,
    combine_options,
    dry_run_of,
    dry_run_option,
    field_manager_option,
    output_options,
    validate_option,
    validation_of,
)
from sampan.kubectl.errors import KubectlError, ServerError, UsageError
from sampan.kubectl.objects.last_applied import with_last_applied
from sampan.kubectl.objects.object_writer import ObjectWriter, ResultPrinter, save_config_option
from sampan.kubectl.objects.targets import ResourceInfo
from sampan.machinery.cli_errors import CliError

Generate = Callable[..., dict[str, Any]]
RBAC_GROUP = "rbac.authorization.k8s.io"


def generator_command(
    name: str,
    *options: Decorator,
    help: str,
    failure: str | None = None,
    aliases: Sequence[str] = (),
    takes_command: bool = False,
    needs_factory: bool = False,
) -> Callable[[Generate], KubectlCommand]:
    """Make a command of a function from a name, a namespace and the command's own flags to an object.

    `failure` precedes the message of a failed request; without it, the server's error is printed as it is. With
    `takes_command`, words after the name are the parameter `command`; with `needs_factory`, the function gets the
    factory as the parameter `factory`.
    """

    def decorate(generate: Generate) -> KubectlCommand:
        @click.pass_obj
        def run(factory: Factory, /, words: tuple[str, ...], **flags: Any) -> None:
            object_name = name_of_words(words)
            own = {key: flag for key, flag in flags.items() if key not in _SHARED}
            own |= {"command": words[1:]} if takes_command else {}
            own |= {"factory": factory} if needs_factory else {}
            dry_run = dry_run_of(flags)
            # The generated object has its fields in kubectl's order, which is not that of their names.
            printer = ResultPrinter(flags, is_sorted=dry_run != "client")
            validation = validation_of(flags)
            if not object_name and name not in _NAMELESS:
                raise KubectlError("name must be specified")
            value = generate(object_name, factory.flags.get("namespace") or "", **own)
            if flags["save_config"]:
                value = with_last_applied(value)
            if dry_run != "client":
                writer = ObjectWriter(
                    session=factory.session,
                    field_manager=flags["field_manager"],
                    dry_run=dry_run,
                    validation=validation,
                )
                value = _create(factory, writer, value, failure)
            printer.print(value, "created")

        decorated = combine_options(click.argument("words", nargs=-1), *options, *_shared_options())(run)
        return click.command(name, cls=KubectlCommand, help=help, aliases=aliases)(decorated)

    return decorate


_SHARED = frozenset(
    ("output", "template", "allow_missing_template_keys", "show_managed_fields", "save_config", "validate")
) | {"dry_run", "field_manager"}
_NAMELESS = frozenset(("deployment", "job", "cronjob", "clusterip", "nodeport", "loadbalancer", "externalname"))
"""Commands that do not reject an empty name themselves. As in kubectl, the server does."""


def _shared_options() -> tuple[Decorator, ...]:
    return (
        output_options(),
        save_config_option(),
        validate_option(),
        dry_run_option(),
        field_manager_option("kubectl-create"),
    )


def name_of_words(words: Sequence[str]) -> str:
    """Return the only word before `--`, which is the name of the object. Raise UsageError unless there is exactly
    one."""
    before_dash = click.get_current_context().meta[ARGS_BEFORE_DASH]
    count = len(words) if before_dash == -1 else before_dash
    if count != 1:
        raise UsageError(f"exactly one NAME is required, got {count}")
    return words[0]


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
