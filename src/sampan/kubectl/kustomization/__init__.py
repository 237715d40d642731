"""Kustomizations: bases, overlays, generators, patches and transformers (sigs.k8s.io/kustomize/api).

`build` returns the objects of a directory or git repository in the order of kustomize. What is not supported is refused
by name: Helm charts, plugins and own transformer configurations.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from contextlib import ExitStack
from copy import deepcopy
from pathlib import Path
from typing import Any

from sampan.kubectl.command_line.flag_parser import quote_text
from sampan.kubectl.documents import documents
from sampan.kubectl.errors import KubectlError
from sampan.kubectl.kustomization import transformers
from sampan.kubectl.kustomization.generators import generate, name_hash
from sampan.kubectl.kustomization.loader import KustomizationLoader
from sampan.kubectl.kustomization.name_references import fix_references
from sampan.kubectl.kustomization.patches import apply_patch, apply_strategic_merge
from sampan.kubectl.kustomization.replacements import apply_replacement
from sampan.kubectl.kustomization.resource import KustomizeResource
from sampan.kubectl.kustomization.variables import VariableSet

Value = dict[str, Any]

_LOCAL = "config.kubernetes.io/local-config"
_FIRST = (
    "Namespace",
    "ResourceQuota",
    "StorageClass",
    "CustomResourceDefinition",
    "ServiceAccount",
    "PodSecurityPolicy",
    "Role",
    "ClusterRole",
    "RoleBinding",
    "ClusterRoleBinding",
    "ConfigMap",
    "Secret",
    "Endpoints",
    "Service",
    "LimitRange",
    "PriorityClass",
    "PersistentVolume",
    "PersistentVolumeClaim",
    "Deployment",
    "StatefulSet",
    "CronJob",
    "PodDisruptionBudget",
)
_LAST = ("MutatingWebhookConfiguration", "ValidatingWebhookConfiguration")


def build(target: str) -> list[Value]:
    """Return the objects of a kustomization in a directory or a git repository. Raise KubectlError if it is invalid."""
    with ExitStack() as clones:
        try:
            return _build(KustomizationLoader.from_target(target, clones))
        except (AttributeError, KeyError, TypeError, ValueError) as error:
            # Files are not validated: a string in the place of an object, for example, raises one of these.
            reason = f"a field of a kustomization or resource has a value of the wrong type: {error}"
            raise KubectlError(reason) from None


def _build(loader: KustomizationLoader) -> list[Value]:
    kustomization, variables = loader.kustomization(), VariableSet()
    resources = _accumulate(loader, kustomization, [], variables)
    for resource in resources:
        if resource.needs_hash:
            resource.remember_name()
            resource.metadata["name"] = f"{resource.name}-{name_hash(resource.value)}"
    fix_references(resources)
    variables.replace_all(resources)
    deployed_resources = [entry for entry in resources if _LOCAL not in (entry.metadata.get("annotations") or {})]
    return [resource.value for resource in _sort_resources(deployed_resources, kustomization.get("sortOptions") or {})]


def _sort_resources(resources: list[KustomizeResource], options: Mapping[str, Any]) -> list[KustomizeResource]:
    if options.get("order") == "fifo":
        return resources
    legacy = options.get("legacySortOptions") or {}
    first = list(legacy.get("orderFirst") or _FIRST)
    last = list(legacy.get("orderLast") or _LAST)

    def key(resource: KustomizeResource) -> tuple[int, str]:
        kind = resource.kind
        rank = first.index(kind) - len(first) if kind in first else last.index(kind) + 1 if kind in last else 0
        return rank, f"{resource.group}_{resource.version}_{kind}|{resource.namespace}|{resource.name}"

    return sorted(resources, key=key)


# -- accumulation ----------------------------------------------------------------------------------------------------


def _accumulate(
    loader: KustomizationLoader, kustomization: Value, resources: list[KustomizeResource], variables: VariableSet
) -> list[KustomizeResource]:
    """Add the resources of a kustomization to `resources`, which is empty unless the kustomization is a component, and
    transform all of them. Add its variables, and those of its bases, to `variables`."""
    collected = list(resources)
    for name in [*(kustomization.get("resources") or ()), *(kustomization.get("bases") or ())]:
        _add_all(collected, _resources_at(loader, str(name), variables), loader, str(name))
    options = kustomization.get("generatorOptions") or {}
    for kind, field in (("ConfigMap", "configMapGenerator"), ("Secret", "secretGenerator")):
        for arguments in kustomization.get(field) or ():
            _add_generated(collected, generate(kind, arguments, options, loader))
    for name in kustomization.get("components") or ():
        try:
            nested = loader.open_nested(str(name))
        except KubectlError as error:
            raise KubectlError(f"accumulating components: loader.New {quote_text(error.message)}") from None
        component = nested.kustomization()
        if component.get("kind") != "Component":
            raise KubectlError(
                f"accumulating components: accumulateDirectory: \"expected kind 'Component' for path '{name}' but got "
                f"'{component.get('kind', 'Kustomization')}'\""
            )
        collected = _accumulate(nested, component, collected, variables)
    for resource in collected:
        resource.scopes.append(str(loader.directory))
    transformed = _transform(loader, kustomization, collected)
    variables.add_all(kustomization.get("vars") or (), transformed)
    return transformed


def _resources_at(loader: KustomizationLoader, name: str, variables: VariableSet) -> list[KustomizeResource]:
    """Return the resources of a file, or of another kustomization. As in kustomize, a name is first read as a file."""
    try:
        values = list(loader.objects(name))
    except KubectlError as error:
        reason = getattr(error, "cause", error.message)
        file_error = f"accumulation err='accumulating resources from '{name}': {reason}'"
        if (loader.directory / name).is_file() and not error.message.startswith("security;"):
            raise KubectlError(f"accumulating resources: {file_error}") from None
        return _base_resources(loader, name, variables, f"accumulating resources: {file_error}")
    return [KustomizeResource(value, scopes=[str(loader.directory)]) for value in values]


def _base_resources(
    loader: KustomizationLoader, name: str, variables: VariableSet, context: str
) -> list[KustomizeResource]:
    """Return the resources of a kustomization in a directory or git repository. `context` is prefixed to the message of
    an error."""
    try:
        nested = loader.open_nested(name)
        kustomization = nested.kustomization()
    except KubectlError as error:
        raise KubectlError(f"{context}: {error.message}") from None
    if kustomization.get("kind") == "Component":
        raise KubectlError(
            f"{context}: recursed accumulation of path '{nested.directory}': expected kind != 'Component' for path "
            f"'{nested.directory}'"
        )
    return _accumulate(nested, kustomization, [], variables)


def _add_all(
    collected: list[KustomizeResource], additions: list[KustomizeResource], loader: KustomizationLoader, name: str
) -> None:
    for resource in additions:
        if _find(collected, resource) is not None:
            text = f"may not add resource with an already registered id: {resource.identity_text}"
            path = Path(os.path.realpath(loader.directory / name))
            if path.is_dir():
                text = f"{_accumulation_error(name, path)}: recursed merging from path '{path}': {text}"
            else:
                text = f"accumulation err='accumulating resources from '{name}': {text}'"
            raise KubectlError(f"accumulating resources: {text}")
        collected.append(resource)


def _accumulation_error(name: str, path: Path) -> str:
    """Return the first part of kustomize's error about a directory, which kustomize tries to read as a file."""
    return f"accumulation err='accumulating resources from '{name}': '{path}' must resolve to a file'"


def _find(collected: list[KustomizeResource], resource: KustomizeResource) -> KustomizeResource | None:
    for candidate in collected:
        if (candidate.group, candidate.kind, candidate.name) != (resource.group, resource.kind, resource.name):
            continue
        if (candidate.namespace or "default") == (resource.namespace or "default"):
            return candidate
    return None


def _add_generated(collected: list[KustomizeResource], resource: KustomizeResource) -> None:
    """Add a generated object to the collected ones. With the behavior merge or replace, merge it into the existing
    object or replace that object."""
    existing = next(
        (
            candidate
            for candidate in collected
            if candidate.kind == resource.kind and candidate.had_name(resource.name, resource.namespace)
        ),
        None,
    )
    if resource.behavior == "create":
        if existing is not None:
            raise KubectlError(
                "merging from generator: id resid.ResId exists; behavior must be merge or replace: "
                f"{resource.identity_text}"
            )
        collected.append(resource)
        return
    if existing is None:
        raise KubectlError(
            f"merging from generator: id {resource.identity_text} does not exist; cannot merge or replace"
        )
    value = deepcopy(resource.value)
    value["metadata"]["name"] = existing.name
    for field in ("labels", "annotations"):
        merged = {**(existing.metadata.get(field) or {}), **(value["metadata"].get(field) or {})}
        if merged:
            value["metadata"][field] = merged
    if existing.namespace:
        value["metadata"]["namespace"] = existing.namespace
    if resource.behavior == "merge":
        for field in ("data", "binaryData"):
            merged = {**(existing.value.get(field) or {}), **(value.get(field) or {})}
            if merged:
                value[field] = merged
        if existing.value.get("immutable"):
            value["immutable"] = True
    existing.value = value
    existing.needs_hash = existing.needs_hash or resource.needs_hash


# -- transformation --------------------------------------------------------------------------------------------------


def _transform(
    loader: KustomizationLoader, kustomization: Value, resources: list[KustomizeResource]
) -> list[KustomizeResource]:
    """Run the transformers in the order of kustomize."""
    for entry in kustomization.get("patchesStrategicMerge") or ():
        text = str(entry) if "\n" in str(entry) else loader.read(str(entry)).decode("utf-8", "replace")
        for patch in documents(text, str(entry)):
            resources = apply_strategic_merge(resources, patch)
    for entry in kustomization.get("patches") or ():
        resources = apply_patch(resources, entry, loader)
    if kustomization.get("namespace"):
        transformers.set_namespace(resources, str(kustomization["namespace"]))
    prefix, suffix = str(kustomization.get("namePrefix") or ""), str(kustomization.get("nameSuffix") or "")
    if prefix or suffix:
        transformers.add_to_names(resources, prefix, suffix)
    if kustomization.get("commonLabels"):
        transformers.add_common_labels(resources, kustomization["commonLabels"])
    for entry in kustomization.get("labels") or ():
        transformers.add_labels(resources, entry)
    if kustomization.get("commonAnnotations"):
        transformers.add_annotations(resources, kustomization["commonAnnotations"])
    for entry in kustomization.get("patchesJson6902") or ():
        resources = apply_patch(resources, entry, loader)
    for entry in kustomization.get("replicas") or ():
        transformers.set_replicas(resources, entry)
    for entry in [*(kustomization.get("images") or ()), *(kustomization.get("imageTags") or ())]:
        transformers.set_image(resources, entry)
    for entry in kustomization.get("replacements") or ():
        for replacement in _replacements(loader, entry):
            apply_replacement(resources, replacement)
    return resources


def _replacements(loader: KustomizationLoader, entry: Value) -> list[Value]:
    if not entry.get("path"):
        return [entry]
    text = loader.read(str(entry["path"])).decode("utf-8", "replace")
    return [
        item
        for value in documents(text, str(entry["path"]))
        for item in (value if isinstance(value, list) else [value])
    ]
