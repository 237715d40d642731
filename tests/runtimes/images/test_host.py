"""The host image, which contains the programs of the machine."""

import os
from pathlib import Path

import pytest

from sampan.runtimes.images.host import host_root, is_host

PUBLIC = ("etc/ssl/certs/ca.pem", "etc/java-17-openjdk/java.security", "etc/maven/m2.conf", "etc/fonts/fonts.conf")


@pytest.fixture
def machine(tmp_path: Path) -> Path:
    """Create a root file system with secrets in the usual places."""
    root = tmp_path / "machine"
    for name in (
        "usr/bin",
        "lib32",
        "root/.ssh",
        "home/may",
        "var/lib/sampan",
        "run",
        "etc/ssl/certs",
        "etc/ssl/private",
        "etc/java-17-openjdk/management",
        "etc/maven",
        "etc/fonts",
    ):
        (root / name).mkdir(parents=True)
    (root / "bin").symlink_to("usr/bin")
    secrets = (
        "root/.ssh/id",
        "home/may/notes",
        "var/lib/sampan/ca.key",
        "run/token",
        "etc/shadow",
        "etc/ssl/private/k",
        "etc/java-17-openjdk/management/jmxremote.password",
        "etc/maven/settings.xml",
        "etc/wgetrc",
    )
    for name in (*secrets, "etc/passwd", "etc/ssl/certs/server.key", "etc/machine-id", "etc/hosts"):
        (root / name).write_text("private")
    (root / "etc/services").write_text("http 80/tcp\n")
    (root / "etc/nsswitch.conf").write_text("private")
    (root / "etc/nsswitch.conf").chmod(0o600)
    for name in PUBLIC:
        (root / name).write_text("public")
    return root


def test_host_image_contains_no_private_files(machine: Path, tmp_path: Path) -> None:
    root = host_root(tmp_path / "base", machine)
    texts = [path.read_text() for path in root.base.rglob("*") if path.is_file() and not path.is_symlink()]
    assert not any("private" in text for text in texts)
    assert (root.base / "etc/services").read_text() == "http 80/tcp\n"
    assert [name for name in PUBLIC if not (root.base / name).exists()] == []
    assert os.readlink(root.base / "bin") == "usr/bin"
    assert [(directory.source, directory.target) for directory in root.shown] == [
        (machine / "usr", "/usr"),
        (machine / "lib32", "/lib32"),
    ]


def test_host_image_of_this_machine_contains_no_private_files(tmp_path: Path) -> None:
    base = host_root(tmp_path / "base").base
    for name in ("etc/shadow", "etc/gshadow", "etc/machine-id", "etc/ssl/private", "etc/ssh", "etc/kubernetes"):
        assert not (base / name).exists(), name
    for name in ("root", "home", "run", "srv", "opt", "mnt", "tmp", "proc", "sys"):
        assert list((base / name).iterdir()) == [], name
    users = {line.split(":")[0] for line in (base / "etc/passwd").read_text().splitlines()}
    assert users == {"root", "daemon", "nobody"}
    assert (base / "root").stat().st_mode & 0o777 == 0o700
    assert (base / "tmp").stat().st_mode & 0o7777 == 0o1777


def test_configuration_that_programs_refer_to_is_in_the_host_image(tmp_path: Path) -> None:
    """What links in /usr/lib lead to is there, for example the configuration of Java and of the system's libraries."""
    base = host_root(tmp_path / "base").base
    targets = {os.readlink(link) for link in list_links(Path("/usr/lib/jvm"), Path("/usr/share/java"))}
    needed = {target for target in targets if target.startswith("/etc/") and is_readable(Path(target))}
    assert [target for target in sorted(needed) if not os.path.lexists(base / target[1:])] == []


def list_links(*directories: Path) -> list[Path]:
    return [path for directory in directories for path in directory.rglob("*") if path.is_symlink()]


def is_readable(path: Path) -> bool:
    """Whether every user may read the file."""
    return path.exists() and bool(path.stat().st_mode & 0o004)


def test_host_image_is_rebuilt_when_the_machine_changes(machine: Path, tmp_path: Path) -> None:
    first = host_root(tmp_path / "bases", machine).base
    assert host_root(tmp_path / "bases", machine).base == first
    (machine / "etc/services").write_text("https 443/tcp\n")
    second = host_root(tmp_path / "bases", machine).base
    assert (second / "etc/services").read_text() == "https 443/tcp\n"
    assert (first / "etc/services").read_text() == "http 80/tcp\n"
    assert sorted((tmp_path / "bases").iterdir()) == sorted([first, second])


@pytest.mark.parametrize(
    ("name", "is_host_image"),
    [("sampan.local/host", True), ("sampan.local/host:latest", True), ("host", False), ("sampan.local/other", False)],
)
def test_names_of_the_host_image(name: str, is_host_image: bool) -> None:
    assert is_host(name) is is_host_image
