"""Builds the Go programs of a conformance run from the modules that the go.mod of its release pins, once for each state
of go.mod."""

from __future__ import annotations

import hashlib
import os
import re
import shutil
import subprocess
from dataclasses import dataclass
from pathlib import Path

_SUITES = Path(__file__).parent / "suites"
_MODULE = re.compile(r"^require k8s\.io/kubernetes (v\S+)$", re.MULTILINE)
_VERSION_PACKAGE = "k8s.io/component-base/version"


class BuildError(Exception):
    """A program cannot be built; the message is for the person who runs the suite."""


@dataclass(frozen=True, slots=True)
class Program:
    name: str
    package: str
    is_test: bool = False
    """A test binary, built with `go test -c`."""


@dataclass(frozen=True, slots=True)
class Release:
    """A release of Kubernetes whose suite and programs can be built."""

    minor: str
    """The version without the patch release, as in `1.37`."""

    @property
    def modules(self) -> Path:
        """The directory with the go.mod that pins the modules of the release."""
        return _SUITES / f"v{self.minor}"

    @property
    def version(self) -> str:
        """The version with the patch release, as in `v1.37.1`."""
        match = _MODULE.search((self.modules / "go.mod").read_text())
        assert match is not None, f"{self.modules}/go.mod does not require k8s.io/kubernetes"
        return match[1]

    @property
    def cache(self) -> Path:
        """The directory for everything that is kept between runs. It depends on go.mod, so that a new version of the
        suite is built from scratch."""
        pinned = hashlib.sha256((self.modules / "go.mod").read_bytes()).hexdigest()[:16]
        return program_cache() / "conformance" / pinned


def find_releases() -> list[Release]:
    """Return the releases whose modules are pinned, the newest first."""
    minors = [path.name.removeprefix("v") for path in _SUITES.glob("v*")]
    return [Release(minor) for minor in sorted(minors, key=lambda minor: int(minor.partition(".")[2]), reverse=True)]


LATEST = find_releases()[0]
E2E = Program("e2e.test", "k8s.io/kubernetes/test/e2e", is_test=True)
GINKGO = Program("ginkgo", "github.com/onsi/ginkgo/v2/ginkgo")
KUBECTL = Program("kubectl", "k8s.io/kubernetes/cmd/kubectl")
AGNHOST = Program("agnhost", "k8s.io/kubernetes/test/images/agnhost")
NO_NEW_PRIVILEGES = Program("nnp", "k8s.io/kubernetes/test/images/nonewprivs")
SAMPLE_APISERVER = Program("sample-apiserver", "k8s.io/sample-apiserver")
PROGRAMS = (GINKGO, AGNHOST, NO_NEW_PRIVILEGES, KUBECTL, SAMPLE_APISERVER, E2E)


def program_cache() -> Path:
    """The directory for programs that are built once and then kept."""
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "sampan"


def build(program: Program, release: Release = LATEST) -> Path:
    """Returns the path of the program, building it if it is not in the cache of the release yet."""
    target = release.cache / program.name
    if target.exists():
        return target
    if shutil.which("go") is None:
        raise BuildError("Go is not installed (1.26 or later): the conformance suite is built from Go modules")
    release.cache.mkdir(parents=True, exist_ok=True)
    partial = target.with_suffix(".partial")
    verb = ["test", "-c"] if program.is_test else ["build"]
    command = [
        "go",
        *verb,
        "-trimpath",
        "-ldflags",
        _linker_flags(release.version),
        "-o",
        str(partial),
        program.package,
    ]
    outcome = subprocess.run(command, cwd=release.modules, env=go_environment(), capture_output=True, text=True)
    if outcome.returncode:
        raise BuildError(f"cannot build {program.package}: {outcome.stderr.strip()[-2000:]}")
    partial.rename(target)
    return target


def _linker_flags(version: str) -> str:
    major, minor, _ = version.removeprefix("v").split(".", 2)
    values = {"gitVersion": version, "gitMajor": major, "gitMinor": minor}
    return "-s -w " + " ".join(f"-X {_VERSION_PACKAGE}.{name}={value}" for name, value in values.items())


def go_environment() -> dict[str, str]:
    """Static programs, so that they run on any base image."""
    return {**os.environ, "CGO_ENABLED": "0", "GOFLAGS": "-mod=readonly -buildvcs=false"}
