"""ServiceAccount: sets the service account of pods, the default one unless they name another, and mounts its token."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator

from sampan.api.resources.resource import Resource
from sampan.api.semantics.pod_references import is_mirror_pod, secret_names
from sampan.api.semantics.pods import ACCESS_VOLUME_PREFIX, init_and_main_containers
from sampan.api.types.core_v1 import (
    Container,
    EphemeralContainer,
    LocalObjectReference,
    Pod,
    ServiceAccount,
    Volume,
    VolumeMount,
)
from sampan.apiserver.admission.framework import lookup
from sampan.apiserver.admission.framework.contract import AdmissionAttributes, Operation
from sampan.apiserver.registry.metadata import generate_name
from sampan.apiserver.registry.podspec.defaults import name_service_account
from sampan.apiserver.registry.podspec.volumes.projected import TOKEN_PATH, token_source

DEFAULT = "default"
_ENFORCE = "kubernetes.io/enforce-mountable-secrets"
_TRUE = ("1", "t", "T", "true", "TRUE", "True")
_ATTEMPTS, _PAUSE_S = 50, 0.02
"""How often, and with which pause, a pod waits for the default service account of a new namespace."""


class ServiceAccountAdmission:
    name = "ServiceAccount"

    def handles(self, operation: Operation, resource: Resource, subresource: str) -> bool:
        if resource.plural != "pods" or resource.group != "":
            return False
        return (operation, subresource) in (("CREATE", ""), ("UPDATE", "ephemeralcontainers"))

    async def admit(self, attributes: AdmissionAttributes) -> None:
        pod: Pod = attributes.obj
        if attributes.operation != "CREATE":
            return
        if not is_mirror_pod(pod):
            name_service_account(pod.spec, pod.spec.serviceAccountName or DEFAULT)
            account = await _account(attributes, pod.spec.serviceAccountName)
            if _mounts_token(account, pod):
                _mount_token(pod)
            if not pod.spec.imagePullSecrets:
                pod.spec.imagePullSecrets = [LocalObjectReference(name=ref.name) for ref in account.imagePullSecrets]
        await self.validate(attributes)

    async def validate(self, attributes: AdmissionAttributes) -> None:
        pod: Pod = attributes.obj
        if attributes.operation == "CREATE" and is_mirror_pod(pod):
            _check_mirror(attributes, pod)
            return
        if not pod.spec.serviceAccountName:
            pod_name = f"{attributes.namespace}/{pod.metadata.name}"
            raise attributes.forbidden(f"no service account specified for pod {pod_name}")
        account = await _account(attributes, pod.spec.serviceAccountName)
        if account.metadata.annotations.get(_ENFORCE) in _TRUE:
            _check_secrets(attributes, pod, account)


async def _account(attributes: AdmissionAttributes, name: str) -> ServiceAccount:
    store, namespace = attributes.registry.open_store_of("", "v1", "ServiceAccount"), attributes.namespace
    for attempt in range(_ATTEMPTS if name == DEFAULT else 1):
        if attempt:
            await asyncio.sleep(_PAUSE_S)
        account: ServiceAccount | None = await lookup.find(store, namespace, name)
        if account is not None:
            return account
    why = f'error looking up service account {namespace}/{name}: serviceaccount "{name}" not found'
    raise attributes.forbidden(why)


def _check_mirror(attributes: AdmissionAttributes, pod: Pod) -> None:
    """Reject a mirror pod that refers to API objects."""
    if pod.spec.serviceAccountName:
        raise attributes.forbidden("a mirror pod may not reference service accounts")
    if any(secret_names(pod.spec)):
        raise attributes.forbidden("a mirror pod may not reference secrets")
    for volume in pod.spec.volumes:
        for source in (volume.projected.sources or ()) if volume.projected is not None else ():
            if source.serviceAccountToken is not None:
                raise attributes.forbidden("a mirror pod may not use ServiceAccountToken volume projections")


# -- the token -------------------------------------------------------------------------------------------------------


def _mounts_token(account: ServiceAccount, pod: Pod) -> bool:
    """Whether the token is mounted; the field of the pod takes precedence over that of the service account."""
    if pod.spec.automountServiceAccountToken is not None:
        return pod.spec.automountServiceAccountToken
    return account.automountServiceAccountToken is not False


def _mount_token(pod: Pod) -> None:
    """Mount the token in all containers that have no mount at its path."""
    spec = pod.spec
    token_volume = next((volume.name for volume in spec.volumes if volume.name.startswith(ACCESS_VOLUME_PREFIX)), "")
    name = token_volume or generate_name(ACCESS_VOLUME_PREFIX)
    is_needed = False
    for container in init_and_main_containers(spec):
        if all(mount.mountPath != TOKEN_PATH for mount in container.volumeMounts):
            container.volumeMounts.append(VolumeMount(name=name, readOnly=True, mountPath=TOKEN_PATH))
            is_needed = True
    if is_needed and not token_volume:
        spec.volumes.append(Volume(name=name, projected=token_source()))


# -- service accounts that list the secrets they may use -------------------------------------------------------------


def _check_secrets(attributes: AdmissionAttributes, pod: Pod, account: ServiceAccount) -> None:
    listed = {secret.name for secret in account.secrets}
    for reference_text, secret in _list_secrets(attributes, pod):
        if secret not in listed:
            raise attributes.forbidden(
                _not_referenced_message(f'{reference_text}secret.secretName="{secret}"', account, "secret")
            )
    if attributes.operation != "CREATE":
        return
    pulls = {secret.name for secret in account.imagePullSecrets}
    for index, ref in enumerate(pod.spec.imagePullSecrets):
        if ref.name not in pulls:
            reference_text = f'imagePullSecrets[{index}].name="{ref.name}"'
            raise attributes.forbidden(_not_referenced_message(reference_text, account, "imagePullSecret"))


def _not_referenced_message(reference_text: str, account: ServiceAccount, kind: str) -> str:
    name = account.metadata.name
    return f"{reference_text} is not allowed because service account {name} does not reference that {kind}"


def _list_secrets(attributes: AdmissionAttributes, pod: Pod) -> Iterator[tuple[str, str]]:
    """Yield the start of the error message, which names the volume or container that uses a secret, and the secret's
    name."""
    if attributes.operation != "CREATE":
        for ephemeral in pod.spec.ephemeralContainers:
            yield from _list_container_secrets("ephemeral container", ephemeral)
        return
    for volume in pod.spec.volumes:
        if volume.secret is not None:
            yield "volume with ", volume.secret.secretName
    for container in pod.spec.initContainers:
        yield from _list_container_secrets("init container", container)
    for container in pod.spec.containers or ():
        yield from _list_container_secrets("container", container)


def _list_container_secrets(kind: str, container: Container | EphemeralContainer) -> Iterator[tuple[str, str]]:
    for variable in container.env:
        if variable.valueFrom is not None and variable.valueFrom.secretKeyRef is not None:
            reference_text = f"{kind} {container.name} with envVar {variable.name} referencing "
            yield reference_text, variable.valueFrom.secretKeyRef.name
    for source in container.envFrom:
        if source.secretRef is not None:
            yield f"{kind} {container.name} with envFrom referencing ", source.secretRef.name
