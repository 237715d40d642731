"""The image `sampan.local/host`: the machine's own programs, so that pods run where no registry can be reached.

Programs and libraries (/usr, and /bin, /sbin, /lib* where these are no links into it) are the machine's, shown through
an overlay: a container can add files there, for itself alone. Of these directories containers see what every
user of the machine may read, also of files that come later: the mount below the overlay is one whose files belong to
nobody (`kernel.bind_without_owners`). Everything else is made here: an empty root with the few files of /etc that
programs need, each of which everybody may read anyhow. Homes, keys, /var, /run, other people's names and Sampan's own
data are not in it.
"""

from __future__ import annotations

import contextlib
import hashlib
import io
import os
import shutil
import stat
import tarfile
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

from sampan.runtimes import kernel
from sampan.runtimes.contract import ImageInfo
from sampan.runtimes.images import bundles
from sampan.runtimes.images.bundles import Bundle
from sampan.runtimes.images.manifests import ImageConfig, RunConfig, own_platform
from sampan.runtimes.images.reference import BadReference, parse_reference
from sampan.runtimes.kernel import UserNamespace

NAME = "sampan.local/host"
ID = "sampan.local/host@own"
PATH = "PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"

_PROGRAMS = ("bin", "sbin", "lib", "lib32", "lib64", "libx32")
_FOLDERS = {
    **dict.fromkeys(("dev", "etc", "home", "mnt", "opt", "proc", "run", "srv", "sys", "usr", "var", "var/lib"), 0o755),
    **dict.fromkeys(("var/cache", "var/log", "var/run"), 0o755),
    **dict.fromkeys(("tmp", "var/tmp"), 0o1777),
    "root": 0o700,
}
_ETC = (
    *("alternatives", "ca-certificates.conf", "debian_version", "gai.conf", "ld.so.cache", "ld.so.conf"),
    *("ld.so.conf.d", "localtime", "lsb-release", "magic", "mime.types", "netconfig", "nsswitch.conf", "os-release"),
    *("pki/ca-trust/extracted/pem", "profile", "protocols", "python3", "rpc", "services", "ssl/certs"),
    *("ssl/openssl.cnf", "terminfo", "timezone"),
)
"""What programs look for; what is not there is left out."""
_MOST_FILE = 4 << 20
_PASSWD = (
    "root:x:0:0:root:/root:/bin/sh\ndaemon:x:1:1:daemon:/usr/sbin:/usr/sbin/nologin\n"
    "nobody:x:65534:65534:nobody:/nonexistent:/usr/sbin/nologin\n"
)
_GROUP = "root:x:0:\ndaemon:x:1:\ntty:x:5:\nnogroup:x:65534:\n"

CONFIG = ImageConfig(
    architecture=own_platform().architecture,
    config=RunConfig(env=[PATH], cmd=["/bin/sh"], working_dir="/"),
)


@dataclass(frozen=True)
class Shown:
    """A directory of the machine, and where containers see it. `layers` is where layers of overlays for it are kept."""

    source: Path
    target: str
    layers: Path

    @cached_property
    def directories(self) -> Path:
        """A layer with directories alone, which are root's: those near the top that everybody may enter."""
        return _kept(self.layers, _near_the_top(self.source), {})

    def private_by_custom(self) -> list[str]:
        """Where containers would see what administrators keep for themselves."""
        return [f"{self.target}/{path}" for path in _PRIVATE_BY_CUSTOM if (self.source / path).is_dir()]

    @cached_property
    def hiding(self) -> Path:
        """A layer that also hides what not everybody may read when this is first asked for, and what is private by
        custom: for file systems whose owners cannot be hidden."""
        return _kept(self.layers, _near_the_top(self.source), dict(_private(self.source)))


@dataclass(frozen=True)
class HostRoot:
    base: Path
    """The lowest layer of a container's root."""
    shown: Sequence[Shown]
    """Each of these is the lower layer of an overlay of its own."""

    @cached_property
    def nobody(self) -> UserNamespace:
        """For mounts without owners, made once. OSError where it cannot be had."""
        return kernel.nobody_namespace()


def is_host(name: str) -> bool:
    try:
        return parse_reference(name).name == NAME or name == ID
    except BadReference:
        return name == ID


def info() -> ImageInfo:
    return ImageInfo(id=ID, names=(f"{NAME}:latest",), is_pinned=True)


def bundle(root: HostRoot) -> Bundle:
    """Its lowest layer as an image for engines, which show the machine's folders by mounts."""
    run = CONFIG.run
    return bundles.made(f"{NAME}:latest", {"Env": run.env, "Cmd": run.cmd, "WorkingDir": run.working_dir}, _layer(root))


def _layer(root: HostRoot) -> bytes:
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w") as archive:
        for path in sorted(root.base.rglob("*")):
            member = archive.gettarinfo(path, arcname=str(path.relative_to(root.base)))
            member.uid = member.gid = member.mtime = 0
            member.uname = member.gname = ""
            if member.isfile():
                with path.open("rb") as file:
                    archive.addfile(member, file)
            else:
                archive.addfile(member)
    return out.getvalue()


def host_root(folder: Path, machine: Path = Path("/")) -> HostRoot:
    """Made in `folder`, or found there if the machine has not changed: a base that containers use stays as it is."""
    folder.mkdir(parents=True, exist_ok=True)
    scratch = Path(tempfile.mkdtemp(dir=folder, prefix=".new-"))
    try:
        scratch.chmod(0o755)
        _fill(scratch, machine)
        base = folder / _digest(scratch)
        if not base.exists():
            scratch.rename(base)
    finally:
        shutil.rmtree(scratch, ignore_errors=True)
    own = [name for name in _PROGRAMS if (machine / name).is_dir() and not (machine / name).is_symlink()]
    return HostRoot(base, [Shown(machine / name, f"/{name}", folder / "layers") for name in ("usr", *own)])


_OTHERS = stat.S_IROTH | stat.S_IXOTH
_DEPTH, _DEPTH_OF_LOCAL = 2, 4
"""How deep below /usr containers can add files, and how deep in /usr/local, where Python's packages go. /usr has 20,000
directories, which would take seconds to make."""
_PRIVATE_BY_CUSTOM = ("local/etc", "local/games", "local/src", "src")
"""Places below /usr where administrators keep what is their own, programs do without."""


def _near_the_top(top: Path) -> list[tuple[str, int]]:
    return sorted(_directories(top, lambda path: _DEPTH_OF_LOCAL if path.startswith("local") else _DEPTH))


def _directories(top: Path, deepest: Callable[[str], int] = lambda path: 1 << 30) -> Iterator[tuple[str, int]]:
    """Relative paths and modes of the directories below that everybody may enter and list."""
    places = [""]
    while places:
        place = places.pop()
        with contextlib.suppress(OSError), os.scandir(top / place) as entries:
            for entry in entries:
                if not entry.is_dir(follow_symlinks=False):
                    continue
                mode = entry.stat(follow_symlinks=False).st_mode
                if mode & _OTHERS == _OTHERS:
                    path = f"{place}/{entry.name}" if place else entry.name
                    if path.count("/") + 1 < deepest(path):
                        places.append(path)
                    yield path, stat.S_IMODE(mode) & 0o777


def _private(top: Path) -> Iterator[tuple[str, bool]]:
    """Relative paths of what is not to be seen, and whether it is a directory."""
    for path in _PRIVATE_BY_CUSTOM:
        if (top / path).is_dir():
            yield path, True
    for place in ("", *(path for path, _ in _directories(top))):
        with contextlib.suppress(OSError), os.scandir(top / place) as entries:
            for entry in entries:
                mode = entry.stat(follow_symlinks=False).st_mode
                is_directory = stat.S_ISDIR(mode)
                needed = _OTHERS if is_directory else stat.S_IROTH
                if not stat.S_ISLNK(mode) and mode & needed != needed:
                    yield (f"{place}/{entry.name}" if place else entry.name), is_directory


def _kept(folder: Path, directories: Sequence[tuple[str, int]], hidden: Mapping[str, bool]) -> Path:
    """A layer with these directories, in which nothing of the hidden ones shows. It is named after its content and
    never changed: containers use it."""
    text = repr((directories, sorted(hidden.items()))).encode("utf-8", "surrogateescape")
    layer = folder / hashlib.sha256(text).hexdigest()[:16]
    if layer.exists():
        return layer
    folder.mkdir(parents=True, exist_ok=True)
    scratch = Path(tempfile.mkdtemp(dir=folder, prefix=".new-"))
    try:
        scratch.chmod(0o755)
        for path, mode in directories:
            os.mkdir(scratch / path)
            os.chmod(scratch / path, mode)
        for path, is_directory in hidden.items():
            _hide(scratch / path, is_directory)
        with contextlib.suppress(OSError):  # another thread was faster, and has the same
            scratch.rename(layer)
    finally:
        shutil.rmtree(scratch, ignore_errors=True)
    return layer


def _hide(path: Path, is_directory: bool) -> None:
    """As overlayfs is told of a directory that hides those below it, and of a file that is gone."""
    if is_directory:
        path.mkdir(parents=True, exist_ok=True)
        for each in sorted(path.rglob("*"), reverse=True):
            each.rmdir() if each.is_dir() else each.unlink()
        os.setxattr(path, "trusted.overlay.opaque", b"y")
    else:
        path.parent.mkdir(parents=True, exist_ok=True)
        os.mknod(path, stat.S_IFCHR, 0)


def _digest(root: Path) -> str:
    found = hashlib.sha256()
    for path in sorted(root.rglob("*")):
        about = path.lstat()
        content = os.readlink(path).encode() if path.is_symlink() else path.read_bytes() if path.is_file() else b""
        found.update(f"{path.relative_to(root)}\0{about.st_mode}\0{len(content)}\0".encode() + content)
    return found.hexdigest()[:16]


def _fill(root: Path, machine: Path) -> None:
    for name, mode in _FOLDERS.items():
        (root / name).mkdir(parents=True, exist_ok=True)
        (root / name).chmod(mode)
    for name in _PROGRAMS:
        found = machine / name
        if found.is_symlink():
            (root / name).symlink_to(os.readlink(found))
        elif found.is_dir():
            (root / name).mkdir()
    for name, text in (("passwd", _PASSWD), ("group", _GROUP), ("hosts", ""), ("resolv.conf", ""), ("hostname", "")):
        (root / "etc" / name).write_text(text)
    for name in _ETC:
        _copy(machine / "etc" / name, root / "etc" / name)


def _copy(source: Path, target: Path) -> None:
    """A file, a link, or a folder with what is in it; nothing that not everybody may read."""
    try:
        about = source.lstat()
    except OSError:
        return
    target.parent.mkdir(parents=True, exist_ok=True)
    if stat.S_ISLNK(about.st_mode):
        target.symlink_to(os.readlink(source))
    elif stat.S_ISDIR(about.st_mode) and about.st_mode & stat.S_IROTH:
        target.mkdir(exist_ok=True)
        for name in _names(source):
            _copy(source / name, target / name)
    elif stat.S_ISREG(about.st_mode) and about.st_mode & stat.S_IROTH and about.st_size <= _MOST_FILE:
        shutil.copyfile(source, target, follow_symlinks=False)
        target.chmod(stat.S_IMODE(about.st_mode) & 0o755)


def _names(folder: Path) -> Iterator[str]:
    """Keys are kept beside certificates in places."""
    return (name for name in sorted(os.listdir(folder)) if name != "private" and not name.endswith(".key"))


__all__ = ["CONFIG", "ID", "NAME", "PATH", "HostRoot", "Shown", "bundle", "host_root", "info", "is_host"]
