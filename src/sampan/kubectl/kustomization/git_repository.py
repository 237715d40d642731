"""Kustomizations in git repositories: how their addresses are read, and how they are fetched with the program git
(kustomize's internal/git).

A repository is not trusted. Git runs without hooks, prompts and transports that run programs, with a time limit for
each step and a limit for the size of files; an address or revision is never taken for an option of git.
"""

from __future__ import annotations

import contextlib
import os
import re
import shutil
import signal
import subprocess
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import parse_qsl

from sampan.kubectl.errors import KubectlError

_SCHEMES = ("ssh://", "https://", "http://", "file://")
_FILE = "file://"
_USER = re.compile(r"[a-zA-Z][a-zA-Z0-9-]*@", re.ASCII)
_GITHUB = ("github.com/", "github.com:")
_PATH_SEGMENTS = 2
"""The number of path segments that name the repository, if no marker such as `.git` ends its path: organization and
repository."""
_TIMEOUT_S = 27.0
_MAX_TIMEOUT_S = 600.0
_MAX_FILE_BYTES = 1 << 30
_MAX_OUTPUT_BYTES = 16 << 10
_SETTINGS = {
    "core.hooksPath": os.devnull,
    "core.fsmonitor": "false",
    "init.templateDir": "",
    "init.defaultBranch": "main",
    "advice.detachedHead": "false",
    "protocol.ext.allow": "never",
    "submodule.fetchJobs": "1",
    "gc.auto": "0",
}
_PROTOCOLS = "file:http:https:ssh"
_SUBMODULE_PROTOCOLS = "http:https:ssh"
"""Without `file`, as the author of a repository chooses the addresses of its submodules, and must not be able to read
repositories of the user."""
_INHERITED_VARIABLES = (
    "GIT_ASKPASS",
    "GIT_SSH",
    "GIT_SSH_COMMAND",
    "GIT_SSL_CAINFO",
    "GIT_SSL_CAPATH",
    "GIT_SSL_NO_VERIFY",
)


class NotARepository(ValueError):
    """The text is not the address of a git repository."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RepositoryAddress:
    text: str
    """The whole address, as the kustomization has it."""
    url: str
    """The URL that git fetches."""
    path: str
    """The directory of the kustomization in the repository."""
    revision: str
    timeout_s: float
    has_submodules: bool


def parse_address(text: str) -> RepositoryAddress:
    """Split the address of a kustomization in a repository, such as `https://example.com/org/repo//dir?ref=v1`. Raise
    NotARepository for a local path."""
    if text.startswith("/"):
        raise NotARepository(f"uri looks like abs path: {text}")
    remaining_text, _, query = text.partition("?")
    host, remaining_text = _split_host(remaining_text)
    repository, path = _split_path(remaining_text, takes_all=host == _FILE)
    if not repository:
        raise NotARepository("failed to parse repo path segment")
    if os.path.normpath(path.lstrip("/") or ".").split("/")[0] == "..":
        raise NotARepository(f"url path exits repo: {remaining_text}")
    values = dict(reversed(parse_qsl(query)))
    return RepositoryAddress(
        text=text,
        url=host + repository,
        path=path.removeprefix("/"),
        revision=values.get("ref") or values.get("version") or "",
        timeout_s=_timeout_s(values.get("timeout", "")),
        has_submodules=values.get("submodules", "") not in ("0", "f", "F", "FALSE", "false", "False"),
    )


def _split_host(text: str) -> tuple[str, str]:
    if text[:5].lower() == "git::":
        text = text[5:]
    scheme = next((scheme for scheme in _SCHEMES if text[: len(scheme)].lower() == scheme), "")
    text = text[len(scheme) :]
    if scheme == _FILE:
        return scheme, text
    match = _USER.match(text)
    user = match[0] if match else ""
    text = text[len(user) :]
    is_github = text.lower().startswith(_GITHUB)
    is_scp = not scheme and (bool(user) or is_github)
    if not scheme and not is_scp:
        raise NotARepository("failed to parse scheme")
    host, remaining_text = _split_at_path(text, is_scp)
    if is_github:
        is_ssh = scheme == "ssh://" or bool(user)
        scheme, host = ("", "github.com:") if is_ssh else ("https://", "github.com/")
        user = user if is_ssh else ""
    if not host:
        raise NotARepository("failed to parse host segment")
    return scheme + user + host, remaining_text


def _split_at_path(text: str, is_scp: bool) -> tuple[str, str]:
    """Split host and path; in the form of scp a colon may end the host."""
    slash = text.find("/")
    colon = text.find(":")
    if is_scp and (slash < 0 or 0 < colon < slash):
        slash = colon
    return (text[: slash + 1], text[slash + 1 :]) if slash >= 0 else (text, "")


def _split_path(text: str, *, takes_all: bool) -> tuple[str, str]:
    """Split a path into that of the repository and that of the kustomization directory in the repository."""
    before, marker, after = text.partition("_git/")
    if marker:
        name, _, path = after.partition("/")
        return before + marker + name, path
    before, marker, after = text.partition("//")
    if marker:
        return before, after
    before, marker, after = text.partition(".git")
    if marker:
        return before + marker, after
    if takes_all:
        return text, ""
    segments = text.split("/")
    if len(segments) < _PATH_SEGMENTS:
        return "", ""
    return "/".join(segments[:_PATH_SEGMENTS]), "/".join(segments[_PATH_SEGMENTS:])


def _timeout_s(text: str) -> float:
    from sampan.kubectl.command_line.flag_parser import ValueSyntaxError, parse_duration_s

    try:
        seconds = float(text) if text.isdecimal() and len(text) < 10 else parse_duration_s(text) if text else 0.0
    except ValueSyntaxError:
        seconds = 0.0
    return min(seconds, _MAX_TIMEOUT_S) if seconds > 0 else _TIMEOUT_S


# -- fetching --------------------------------------------------------------------------------------------------------


def fetch(address: RepositoryAddress, directory: Path) -> None:
    """Fetch the revision of a repository into an empty directory. Raise KubectlError if that fails."""
    program = shutil.which("git")
    if program is None:
        raise KubectlError("no 'git' program on path: exec: \"git\": executable file not found in $PATH")
    for word in (address.url, address.revision):
        if word.startswith("-") or "\n" in word or "\0" in word:
            raise KubectlError(f"the address {address.text!r} of a git repository is not valid")
    git = _GitRunner(program=program, directory=directory, timeout_s=address.timeout_s)
    git.run("init")
    git.run("remote", "add", "origin", address.url)
    git.run("fetch", "--depth=1", address.url, address.revision or "HEAD")
    git.run("checkout", "FETCH_HEAD")
    if address.has_submodules and (directory / ".gitmodules").is_file():
        git.run("submodule", "update", "--init", "--recursive", protocols=_SUBMODULE_PROTOCOLS)


@dataclass(frozen=True, slots=True, kw_only=True)
class _GitRunner:
    program: str
    directory: Path
    timeout_s: float

    def run(self, *words: str, protocols: str = _PROTOCOLS) -> None:
        """Run a command of git in the directory. Raise KubectlError with its output if it fails."""
        settings = [part for name, value in _SETTINGS.items() for part in ("-c", f"{name}={value}")]
        process = subprocess.Popen(
            [self.program, *settings, *words],
            cwd=self.directory,
            env=_environment(os.environ, protocols),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            start_new_session=True,
            preexec_fn=_limit_files,
        )
        shown = " ".join((self.program, *words))
        try:
            output, _ = process.communicate(timeout=self.timeout_s)
        except subprocess.TimeoutExpired:
            raise KubectlError(f"hit {_duration_text(self.timeout_s)} timeout running '{shown}'") from None
        finally:
            _end(process)
        if process.returncode:
            text = output[-_MAX_OUTPUT_BYTES:].decode("utf-8", "replace")
            code = process.returncode
            reason = f"exit status {code}" if code > 0 else f"signal: {signal.Signals(-code).name}"
            raise KubectlError(f"failed to run '{shown}': {text}: {reason}")


def _limit_files() -> None:
    import resource

    resource.setrlimit(resource.RLIMIT_FSIZE, (_MAX_FILE_BYTES, _MAX_FILE_BYTES))


def _end(process: subprocess.Popen[bytes]) -> None:
    """End git and the programs that it has started, such as ssh."""
    if process.poll() is None:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()
    if process.stdout is not None:
        process.stdout.close()


def _environment(environment: Mapping[str, str], protocols: str) -> dict[str, str]:
    """Return the environment of git: without variables that change its repository, and with settings that disable
    prompts and other protocols."""
    inherited_variables = {
        name: value
        for name, value in environment.items()
        if not name.startswith("GIT_") or name in _INHERITED_VARIABLES
    }
    own = {"GIT_TERMINAL_PROMPT": "0", "GIT_ALLOW_PROTOCOL": protocols, "LC_ALL": "C"}
    return {"GIT_SSH_COMMAND": "ssh -o BatchMode=yes", **inherited_variables, **own}


def _duration_text(seconds: float) -> str:
    from sampan.api.values import durations

    return durations.format_duration(round(seconds * durations.SECOND))
