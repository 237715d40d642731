"""Kustomizations in git repositories, with the program git and repositories on this machine."""

from __future__ import annotations

import os
import shutil
import subprocess
import tempfile
from pathlib import Path

import pytest

from sampan.kubectl.errors import KubectlError
from sampan.kubectl.kustomization import build
from sampan.kubectl.kustomization.git_repository import NotARepository, parse_address

needs_git = pytest.mark.skipif(shutil.which("git") is None, reason="git is not installed")


@pytest.mark.parametrize(
    ("text", "url", "path", "revision"),
    [
        ("https://github.com/org/repo", "https://github.com/org/repo", "", ""),
        ("https://github.com/org/repo/a/b?ref=v1", "https://github.com/org/repo", "a/b", "v1"),
        ("github.com/org/repo//a/b?version=v2", "https://github.com/org/repo", "a/b", "v2"),
        ("HTTP://GitHub.com/org/repo.git/a", "https://github.com/org/repo.git", "a", ""),
        ("git@github.com:org/repo.git//a", "git@github.com:org/repo.git", "a", ""),
        ("ssh://git@github.com/org/repo.git/a?ref=x", "git@github.com:org/repo.git", "a", "x"),
        ("git::https://example.com/org/repo//a", "https://example.com/org/repo", "a", ""),
        ("user@host.example:path/to/repo.git/a", "user@host.example:path/to/repo.git", "a", ""),
        ("https://dev.example.com/org/p/_git/repo/a/b", "https://dev.example.com/org/p/_git/repo", "a/b", ""),
        ("file:///srv/repositories/one//a?ref=v1", "file:///srv/repositories/one", "a", "v1"),
        ("file:///srv/repositories/one", "file:///srv/repositories/one", "", ""),
        ("https://example.com/org/repo?ref=a&ref=b", "https://example.com/org/repo", "", "a"),
    ],
)
def test_parse_address(text: str, url: str, path: str, revision: str) -> None:
    address = parse_address(text)
    assert (address.url, address.path, address.revision) == (url, path, revision)


@pytest.mark.parametrize(
    ("query", "timeout_s", "has_submodules"),
    [("", 27, True), ("timeout=61", 61, True), ("timeout=2m&submodules=false", 120, False), ("timeout=-1", 27, True)],
)
def test_options_in_the_query_of_an_address(query: str, timeout_s: float, has_submodules: bool) -> None:
    address = parse_address(f"https://example.com/org/repo?{query}")
    assert (address.timeout_s, address.has_submodules) == (timeout_s, has_submodules)


@pytest.mark.parametrize(
    "text",
    ["", "base", "../base", "/srv/base", "a.yaml", "https://example.com/a.yaml", "file:///r//../x", "host.example:a/b"],
)
def test_parse_address_rejects_paths_and_files(text: str) -> None:
    with pytest.raises(NotARepository):
        parse_address(text)


def git(directory: Path, *words: str) -> None:
    identity = ["-c", "user.name=Ann", "-c", "user.email=ann@example.com", "-c", "protocol.file.allow=always"]
    subprocess.run(["git", *identity, *words], cwd=directory, check=True, capture_output=True)


def config_map(name: str) -> str:
    return f"apiVersion: v1\nkind: ConfigMap\nmetadata: {{name: {name}}}\n"


@pytest.fixture
def repository(tmp_path: Path) -> Path:
    """A repository with the tag v1, in which the config map has the name `first`, and a later commit."""
    root = tmp_path / "repository"
    (root / "app").mkdir(parents=True)
    (root / "base").mkdir()
    (root / "app" / "kustomization.yaml").write_text("resources: [../base]\nnamePrefix: app-\n")
    (root / "base" / "kustomization.yaml").write_text("resources: [map.yaml]\n")
    (root / "base" / "map.yaml").write_text(config_map("first"))
    git(tmp_path, "init", "--quiet", str(root))
    commit(root)
    git(root, "tag", "v1")
    (root / "base" / "map.yaml").write_text(config_map("second"))
    commit(root)
    return root


def commit(root: Path) -> None:
    git(root, "add", "--all")
    git(root, "commit", "--quiet", "--message", "change")


def names(target: str) -> list[str]:
    return [value["metadata"]["name"] for value in build(target)]


@needs_git
def test_repository_is_usable_as_a_base(repository: Path, tmp_path: Path) -> None:
    overlay = tmp_path / "overlay"
    overlay.mkdir()
    (overlay / "kustomization.yaml").write_text(f"resources: ['file://{repository}//app?ref=v1']\nnameSuffix: -x\n")
    assert names(str(overlay)) == ["app-first-x"]


@needs_git
def test_repository_is_usable_on_the_command_line(
    repository: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    monkeypatch.setattr(tempfile, "tempdir", None)
    assert names(f"file://{repository}//app") == ["app-second"]
    assert list(tmp_path.glob("kustomize-*")) == [], "the copy is removed"


@needs_git
@pytest.mark.parametrize(
    ("address", "reason"),
    [
        ("//app?ref=nosuch", "couldn't find remote ref nosuch"),
        ("//nosuch", "no such file or directory"),
        ("//base/map.yaml", "refers to file 'map.yaml'; expecting directory"),
        ("//app?ref=--upload-pack=touch%20/tmp/never", "is not valid"),
        ("//link", "refers to directory outside of repo"),
        ("//outside", "security; bases in kustomizations found in cloned git repos must be within the repo"),
        ("//secret", "security; file"),
        ("//cycle", "cycle detected: URI"),
    ],
)
def test_repository_with_unsafe_or_missing_references_is_rejected(repository: Path, address: str, reason: str) -> None:
    for name in ("outside", "secret", "cycle"):
        (repository / name).mkdir()
    (repository / "link").symlink_to("/etc")
    (repository / "outside" / "kustomization.yaml").write_text("resources: [../../../../../../../../tmp]\n")
    (repository / "secret" / "kustomization.yaml").write_text("configMapGenerator: [{name: a, files: [passwd]}]\n")
    (repository / "secret" / "passwd").symlink_to("/etc/passwd")
    (repository / "cycle" / "kustomization.yaml").write_text(f"resources: ['file://{repository}//cycle']\n")
    commit(repository)
    with pytest.raises(KubectlError) as failure:
        build(f"file://{repository}{address}")
    assert reason in failure.value.message


@needs_git
@pytest.mark.parametrize("address", ["file://{}", "{}"])
def test_a_submodule_with_the_address_of_a_local_repository_is_refused(
    repository: Path, tmp_path: Path, address: str
) -> None:
    private = tmp_path / "private"
    private.mkdir()
    (private / "secret").write_text("treasure")
    git(private, "init", "--quiet")
    commit(private)
    git(repository, "submodule", "add", "--quiet", str(private), "stolen")
    (repository / ".gitmodules").write_text(f'[submodule "stolen"]\npath = stolen\nurl = {address.format(private)}\n')
    generator = "configMapGenerator: [{name: a, files: [../stolen/secret]}]\n"
    (repository / "app" / "kustomization.yaml").write_text(generator)
    commit(repository)
    with pytest.raises(KubectlError, match="transport 'file' not allowed"):
        build(f"file://{repository}//app")


@needs_git
def test_git_hooks_and_environment_variables_are_ignored(
    repository: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    trace = tmp_path / "trace"
    hook = tmp_path / "template" / "hooks" / "post-checkout"
    hook.parent.mkdir(parents=True)
    hook.write_text(f"#!/bin/sh\ntouch {trace}\n")
    hook.chmod(0o755)
    monkeypatch.setenv("GIT_TEMPLATE_DIR", str(tmp_path / "template"))
    monkeypatch.setenv("GIT_DIR", str(tmp_path / "other"))
    assert names(f"file://{repository}//app") == ["app-second"]
    assert not trace.exists()
    assert not (tmp_path / "other").exists()


@needs_git
def test_git_is_killed_after_the_timeout(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    program = tmp_path / "git"
    program.write_text(f"#!/bin/sh\necho $$ > {tmp_path}/pid\nexec sleep 1000\n")
    program.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}{os.pathsep}{os.environ['PATH']}")
    with pytest.raises(KubectlError, match=r"hit 100ms timeout running '.*git init'|hit 1s timeout"):
        build("https://example.com/org/repo?timeout=1")
    if (tmp_path / "pid").exists():
        with pytest.raises(ProcessLookupError):
            os.kill(int((tmp_path / "pid").read_text()), 0)


def test_missing_git_program_is_reported(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", "")
    with pytest.raises(KubectlError, match="no 'git' program on path"):
        build("https://example.com/org/repo")
