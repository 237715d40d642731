"""Variables of kustomizations: `$(NAME)` stands for a field of an object (kustomize's filters/refvar). They are
deprecated in favor of replacements.

A variable names its object as the file of the object does; the value is read after all names have been changed.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import click

from sampan.kubectl.errors import KubectlError
from sampan.kubectl.kustomization.resource import FieldSpec, KustomizeResource, holders

_REFERENCE = re.compile(r"\$(?:\$|\(([^()$]*)\))")
_INDEX = re.compile(r"\[(\d{1,9})\]$", re.ASCII)
_PART = re.compile(r"(?:\\.|[^.\\])+")
_POD_FIELDS = tuple(
    f"{containers}/{name}"
    for containers in ("containers", "initContainers")
    for name in ("args", "command", "env/value", "volumeMounts/mountPath")
)


def _field_specs() -> Iterator[FieldSpec]:
    """Yield the fields in which variables are replaced."""
    paths = dict.fromkeys(("DaemonSet", "Deployment", "Job", "ReplicaSet", "StatefulSet"), "spec/template")
    for kind, path in {**paths, "CronJob": "spec/jobTemplate/spec/template"}.items():
        yield from (FieldSpec(f"{path}/spec/{name}", kind) for name in _POD_FIELDS)
    yield from (FieldSpec(f"spec/{name}", "Pod") for name in _POD_FIELDS)
    volumes = {kind: f"{path}/spec/volumes" for kind, path in paths.items() if kind != "StatefulSet"}
    volumes |= {"CronJob": "spec/jobTemplate/spec/template/volumes", "Pod": "spec/volumes"}
    volumes |= {"StatefulSet": "spec/volumeClaimTemplates/spec", "PersistentVolume": "spec"}
    yield from (FieldSpec(f"{path}/nfs/server", kind) for kind, path in volumes.items())
    yield FieldSpec("spec/template/metadata/annotations", "Deployment")
    yield from (FieldSpec(f"spec/{name}", "Ingress") for name in ("rules/host", "tls/hosts", "tls/secretName"))
    yield from (FieldSpec(f"spec/ports/{name}", "Service") for name in ("port", "targetPort"))
    yield from (FieldSpec("metadata/labels"), FieldSpec("metadata/annotations"))


_FIELD_SPECS = tuple(_field_specs())


@dataclass(frozen=True, slots=True, kw_only=True)
class KustomizeVariable:
    name: str
    group: str
    version: str
    kind: str
    object_name: str
    namespace: str
    path: str

    @property
    def text(self) -> str:
        """The variable as kustomize names it in errors."""
        return f"{{{self.name} {self.kind}.{self.version or '[noVer]'}.{self.group or '[noGrp]'} {{{self.path}}}}}"

    def refers_to(self, resource: KustomizeResource) -> bool:
        if (resource.group, resource.version, resource.kind) != (self.group, self.version, self.kind):
            return False
        return resource.had_name(self.object_name, self.namespace or None)


@dataclass(slots=True)
class VariableSet:
    """The variables of a kustomization and its bases, with the objects that they refer to."""

    _variables: dict[str, KustomizeVariable] = field(default_factory=dict)
    _objects: dict[str, KustomizeResource] = field(default_factory=dict)

    def add_all(self, entries: Sequence[Mapping[str, Any]], resources: Sequence[KustomizeResource]) -> None:
        """Add the variables of one kustomization, and find their objects among those that it has. Raise KubectlError if
        a name is not unique."""
        variables = [_variable(entry) for entry in entries]
        for variable in variables:
            matches = [resource for resource in resources if variable.refers_to(resource)]
            if len(matches) > 1:
                raise KubectlError(
                    f"merging vars {_list_text(entries)}: found {len(matches)} resId matches for var {variable.text} "
                    "(unable to disambiguate)"
                )
            if variable.name in self._variables:
                raise KubectlError(f"merging vars {_list_text(entries)}: var '{variable.name}' already encountered")
            self._variables[variable.name] = variable
            if matches:
                self._objects[variable.name] = matches[0]

    def replace_all(self, resources: Sequence[KustomizeResource]) -> None:
        """Replace the variables in all fields that may contain them. Raise KubectlError if a variable has no value."""
        values = {name: self._value(self._variables[name]) for name in sorted(self._variables)}
        if not values:
            return
        replacer = _VariableReplacer(values)
        for resource in resources:
            for spec in _FIELD_SPECS:
                if spec.applies_to(resource):
                    for holder, key in holders(resource.value, spec.path, creates=False):
                        holder[key] = replacer.replace(holder[key])
            _convert_annotations(resource)
        if unused := sorted(set(values) - replacer.used):
            click.echo(f"well-defined vars that were never replaced: {','.join(unused)}", err=True)

    def _value(self, variable: KustomizeVariable) -> Any:
        resource = self._objects.get(variable.name)
        if resource is None:
            raise KubectlError(f"var '{variable.text}' cannot be mapped to a field in the set of known resources")
        value: Any = resource.value
        for key in _keys(variable.path):
            try:
                value = value[key]
            except (KeyError, IndexError, TypeError):
                value = None
        if value is None:
            raise KubectlError(f"field specified in var '{variable.text}' not found in corresponding resource")
        return value


def check_types(entries: Sequence[Mapping[str, Any]]) -> None:
    """Raise KubectlError for the first field of a variable that is not a string. In YAML, for example, an unquoted N is
    a boolean."""
    for entry in entries:
        fields = [("Var.vars.name", entry.get("name"))]
        for key, struct in (("objref", "Target"), ("fieldref", "FieldSelector")):
            part = entry.get(key)
            if part is not None and not isinstance(part, dict):
                raise KubectlError(f"invalid Kustomization: the field vars.{key} must be an object")
            fields += [(f"{struct}.vars.{key}.{name}", value) for name, value in (part or {}).items()]
        for field_name, value in fields:
            if value is not None and not isinstance(value, str):
                kind = {bool: "bool", list: "array", dict: "object"}.get(type(value), "number")
                reason = f"json: cannot unmarshal {kind} into Go struct field {field_name} of type string"
                raise KubectlError(f"invalid Kustomization: {reason}")


def _variable(entry: Mapping[str, Any]) -> KustomizeVariable:
    target, source = entry.get("objref") or {}, entry.get("fieldref") or {}
    group, slash, version = str(target.get("apiVersion") or "").partition("/")
    group, version = (group, version) if slash else ("", group)
    return KustomizeVariable(
        name=str(entry.get("name") or ""),
        group=group or str(target.get("group") or ""),
        version=version or str(target.get("version") or ""),
        kind=str(target.get("kind") or ""),
        object_name=str(target.get("name") or ""),
        namespace=str(target.get("namespace") or ""),
        path=str(source.get("fieldPath") or "metadata.name"),
    )


def _list_text(entries: Sequence[Mapping[str, Any]]) -> str:
    """Return the variables as kustomize lists them, before their defaults are set."""
    parts = []
    for entry in entries:
        target, source = entry.get("objref") or {}, entry.get("fieldref") or {}
        kind = f"{target.get('kind', '')}.{target.get('version') or '[noVer]'}.{target.get('group') or '[noGrp]'}"
        parts.append(f"{{{entry.get('name', '')} {kind} {{{source.get('fieldPath') or ''}}}}}")
    return f"[{' '.join(parts)}]"


def _keys(path: str) -> Iterator[str | int]:
    """Yield the keys of `spec.ports[0].port`; a backslash escapes a dot."""
    for part in _PART.findall(path):
        indexes: list[int] = []
        while match := _INDEX.search(part):
            indexes.insert(0, int(match[1]))
            part = part[: match.start()]
        if part:
            yield part.replace("\\.", ".")
        yield from indexes


class _VariableReplacer:
    def __init__(self, values: Mapping[str, Any]) -> None:
        self._values = values
        self.used: set[str] = set()

    def replace(self, value: Any) -> Any:
        """Replace the variables in a text, or in the texts of a list or object. A value that is nothing but a variable
        gets the variable's type."""
        if isinstance(value, str):
            return self._replace_in_text(value)
        if isinstance(value, dict):
            return {key: self._replace_in_text(item) if isinstance(item, str) else item for key, item in value.items()}
        if isinstance(value, list):
            if not all(isinstance(item, str) for item in value):
                raise KubectlError("invalid value type expect a string")
            return [self._replace_in_text(item) for item in value]
        return value

    def _replace_in_text(self, text: str) -> Any:
        match = _REFERENCE.fullmatch(text)
        if match is not None and match[1] is not None and self._has_primitive(match[1]):
            self.used.add(match[1])
            return self._values[match[1]]
        return _REFERENCE.sub(self._text_of, text)

    def _text_of(self, match: re.Match[str]) -> str:
        name = match[1]
        if name is None:
            return "$"
        if not self._has_primitive(name):
            return match[0]
        self.used.add(name)
        return str(_as_text(self._values[name]))

    def _has_primitive(self, name: str) -> bool:
        return name in self._values and not isinstance(self._values[name], (list, dict))


def _convert_annotations(resource: KustomizeResource) -> None:
    """Turn numbers that have become annotations into texts."""
    annotations = resource.metadata.get("annotations")
    if isinstance(annotations, dict):
        resource.metadata["annotations"] = {key: _as_text(value) for key, value in annotations.items()}


def _as_text(value: Any) -> Any:
    if value is None or isinstance(value, str):
        return value
    return str(value).lower() if isinstance(value, bool) else str(value)
