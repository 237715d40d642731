"""The image `sampan.local/host`: the machine's own programs, so that pods can run without a registry.

Programs and libraries (/usr, and /bin, /sbin, /lib* unless they are links into it) are those of the machine, mounted
through an overlay, so that a container can add files there without affecting others. Of these directories containers
see only world-readable files, which also holds for files created later: the lower mount of the overlay has no owners
(`kernel.bind_without_owners`). Everything else is created here: an empty root with those files of /etc that programs
need, all of them world-readable. Home directories, keys, /var, /run, user names and Sampan's own data are not in the
image.
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
from sampan.runtimes.images.bundles import ImageBundle
from sampan.runtimes.images.manifests import ImageConfig, RunConfig, detect_platform
from sampan.runtimes.images.reference import BadReference, parse_reference
from sampan.runtimes.kernel import UserNamespace

NAME = "sampan.local/host"
ID = "sampan.local/host@own"
PATH = "PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"

_PROGRAMS = ("bin", "sbin", "lib", "lib32", "lib64", "libx32")
_DIRECTORIES = {
    **dict.fromkeys(("dev", "etc", "home", "mnt", "opt", "proc", "run", "srv", "sys", "usr", "var", "var/lib"), 0o755),
    **dict.fromkeys(("var/cache", "var/log", "var/run"), 0o755),
    **dict.fromkeys(("tmp", "var/tmp"), 0o1777),
    "root": 0o700,
}
_ETC = (
    *("ImageMagick-*", "OpenCL/vendors", "R", "alternatives", "bash.bashrc", "ca-certificates.conf", "crypto-policies"),
    *("debian_version", "ethertypes", "fonts", "gai.conf", "glvnd", "groff", "host.conf", "inputrc", "java", "java-*"),
    *("ld.so.cache", "ld.so.conf", "ld.so.conf.d", "locale.alias", "locale.conf", "localtime", "lsb-release", "magic"),
    *("magic.mime", "maven/logging", "maven/m2.conf", "mime.types", "mke2fs.conf", "netconfig", "networks"),
    *("nsswitch.conf", "os-release", "perl", "pki/ca-trust/extracted", "pki/java", "pki/tls/cert.pem", "pki/tls/certs"),
    *("pki/tls/openssl.cnf", "profile", "protocols", "python*", "redhat-release", "rpc", "services", "sgml"),
    *("ssl/certs", "ssl/openssl.cnf", "system-release", "terminfo", "timezone", "vulkan", "xml"),
)
"""Patterns of the files below /etc that programs and libraries in /usr refer to: their defaults, which packages
install. Files in which administrators put credentials, such as those of package managers, Maven and wget, are not among
them."""
_MAX_FILE_BYTES = 4 << 20
_PASSWD = (
    "root:x:0:0:root:/root:/bin/sh\ndaemon:x:1:1:daemon:/usr/sbin:/usr/sbin/nologin\n"
    "nobody:x:65534:65534:nobody:/nonexistent:/usr/sbin/nologin\n"
)
_GROUP = "root:x:0:\ndaemon:x:1:\ntty:x:5:\nnogroup:x:65534:\n"

CONFIG = ImageConfig(
    architecture=detect_platform().architecture,
    config=RunConfig(env=[PATH], cmd=["/bin/sh"], working_dir="/"),
)


@dataclass(frozen=True)
class HostDirectory:
    """A directory of the machine, and its path in containers. `layers` is the directory for the overlay layers made for
    this directory."""

    source: Path
    target: str
    layers: Path

    @cached_property
    def directories_layer(self) -> Path:
        """A layer that contains only directories owned by root: copies of the world-accessible directories near the top
        of `source`."""
        return _ensure_layer(self.layers, _list_top_directories(self.source), {})

    def list_private_paths(self) -> list[str]:
        """Return the paths in containers where administrators usually keep private files."""
        return [f"{self.target}/{path}" for path in _PRIVATE_DIRECTORIES if (self.source / path).is_dir()]

    @cached_property
    def hiding_layer(self) -> Path:
        """A layer that also hides the files that are not world-readable at the time of the first access, and
        directories that are private by custom. It is used for file systems that do not support mounts without
        owners."""
        return _ensure_layer(self.layers, _list_top_directories(self.source), dict(_find_private_entries(self.source)))


@dataclass(frozen=True)
class HostRoot:
    base: Path
    """The lowest layer of a container's root file system."""
    shown: Sequence[HostDirectory]
    """Directories of the machine, each the lower layer of a separate overlay."""

    @cached_property
    def nobody(self) -> UserNamespace:
        """The user namespace for mounts without owners, created once. Raise OSError if it cannot be created."""
        return kernel.nobody_namespace()


def is_host(name: str) -> bool:
    try:
        return parse_reference(name).name == NAME or name == ID
    except BadReference:
        return name == ID


def info() -> ImageInfo:
    return ImageInfo(id=ID, names=(f"{NAME}:latest",), is_pinned=True)


def bundle(root: HostRoot) -> ImageBundle:
    """Return the base layer as an image for engines, into which they mount the directories of the machine."""
    run = CONFIG.run
    return bundles.single_layer_bundle(
        f"{NAME}:latest", {"Env": run.env, "Cmd": run.cmd, "WorkingDir": run.working_dir}, _layer(root)
    )


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


def host_root(directory: Path, machine: Path = Path("/")) -> HostRoot:
    """Return the root in `directory`, creating it if the machine has changed since the last call. An existing base is
    never changed, as containers may use it."""
    directory.mkdir(parents=True, exist_ok=True)
    scratch = Path(tempfile.mkdtemp(dir=directory, prefix=".new-"))
    try:
        scratch.chmod(0o755)
        _fill(scratch, machine)
        base = directory / _digest(scratch)
        if not base.exists():
            scratch.rename(base)
    finally:
        shutil.rmtree(scratch, ignore_errors=True)
    own = [name for name in _PROGRAMS if (machine / name).is_dir() and not (machine / name).is_symlink()]
    return HostRoot(base, [HostDirectory(machine / name, f"/{name}", directory / "layers") for name in ("usr", *own)])


_OTHERS = stat.S_IROTH | stat.S_IXOTH
_MAX_USR_DEPTH, _MAX_LOCAL_DEPTH = 2, 4
"""How deep below /usr, and in /usr/local with its Python packages, containers can add files. A copy of all directories
would take seconds, as /usr has about 20,000 of them."""
_PRIVATE_DIRECTORIES = ("local/etc", "local/games", "local/src", "src")
"""Directories below /usr in which administrators keep private files, and which programs do not need."""


def _list_top_directories(top: Path) -> list[tuple[str, int]]:
    return sorted(_directories(top, lambda path: _MAX_LOCAL_DEPTH if path.startswith("local") else _MAX_USR_DEPTH))


def _directories(top: Path, deepest: Callable[[str], int] = lambda path: 1 << 30) -> Iterator[tuple[str, int]]:
    """Yield the relative paths and modes of the world-accessible directories below `top`."""
    pending = [""]
    while pending:
        parent = pending.pop()
        with contextlib.suppress(OSError), os.scandir(top / parent) as entries:
            for entry in entries:
                if not entry.is_dir(follow_symlinks=False):
                    continue
                mode = entry.stat(follow_symlinks=False).st_mode
                if mode & _OTHERS == _OTHERS:
                    path = f"{parent}/{entry.name}" if parent else entry.name
                    if path.count("/") + 1 < deepest(path):
                        pending.append(path)
                    yield path, stat.S_IMODE(mode) & 0o777


def _find_private_entries(top: Path) -> Iterator[tuple[str, bool]]:
    """Yield the relative path of each entry to hide, and whether it is a directory."""
    for path in _PRIVATE_DIRECTORIES:
        if (top / path).is_dir():
            yield path, True
    for parent in ("", *(path for path, _ in _directories(top))):
        with contextlib.suppress(OSError), os.scandir(top / parent) as entries:
            for entry in entries:
                mode = entry.stat(follow_symlinks=False).st_mode
                is_directory = stat.S_ISDIR(mode)
                needed = _OTHERS if is_directory else stat.S_IROTH
                if not stat.S_ISLNK(mode) and mode & needed != needed:
                    yield (f"{parent}/{entry.name}" if parent else entry.name), is_directory


def _ensure_layer(directory: Path, directories: Sequence[tuple[str, int]], hidden: Mapping[str, bool]) -> Path:
    """Return a layer with these directories that hides the `hidden` entries. The layer is named after its content and
    never changed, as containers may use it."""
    text = repr((directories, sorted(hidden.items()))).encode("utf-8", "surrogateescape")
    layer = directory / hashlib.sha256(text).hexdigest()[:16]
    if layer.exists():
        return layer
    directory.mkdir(parents=True, exist_ok=True)
    scratch = Path(tempfile.mkdtemp(dir=directory, prefix=".new-"))
    try:
        scratch.chmod(0o755)
        for path, mode in directories:
            os.mkdir(scratch / path)
            os.chmod(scratch / path, mode)
        for path, is_directory in hidden.items():
            _hide(scratch / path, is_directory)
        with contextlib.suppress(OSError):  # another thread has created the same layer
            scratch.rename(layer)
    finally:
        shutil.rmtree(scratch, ignore_errors=True)
    return layer


def _hide(path: Path, is_directory: bool) -> None:
    """Create the overlayfs marker that hides an entry of the lower layers: an opaque directory or a whiteout device."""
    if is_directory:
        path.mkdir(parents=True, exist_ok=True)
        for child in sorted(path.rglob("*"), reverse=True):
            child.rmdir() if child.is_dir() else child.unlink()
        os.setxattr(path, "trusted.overlay.opaque", b"y")
    else:
        path.parent.mkdir(parents=True, exist_ok=True)
        os.mknod(path, stat.S_IFCHR, 0)


def _digest(root: Path) -> str:
    digest = hashlib.sha256()
    for path in sorted(root.rglob("*")):
        status = path.lstat()
        content = os.readlink(path).encode() if path.is_symlink() else path.read_bytes() if path.is_file() else b""
        digest.update(f"{path.relative_to(root)}\0{status.st_mode}\0{len(content)}\0".encode() + content)
    return digest.hexdigest()[:16]


def _fill(root: Path, machine: Path) -> None:
    for name, mode in _DIRECTORIES.items():
        (root / name).mkdir(parents=True, exist_ok=True)
        (root / name).chmod(mode)
    for name in _PROGRAMS:
        source = machine / name
        if source.is_symlink():
            (root / name).symlink_to(os.readlink(source))
        elif source.is_dir():
            (root / name).mkdir()
    for name, text in (("passwd", _PASSWD), ("group", _GROUP), ("hosts", ""), ("resolv.conf", ""), ("hostname", "")):
        (root / "etc" / name).write_text(text)
    etc = machine / "etc"
    for path in sorted(path for pattern in _ETC for path in etc.glob(pattern)):
        _copy(path, root / path.relative_to(machine))


def _copy(source: Path, target: Path) -> None:
    """Copy a file, a link or a directory tree, skipping everything that is not world-readable."""
    try:
        status = source.lstat()
    except OSError:
        return
    target.parent.mkdir(parents=True, exist_ok=True)
    if stat.S_ISLNK(status.st_mode):
        target.symlink_to(os.readlink(source))
    elif stat.S_ISDIR(status.st_mode) and status.st_mode & stat.S_IROTH:
        target.mkdir(exist_ok=True)
        for name in _list_names_to_copy(source):
            _copy(source / name, target / name)
    elif stat.S_ISREG(status.st_mode) and status.st_mode & stat.S_IROTH and status.st_size <= _MAX_FILE_BYTES:
        shutil.copyfile(source, target, follow_symlinks=False)
        target.chmod(stat.S_IMODE(status.st_mode) & 0o755)


def _list_names_to_copy(directory: Path) -> Iterator[str]:
    """Yield the names of the files in a directory to copy. Private keys, which some systems store beside certificates,
    and passwords, such as those of the remote management of Java, are omitted."""
    names = sorted(os.listdir(directory))
    return (name for name in names if name != "private" and not name.endswith((".key", ".password")))
