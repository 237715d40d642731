"""The directory of `KUBEBUILDER_ASSETS`: `etcd`, `kube-apiserver` and `kubectl` as scripts that run Sampan."""

from __future__ import annotations

import hashlib
import os
import sys
from pathlib import Path
from shlex import quote

from sampan import __version__
from sampan.api.kubernetes_version import MINOR_VERSION
from sampan.cli.envtest import etcd, kube_apiserver
from sampan.host.durable_files import write_durably

_SCRIPT = """\
#!/bin/sh
# {name} of `sampan envtest path`, Sampan {version}
for word in "$@"; do
  test "$word" = --help || continue
  cat <<'END_OF_HELP'
{help}
END_OF_HELP
  exit 0
done
exec {command} "$@"
"""
"""The shell script of a program. It prints the help without starting Python, because envtest searches the output of
--help for flags before each start."""


def write_assets(kubernetes_version: str = MINOR_VERSION) -> Path:
    """Create the scripts that are missing or outdated, and return the path of their directory. Several processes may do
    so at the same time. The API server emulates `kubernetes_version`."""
    scripts = _scripts(kubernetes_version)
    content = hashlib.sha256("".join(scripts.values()).encode()).hexdigest()[:12]
    directory = _cache() / "envtest" / f"{__version__}-{content}"
    directory.mkdir(parents=True, exist_ok=True)
    for name, text in scripts.items():
        if not _is_current(directory / name, text):
            _write(directory / name, text)
    return directory


def _scripts(kubernetes_version: str) -> dict[str, str]:
    python = quote(sys.executable)
    # -P excludes modules in the working directory of the tests; etcd needs only the standard library
    return {
        "etcd": _script("etcd", etcd.HELP, f"{python} -I -S {quote(etcd.__file__)}"),
        "kube-apiserver": _script(
            "kube-apiserver",
            _server_help(),
            f"{python} -P -m {kube_apiserver.__name__} --emulated-version={kubernetes_version}",
        ),
        "kubectl": f'#!/bin/sh\nexec {python} -P -m sampan kubectl "$@"\n',
    }


def _script(name: str, help: str, command: str) -> str:
    return _SCRIPT.format(name=name, version=__version__, help=help.rstrip(), command=command)


def _server_help() -> str:
    import click

    with click.Context(kube_apiserver.command, info_name="kube-apiserver", terminal_width=100) as context:
        return kube_apiserver.command.get_help(context)


def _cache() -> Path:
    base = os.environ.get("XDG_CACHE_HOME")
    return (Path(base) if base else Path.home() / ".cache") / "sampan"


def _is_current(path: Path, text: str) -> bool:
    try:
        return path.read_text() == text and os.access(path, os.X_OK)
    except FileNotFoundError:
        return False


def _write(path: Path, text: str) -> None:
    """Replace a script atomically, because another process may be about to run it. It is checked at each use, and so it
    need not be on disk."""
    write_durably(path, text.encode(), mode=0o755, is_synced=False)
