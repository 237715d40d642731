"""`kubectl set env`: change the environment of containers.

References of environment variables to ConfigMaps, Secrets, fields and resources are resolved as in
`cmd/set/env/env_resolve.go`.
"""

from __future__ import annotations

import base64
import re
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import click

from sampan.api import names
from sampan.api.go_compat import gotext
from sampan.api.values import quantity
from sampan.kubectl.client.factory import Factory
from sampan.kubectl.command import KubectlCommand
from sampan.kubectl.command_line.flag_parser import quote_text
from sampan.kubectl.command_line.flags import bool_flag, string_array_flag, string_flag, string_slice_flag
from sampan.kubectl.command_line.shared_flags import (
    FilenameOptions,
    check_all_and_selectors,
    check_local,
    dry_run_strategy,
)
from sampan.kubectl.commands.set.feature_change import SelectingSetOptions, apply_changes, select_objects
from sampan.kubectl.errors import KubectlError, ServerError
from sampan.kubectl.objects.pod_template import compute_patches, containers_of, pod_spec_of, warn
from sampan.kubectl.objects.targets import ResourceInfo
from sampan.kubectl.printers.results import ResultPrinter
from sampan.machinery.cli_errors import CliError

Variable = dict[str, Any]
_is_variable = re.compile(r".+=.*", re.DOTALL).fullmatch


@dataclass(frozen=True, slots=True, kw_only=True)
class EnvOptions(SelectingSetOptions):
    containers: str = string_flag(
        "-c", "--containers", default="*", metavar="NAME", help="Containers to change; may contain asterisks."
    )
    source: str = string_flag("--from", metavar="TYPE/NAME", help="ConfigMap or Secret with the variables.")
    prefix: str = string_flag("--prefix", help="Prefix of the variables' names.")
    pairs: tuple[str, ...] = string_array_flag("-e", "--env", metavar="NAME=VALUE", help="Variable to set; repeatable.")
    keys: tuple[str, ...] = string_slice_flag("--keys", metavar="KEY,...", help="Keys to import with --from.")
    lists: bool = bool_flag("--list", help="Show the environment of the containers.")
    resolve: bool = bool_flag("--resolve", help="With --list, show the values of references.")
    overwrite: bool = bool_flag(
        "--overwrite", default=True, help="Allow changes of existing variables. True by default."
    )


@KubectlCommand.define("env", EnvOptions)
def command(factory: Factory, options: EnvOptions) -> None:
    """Change the environment of containers."""
    check_all_and_selectors(options.selects_all, options.selector)
    resources, texts = _split_words(options.words)
    dry_run = dry_run_strategy(options.dry_run)
    printer = ResultPrinter(options.output, dry_run)
    check_local(options.local, dry_run)
    _check_flags(resources, options)
    added, removed = parse_variables([*options.pairs, *texts])
    if options.source:
        added += _import_variables(factory, options)
    added = [{**variable, "name": options.prefix + variable["name"]} for variable in added]
    infos = select_objects(factory, () if options.local else resources, options)
    references = EnvReferences(factory)

    def change(value: dict[str, Any], info: ResourceInfo) -> None:
        containers = containers_of(pod_spec_of(value, info), options.containers)
        if not containers:
            pattern = quote_text(options.containers)
            warn(f"{info.kind.kind}/{info.name} does not have any containers matching {pattern}")
        is_resolved = True
        for container in containers:
            current = container.get("env") or []
            if not options.overwrite:
                _check_overwrites(current, added)
            env = change_env(current, added, removed)
            container |= {"env": env} if env or "env" in container else {}
            if options.lists:
                is_resolved &= _list(info, container, references if options.resolve else None)
        if not is_resolved:
            raise CliError("failed to retrieve valueFrom references")

    if options.lists:
        for _ in compute_patches(infos, change):
            pass
        return
    apply_changes(
        infos,
        change,
        factory=factory,
        options=options,
        dry_run=dry_run,
        printer=printer,
        operation="env updated",
        failure="failed to patch env update to pod template:",
    )


def _split_words(words: Sequence[str]) -> tuple[list[str], list[str]]:
    resources: list[str] = []
    texts: list[str] = []
    for word in words:
        if _is_variable(word) or word.endswith("-"):
            texts.append(word)
        elif texts:
            raise KubectlError(f"all resources must be specified before environment changes: {' '.join(words)}")
        else:
            resources.append(word)
    return resources, texts


def _check_flags(resources: Sequence[str], options: EnvOptions) -> None:
    if not (options.files.filenames or resources):
        raise KubectlError("one or more resources must be specified as <resource> <name> or <resource>/<name>")
    if options.lists and options.output.format:
        raise KubectlError("--list and --output may not be specified together")
    if options.keys and not options.source:
        raise KubectlError("when specifying --keys, a configmap or secret must be provided with --from")


def parse_variables(texts: Sequence[str]) -> tuple[list[Variable], list[str]]:
    """Parse NAME=VALUE, NAME- and `-` for lines of standard input."""
    added: list[Variable] = []
    removed: list[str] = []
    for text in texts:
        if text == "-":
            added += _read_variables(sys.stdin.read())
        elif "=" in text:
            name, _, value = text.partition("=")
            if errors := names.env_var_name(name):
                raise KubectlError(f"{quote_text(name)} is not a valid key name: {';'.join(errors)}")
            added.append({"name": name, "value": value})
        elif text.endswith("-"):
            removed.append(text[:-1])
        else:
            raise KubectlError(f"unknown environment variable: {text}")
    if any(variable["name"] in removed for variable in added):
        raise KubectlError("can not both modify and remove the same environment variable in the same command")
    return added, removed


def _read_variables(text: str) -> list[Variable]:
    lines = [line.partition("#")[0] for line in text.splitlines()]
    pairs = [line.partition("=") for line in lines if "=" in line]
    return [{"name": name, "value": value} for name, _, value in pairs]


def _import_variables(factory: Factory, options: EnvOptions) -> list[Variable]:
    """Return a variable for each key of the ConfigMaps and Secrets of --from, with a reference to the key."""
    variables: list[Variable] = []
    for info in select_objects(factory, [options.source], options, files=FilenameOptions()):
        fields = {"ConfigMap": "configMapKeyRef", "Secret": "secretKeyRef"}
        if info.kind.kind not in fields:
            raise KubectlError("unsupported resource specified in --from")
        for key in info.value.get("data") or ():
            if options.keys and key not in options.keys:
                continue
            name = re.sub("[^a-zA-Z0-9_]", "_", key).upper()
            if name != key:
                warn(f"key {key} transferred to {name}")
            reference = {fields[info.kind.kind]: {"name": info.name, "key": key}}
            variables.append({"name": name, "valueFrom": reference})
    return variables


def change_env(current: Sequence[Variable], added: Sequence[Variable], removed: Sequence[str]) -> list[Variable]:
    """Return the environment after the change. Changed variables keep their positions. If a new variable is given
    twice, the first one counts."""
    newer: dict[str, Variable] = {}
    for variable in added:
        newer.setdefault(variable["name"], variable)
    result = [newer.pop(variable["name"], variable) for variable in current if variable["name"] not in removed]
    return result + [variable for name, variable in newer.items() if name not in removed]


def _check_overwrites(current: Sequence[Variable], added: Sequence[Variable]) -> None:
    values = {variable["name"]: variable.get("value", "") for variable in reversed(current)}
    for variable in added:
        name = variable["name"]
        if name in values and values[name] != variable.get("value", ""):
            raise CliError(f"'{name}' already has a value ({values[name]}), and --overwrite is false")


def _list(info: ResourceInfo, container: dict[str, Any], references: EnvReferences | None) -> bool:
    """Print the environment of a container. Return whether all references could be resolved."""
    click.echo(f"# {info.kind.kind} {info.name}, container {container['name']}")
    problems: dict[str, list[str]] = {}
    for variable in container.get("env") or ():
        source = variable.get("valueFrom")
        if source is None:
            click.echo(f"{variable['name']}={variable.get('value', '')}")
            continue
        if references is not None:
            try:
                value = references.value(source, info, container)
            except CliError as error:
                problems.setdefault(error.message, []).append(variable["name"])
            else:
                click.echo(f"{variable['name']}={value}")
                continue
        click.echo(f"# {variable['name']} from {reference_text(source)}")
    lines = [f"error retrieving reference for {', '.join(sorted(v))}: {text}" for text, v in problems.items()]
    for line in sorted(lines):
        click.echo(line, err=True)
    return not problems


def reference_text(source: dict[str, Any]) -> str:
    """Return the source of an environment variable as `kubectl set env --list` describes it."""
    if reference := source.get("configMapKeyRef"):
        return f"configmap {reference.get('name', '')}, key {reference['key']}"
    if reference := source.get("secretKeyRef"):
        return f"secret {reference.get('name', '')}, key {reference['key']}"
    if reference := source.get("fieldRef"):
        return f"field path {reference['fieldPath']}"
    if reference := source.get("resourceFieldRef"):
        prefix = f"{reference['containerName']}/" if reference.get("containerName") else ""
        return f"resource field {prefix}{reference['resource']}"
    return "invalid valueFrom"


class EnvReferences:
    """Resolves references with requests to the server. Each ConfigMap and Secret is read once."""

    def __init__(self, factory: Factory) -> None:
        self._factory = factory
        self._data: dict[str, dict[str, str]] = {}

    def value(self, source: dict[str, Any], info: ResourceInfo, container: dict[str, Any]) -> str:
        """Return the value of a reference. Raise CliError if there is none."""
        if reference := source.get("secretKeyRef"):
            return base64.b64decode(self._entry("secrets", "secret", reference)).decode("utf-8", "replace")
        if reference := source.get("configMapKeyRef"):
            return self._entry("configmaps", "config map", reference)
        if reference := source.get("fieldRef"):
            return field_text(info.value, reference["fieldPath"])
        if reference := source.get("resourceFieldRef"):
            return resource_text(container.get("resources") or {}, reference)
        raise CliError("invalid valueFrom")

    def _entry(self, plural: str, kind: str, reference: dict[str, Any]) -> str:
        path = f"/api/v1/namespaces/{self._factory.namespace}/{plural}/{reference['name']}"
        if path not in self._data:
            try:
                self._data[path] = self._factory.session.get(path).get("data") or {}
            except ServerError as error:
                raise CliError(error.error.message) from None
        if reference["key"] not in self._data[path]:
            raise CliError(f"key {reference['key']} not found in {kind} {reference['name']}")
        return self._data[path][reference["key"]]


def field_text(value: dict[str, Any], path: str) -> str:
    """Return a field of an object's metadata as the kubelet writes it."""
    metadata = value["metadata"]
    field, bracket, key = path.removesuffix("']").rpartition("['")
    if field and bracket and path.endswith("']"):
        if field not in ("metadata.annotations", "metadata.labels"):
            raise CliError(f"fieldPath {gotext.quote(path)} does not support subscript")
        return str((metadata.get(field.removeprefix("metadata.")) or {}).get(key, ""))
    if path in ("metadata.annotations", "metadata.labels"):
        entries = metadata.get(path.removeprefix("metadata.")) or {}
        return "\n".join(f"{key}={gotext.quote(text)}" for key, text in sorted(entries.items()))
    if path in ("metadata.name", "metadata.namespace", "metadata.uid"):
        return str(metadata.get(path.removeprefix("metadata.")) or "")
    raise CliError(f"unsupported fieldPath: {path}")


def resource_text(resources: dict[str, Any], reference: dict[str, Any]) -> str:
    """Return an amount of a container's resources, divided and rounded up."""
    section, _, name = reference["resource"].partition(".")
    is_known = name in ("cpu", "memory", "ephemeral-storage") or name.startswith("hugepages-")
    if section not in ("limits", "requests") or not is_known:
        raise CliError(f"Unsupported container resource : {reference['resource']}")
    amount = quantity.parse(str((resources.get(section) or {}).get(name, "0")))
    divisor = quantity.parse(str(reference.get("divisor") or "0"))
    if not divisor:
        divisor = quantity.parse("1")
    if name == "cpu":
        return str(-(-amount.milli_value() // divisor.milli_value()))
    return str(-(-amount.value() // divisor.value()))
