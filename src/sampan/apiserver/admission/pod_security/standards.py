"""The checks of each standard and version. Pure."""

from __future__ import annotations

from typing import NamedTuple

from sampan.api.types.core_v1 import PodSpec
from sampan.api.types.meta_v1 import ObjectMeta
from sampan.apiserver.admission.pod_security import baseline, restricted
from sampan.apiserver.admission.pod_security.policy import BASELINE, LATEST, PRIVILEGED, PodSecurityStandard
from sampan.apiserver.admission.pod_security.restricted import exempt_user_namespaces, exempt_windows
from sampan.apiserver.admission.pod_security.violations import Check, Violation
from sampan.host.bounded_cache import BoundedCache


class VersionedCheck(NamedTuple):
    """A check: its implementations by the minor version from which on they apply, and the baseline check that it
    replaces."""

    versions: dict[int, Check]
    replaces: str = ""

    def find_check(self, minor: int) -> Check | None:
        since = [version for version in self.versions if minor == LATEST or version <= minor]
        return self.versions[max(since)] if since else None


BASELINE_CHECKS = {
    "appArmorProfile": VersionedCheck({0: baseline.app_armor}),
    "capabilities_baseline": VersionedCheck({0: baseline.capabilities}),
    "hostNamespaces": VersionedCheck({0: baseline.host_namespaces}),
    "hostPathVolumes": VersionedCheck({0: baseline.host_path_volumes}),
    "hostPorts": VersionedCheck({0: baseline.host_ports}),
    "hostProbesAndHostLifecycle": VersionedCheck({34: baseline.host_probes}),
    "privileged": VersionedCheck({0: baseline.privileged}),
    "procMount": VersionedCheck({0: baseline.proc_mount, 35: baseline.proc_mount_of_host_users}),
    "seLinuxOptions": VersionedCheck(
        {0: baseline.selinux(baseline.SELINUX_TYPES), 31: baseline.selinux(baseline.SELINUX_TYPES_1_31)}
    ),
    "seccompProfile_baseline": VersionedCheck({0: baseline.seccomp_annotations, 19: baseline.seccomp}),
    "sysctls": VersionedCheck(
        {
            0: baseline.sysctls(baseline.SYSCTLS),
            27: baseline.sysctls(baseline.SYSCTLS_1_27),
            29: baseline.sysctls(baseline.SYSCTLS_1_29),
            32: baseline.sysctls(baseline.SYSCTLS_1_32),
        }
    ),
    "windowsHostProcess": VersionedCheck({0: baseline.windows_host_process}),
}
RESTRICTED_CHECKS = {
    "allowPrivilegeEscalation": VersionedCheck(
        {8: restricted.privilege_escalation, 25: exempt_windows(restricted.privilege_escalation)}
    ),
    "capabilities_restricted": VersionedCheck(
        {22: restricted.capabilities, 25: exempt_windows(restricted.capabilities)}, "capabilities_baseline"
    ),
    "procMount_restricted": VersionedCheck({35: baseline.proc_mount}, "procMount"),
    "restrictedVolumes": VersionedCheck({0: restricted.volumes}, "hostPathVolumes"),
    "runAsNonRoot": VersionedCheck({0: restricted.non_root, 35: exempt_user_namespaces(restricted.non_root)}),
    "runAsUser": VersionedCheck({23: restricted.user, 35: exempt_user_namespaces(restricted.user)}),
    "seccompProfile_restricted": VersionedCheck(
        {19: restricted.seccomp_set, 25: exempt_windows(restricted.seccomp_set)}, "seccompProfile_baseline"
    ),
}
"""The restricted checks. These and the baseline checks are in the order in which violations are reported."""


def violations(standard: PodSecurityStandard, meta: ObjectMeta, spec: PodSpec) -> list[Violation]:
    results = [check(meta, spec) for check in _checks[standard]]
    return [violation for violation in results if violation is not None]


def _list_checks(standard: PodSecurityStandard) -> tuple[Check, ...]:
    if standard.level == PRIVILEGED:
        return ()
    strict = RESTRICTED_CHECKS if standard.level != BASELINE else {}
    replaced = {row.replaces for row in strict.values() if row.find_check(standard.minor) is not None}
    rows = [row for name, row in BASELINE_CHECKS.items() if name not in replaced] + [*strict.values()]
    checks = [row.find_check(standard.minor) for row in rows]
    return tuple(check for check in checks if check is not None)


_checks = BoundedCache(_list_checks, max_entries=256)
