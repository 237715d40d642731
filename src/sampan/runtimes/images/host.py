"""The image `sampan.local/host`: the machine's own programs, so that pods run where no registry can be reached.

Programs and libraries (/usr, and /bin, /sbin, /lib* where these are no links into it) are the machine's, shown through
an overlay: a container that writes there writes to its own copy. Everything else is made here: an empty root with the
few files of /etc that programs need, each of which everybody may read anyhow. Homes, keys, /var, /run, other people's
names and Sampan's own data are not in it.
"""

from __future__ import annotations

import hashlib
import io
import os
import shutil
import stat
import tarfile
import tempfile
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from sampan.runtimes.contract import ImageInfo
from sampan.runtimes.images import bundles
from sampan.runtimes.images.bundles import Bundle
from sampan.runtimes.images.manifests import ImageConfig, RunConfig, own_platform
from sampan.runtimes.images.reference import BadReference, parse_reference

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


@dataclass(frozen=True, slots=True)
class Shown:
    """A folder of the machine, and where containers see it."""

    source: Path
    target: str


@dataclass(frozen=True, slots=True)
class HostRoot:
    base: Path
    """The lowest layer of a container's root."""
    shown: Sequence[Shown]
    """Each of these is the lower layer of an overlay of its own."""


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
    return HostRoot(base, [Shown(machine / name, f"/{name}") for name in ("usr", *own)])


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
