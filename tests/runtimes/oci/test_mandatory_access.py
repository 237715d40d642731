"""Requested AppArmor profiles and SELinux options are put into effect or refused."""

from __future__ import annotations

from typing import Literal

import pytest

from sampan.runtimes.config import ContainerSecurity, SecurityProfile
from sampan.runtimes.contract import RuntimeFailure
from sampan.runtimes.oci.mandatory_access import apparmor_profile, check_selinux, parse_profiles

LOADED = ["containers-default-0.50.1", "docker-default", "/usr/sbin/ntpd", "mine", "with space//child"]
Kind = Literal["", "RuntimeDefault", "Unconfined", "Localhost"]


def security(type: Kind, local: str = "", *, is_privileged: bool = False) -> ContainerSecurity:
    return ContainerSecurity(apparmor=SecurityProfile(type=type, local=local), is_privileged=is_privileged)


def test_profiles_of_the_kernel_are_parsed() -> None:
    modes = ("enforce", "complain", "enforce", "kill", "unconfined")
    lines = [f"{name} ({mode})\n" for name, mode in zip(LOADED, modes, strict=True)]
    assert parse_profiles("".join(lines)) == LOADED


@pytest.mark.parametrize(
    ("requested", "loaded", "expected"),
    [
        (security("Localhost", "mine"), LOADED, "mine"),
        (security("RuntimeDefault"), LOADED, "docker-default"),
        (security("RuntimeDefault"), [*LOADED, "cri-containerd.apparmor.d"], "cri-containerd.apparmor.d"),
        (security("RuntimeDefault"), LOADED[:1], "containers-default-0.50.1"),
        (security("RuntimeDefault", is_privileged=True), [], ""),
        (security("Unconfined"), LOADED, ""),
        (security(""), LOADED, ""),
    ],
)
def test_a_loaded_profile_is_used(requested: ContainerSecurity, loaded: list[str], expected: str) -> None:
    assert apparmor_profile(requested, loaded) == expected


@pytest.mark.parametrize(
    ("requested", "message"),
    [
        (security("Localhost", "other"), "apparmor profile not found other"),
        (security("Localhost", "other", is_privileged=True), "apparmor profile not found other"),
        (security("RuntimeDefault"), "apparmor profile RuntimeDefault is not available"),
    ],
)
def test_a_profile_that_is_not_loaded_is_refused(requested: ContainerSecurity, message: str) -> None:
    with pytest.raises(RuntimeFailure, match=message) as failure:
        apparmor_profile(requested, ["mine"])
    assert failure.value.reason == "CreateContainerError"


def test_labels_are_refused_where_selinux_is_enabled() -> None:
    labels = ContainerSecurity(selinux={"type": "container_t", "level": "s0:c1"})
    with pytest.raises(RuntimeFailure, match="type container_t, level s0:c1"):
        check_selinux(labels, is_enabled=True)
    check_selinux(labels, is_enabled=False)
    check_selinux(ContainerSecurity(), is_enabled=True)
