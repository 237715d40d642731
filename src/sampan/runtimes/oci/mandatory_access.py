"""AppArmor profiles and SELinux options of containers: each is put into effect or refused, never ignored.

The kubelet refuses AppArmor profiles on a machine without AppArmor. A machine without SELinux has no labels, and there
options for them have no effect, as with containerd.
"""

from __future__ import annotations

from collections.abc import Collection
from pathlib import Path
from typing import Final

from sampan.runtimes.config import ContainerSecurity
from sampan.runtimes.contract import RuntimeFailure

_PROFILES: Final = Path("/sys/kernel/security/apparmor/profiles")
_SELINUX: Final = Path("/sys/fs/selinux/enforce")
_DEFAULT_PROFILES: Final = ("cri-containerd.apparmor.d", "docker-default")
"""The profiles that other runtimes load for their containers, of which the first one that is loaded is used."""
_PODMAN_PREFIX: Final = "containers-default-"
_FAILED: Final = "CreateContainerError"


def loaded_profiles() -> list[str]:
    """Return the names of the AppArmor profiles that the kernel has."""
    try:
        return parse_profiles(_PROFILES.read_text())
    except OSError:
        return []


def parse_profiles(text: str) -> list[str]:
    return [line.rpartition(" (")[0] for line in text.splitlines()]


def has_selinux() -> bool:
    return _SELINUX.exists()


def apparmor_profile(security: ContainerSecurity, loaded: Collection[str]) -> str:
    """Return the name of the profile of a container, or an empty string for none. Raise RuntimeFailure if a profile is
    requested that is not loaded."""
    profile = security.apparmor
    if profile.type == "Localhost":
        if profile.local not in loaded:
            raise RuntimeFailure(_FAILED, f"apparmor profile not found {profile.local}")
        return profile.local
    if profile.type != "RuntimeDefault" or security.is_privileged:
        return ""
    candidates = [*_DEFAULT_PROFILES, *sorted(name for name in loaded if name.startswith(_PODMAN_PREFIX))]
    for name in candidates:
        if name in loaded:
            return name
    raise RuntimeFailure(
        _FAILED,
        f"apparmor profile RuntimeDefault is not available: load {_DEFAULT_PROFILES[0]} or request a Localhost profile",
    )


def check_selinux(security: ContainerSecurity, *, is_enabled: bool) -> None:
    """Raise RuntimeFailure if SELinux options would have to be put into effect: files of images have no labels."""
    if security.selinux and is_enabled and not security.is_privileged:
        options = ", ".join(f"{key} {value}" for key, value in security.selinux.items())
        raise RuntimeFailure(_FAILED, f"seLinuxOptions ({options}) are not supported by the runtime oci: use cri")
