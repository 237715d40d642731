"""Versions of runc and crun with known vulnerabilities."""

from __future__ import annotations

import gzip
from pathlib import Path

import pytest

from sampan.runtimes.oci.vulnerabilities import find_vulnerabilities, known_vulnerabilities, read_package_fixes

OF_2025 = ["CVE-2025-31133", "CVE-2025-52565", "CVE-2025-52881"]


@pytest.mark.parametrize(
    ("version", "expected"),
    [
        ("1.1.5+ds1", ["CVE-2024-21626", *OF_2025]),
        ("1.1.12", OF_2025),
        ("1.1.15", OF_2025),
        ("1.2.7", OF_2025),
        ("1.2.8", []),
        ("1.2.10", []),
        ("1.3.0-rc.1", OF_2025),
        ("1.3.2", OF_2025),
        ("1.3.3-0ubuntu1~24.04.3", []),
        ("1.4.0-rc.2", OF_2025),
        ("1.4.0-rc.3", []),
        ("1.4.0", []),
        ("2.0", []),
        ("unknown", []),
    ],
)
def test_vulnerabilities_of_runc(version: str, expected: list[str]) -> None:
    assert list(known_vulnerabilities("runc", f"runc version {version}\nspec: 1.2.0")) == expected


def test_crun_is_vulnerable_only_with_its_handler_for_virtual_machines() -> None:
    assert not list(known_vulnerabilities("crun", "crun version 1.8.1\n+SYSTEMD +SECCOMP"))
    assert list(known_vulnerabilities("crun", "crun version 1.19\n+SYSTEMD +LIBKRUN")) == ["CVE-2025-24965"]
    assert not list(known_vulnerabilities("crun", "crun version 1.20\n+LIBKRUN"))


def test_the_changelog_of_a_package_names_what_it_fixes(tmp_path: Path) -> None:
    (tmp_path / "runc").mkdir()
    text = b"runc (1.1.5+ds1-1+deb12u2)\n  * CVE-2024-21626: leaked files\n  * Fix CVE-2025-31133, CVE-2025-52565\n"
    (tmp_path / "runc/changelog.Debian.gz").write_bytes(gzip.compress(text))
    fixed = read_package_fixes("runc", tmp_path)
    assert list(known_vulnerabilities("runc", "runc version 1.1.5+ds1", fixed)) == ["CVE-2025-52881"]
    assert read_package_fixes("crun", tmp_path) == frozenset()
    (tmp_path / "runc/changelog.Debian.gz").write_bytes(gzip.compress(text)[:20])
    assert read_package_fixes("runc", tmp_path) == frozenset()


async def test_programs_that_do_not_run_are_left_out(tmp_path: Path) -> None:
    program = tmp_path / "runc"
    program.write_text("#!/bin/sh\necho runc version 1.2.7\n")
    program.chmod(0o755)
    assert await find_vulnerabilities({"runc": str(program), "crun": str(tmp_path / "crun")}) == {"runc 1.2.7": OF_2025}
