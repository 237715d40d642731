"""Pure computation of a container's security settings from the security contexts of pod and container."""

from __future__ import annotations

from pathlib import Path

from sampan.api.semantics.pods import init_and_main_containers
from sampan.api.types.core_v1 import (
    AppArmorProfile,
    Container,
    EphemeralContainer,
    Pod,
    PodSecurityContext,
    SeccompProfile,
    SecurityContext,
)
from sampan.kubelet.container_config.variables import ContainerConfigError
from sampan.runtimes.config import (
    MASKED_PATHS,
    READ_ONLY_PATHS,
    ContainerSecurity,
    NamespaceOptions,
    SecurityProfile,
)
from sampan.runtimes.contract import ImageInfo
from sampan.runtimes.users import BadUser, parse_user

_OLD_APPARMOR = "container.apparmor.security.beta.kubernetes.io/"


def container_security(
    pod: Pod, container: Container | EphemeralContainer, image: ImageInfo, *, profiles: Path, has_seccomp: bool
) -> ContainerSecurity:
    """Return the security settings of the container. `profiles` is the directory of local seccomp profiles.
    `has_seccomp` makes RuntimeDefault the default profile. Raise ContainerConfigError if the container must not run
    with its settings, for example as root.
    """
    whole, own = pod.spec.securityContext or PodSecurityContext(), container.securityContext or SecurityContext()
    user = own.runAsUser if own.runAsUser is not None else whole.runAsUser
    group = own.runAsGroup if own.runAsGroup is not None else whole.runAsGroup
    must_not_be_root = own.runAsNonRoot if own.runAsNonRoot is not None else whole.runAsNonRoot
    if must_not_be_root:
        _refuse_root(pod, container.name, user, image)
    # Runtimes take root for the user if only a group is set, so the user of the image is passed too.
    username = image.user.partition(":")[0] if user is None and group is not None else ""
    capabilities = own.capabilities
    is_masked = own.procMount in (None, "", "Default")
    return ContainerSecurity(
        user=user,
        group=group,
        username=username,
        must_not_be_root=bool(must_not_be_root),
        supplemental_groups=_groups(whole),
        supplemental_policy="Strict" if whole.supplementalGroupsPolicy == "Strict" else "Merge",
        is_privileged=bool(own.privileged),
        is_root_read_only=bool(own.readOnlyRootFilesystem),
        may_not_gain_privileges=_may_not_gain(own),
        added=tuple(capabilities.add) if capabilities is not None else (),
        dropped=tuple(capabilities.drop) if capabilities is not None else (),
        seccomp=_seccomp(own.seccompProfile or whole.seccompProfile, profiles, has_seccomp),
        apparmor=_apparmor(pod, container.name, own.appArmorProfile or whole.appArmorProfile),
        selinux=_selinux(own, whole),
        masked_paths=MASKED_PATHS if is_masked else (),
        read_only_paths=READ_ONLY_PATHS if is_masked else (),
    )


def sandbox_security(pod: Pod) -> ContainerSecurity:
    whole = pod.spec.securityContext or PodSecurityContext()
    return ContainerSecurity(
        user=whole.runAsUser,
        group=whole.runAsGroup,
        supplemental_groups=_groups(whole),
        is_privileged=any(
            container.securityContext is not None and container.securityContext.privileged
            for container in init_and_main_containers(pod.spec)
        ),
        seccomp=SecurityProfile(type="RuntimeDefault"),
        selinux=_selinux(SecurityContext(), whole),
    )


def namespaces(pod: Pod, target: str = "") -> NamespaceOptions:
    """Return the namespaces of the container. `target` is the ID of the container that an ephemeral
    container targets.
    """
    spec = pod.spec
    pid = "target" if target else "node" if spec.hostPID else "pod" if spec.shareProcessNamespace else "container"
    return NamespaceOptions(
        network="node" if spec.hostNetwork else "pod",
        ipc="node" if spec.hostIPC else "pod",
        pid=pid,  # type: ignore[arg-type]
        target=target,
    )


def _refuse_root(pod: Pod, name: str, user: int | None, image: ImageInfo) -> None:
    container_text = f'(pod: "{pod.metadata.name}_{pod.metadata.namespace}({pod.metadata.uid})", container: {name})'
    if user is not None:
        if user == 0:
            raise ContainerConfigError(f"container's runAsUser breaks non-root policy {container_text}")
        return
    try:
        image_user = parse_user(image.user)
    except BadUser as error:
        raise ContainerConfigError(
            f"container has runAsNonRoot and image has an invalid user: {error} {container_text}"
        ) from None
    if image_user.uid == 0:
        raise ContainerConfigError(f"container has runAsNonRoot and image will run as root {container_text}")
    if image_user.uid is None:
        message = f"image has non-numeric user ({image_user.name}), cannot verify user is non-root"
        raise ContainerConfigError(f"container has runAsNonRoot and {message} {container_text}")


def _groups(whole: PodSecurityContext) -> tuple[int, ...]:
    own = () if whole.fsGroup is None else (whole.fsGroup,)
    return tuple(dict.fromkeys((*own, *whole.supplementalGroups)))


def _may_not_gain(own: SecurityContext) -> bool:
    return own.allowPrivilegeEscalation is False


def _seccomp(profile: SeccompProfile | None, profiles: Path, has_seccomp: bool) -> SecurityProfile:
    if profile is None:
        return SecurityProfile(type="RuntimeDefault" if has_seccomp else "Unconfined")
    if profile.type == "Localhost":
        if not profile.localhostProfile:
            raise ContainerConfigError("localhostProfile must be set if seccompProfile type is Localhost.")
        if profile.localhostProfile.startswith("/") or ".." in profile.localhostProfile.split("/"):
            raise ContainerConfigError(
                "localhostProfile must be a relative path within the directory of seccomp profiles."
            )
        return SecurityProfile(type="Localhost", local=str(profiles / profile.localhostProfile))
    return SecurityProfile(type="RuntimeDefault" if profile.type == "RuntimeDefault" else "Unconfined")


def _apparmor(pod: Pod, name: str, profile: AppArmorProfile | None) -> SecurityProfile:
    if profile is not None:
        if profile.type == "Localhost":
            return SecurityProfile(type="Localhost", local=profile.localhostProfile or "")
        return SecurityProfile(type="Unconfined" if profile.type == "Unconfined" else "RuntimeDefault")
    old = pod.metadata.annotations.get(f"{_OLD_APPARMOR}{name}", "")
    if old.startswith("localhost/"):
        return SecurityProfile(type="Localhost", local=old.removeprefix("localhost/"))
    if old == "unconfined":
        return SecurityProfile(type="Unconfined")
    return SecurityProfile(type="RuntimeDefault" if old else "")


def _selinux(own: SecurityContext, whole: PodSecurityContext) -> dict[str, str]:
    options = own.seLinuxOptions or whole.seLinuxOptions
    if options is None:
        return {}
    parts = {"user": options.user, "role": options.role, "type": options.type, "level": options.level}
    return {key: value for key, value in parts.items() if value}
