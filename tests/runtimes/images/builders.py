"""Builders of images for tests: layers from names and contents, OCI and Docker archives."""

import gzip
import hashlib
import io
import json
import tarfile
from pathlib import Path
from typing import Any

Files = dict[str, Any]
"""Entries by name: bytes are a file, None is a directory, text is a symbolic link, a TarInfo is used as it is."""


def layer(files: Files) -> bytes:
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w") as archive:
        for name, content in files.items():
            if isinstance(content, tarfile.TarInfo):
                archive.addfile(content)
                continue
            member = tarfile.TarInfo(name)
            member.mode, member.mtime = 0o755, 1_700_000_000
            if content is None:
                member.type = tarfile.DIRTYPE
            elif isinstance(content, str):
                member.type, member.linkname = tarfile.SYMTYPE, content
            else:
                member.size = len(content)
            archive.addfile(member, io.BytesIO(content) if isinstance(content, bytes) else None)
    return out.getvalue()


def hard_link(name: str, to: str) -> tarfile.TarInfo:
    member = tarfile.TarInfo(name)
    member.type, member.linkname = tarfile.LNKTYPE, to
    return member


def digest(data: bytes) -> str:
    return f"sha256:{hashlib.sha256(data).hexdigest()}"


class MadeImage:
    """An image with its blobs by digest, and the digest of its manifest."""

    def __init__(self, *layers: Files, architecture: str = "amd64", pack: Any = gzip.compress, **config: Any) -> None:
        plain = [layer(files) for files in layers]
        packed = [pack(data) for data in plain]
        description = {
            "architecture": architecture,
            "os": "linux",
            "config": config,
            "rootfs": {"type": "layers", "diff_ids": [digest(data) for data in plain]},
        }
        self.plain, self.packed = plain, packed
        self.config = json.dumps(description).encode()
        self.manifest = json.dumps(
            {
                "schemaVersion": 2,
                "mediaType": "application/vnd.oci.image.manifest.v1+json",
                "config": {"mediaType": "application/vnd.oci.image.config.v1+json", **describe_blob(self.config)},
                "layers": [
                    {"mediaType": "application/vnd.oci.image.layer.v1.tar+gzip", **describe_blob(data)}
                    for data in packed
                ],
            }
        ).encode()
        self.digest, self.id = digest(self.manifest), digest(self.config)
        self.blobs = {digest(data): data for data in (self.config, self.manifest, *packed)}


def describe_blob(data: bytes) -> dict[str, Any]:
    return {"digest": digest(data), "size": len(data)}


def set_diff_ids(image: MadeImage, *diff_ids: str) -> MadeImage:
    """Return the image with a configuration that names other layers."""
    config = json.loads(image.config)
    config["rootfs"]["diff_ids"] = list(diff_ids)
    return set_config(image, config)


def set_config(image: MadeImage, config: dict[str, Any]) -> MadeImage:
    image.config = json.dumps(config).encode()
    manifest = json.loads(image.manifest)
    manifest["config"] |= describe_blob(image.config)
    image.manifest = json.dumps(manifest).encode()
    image.digest, image.id = digest(image.manifest), digest(image.config)
    image.blobs |= {image.digest: image.manifest, image.id: image.config}
    return image


def busybox_with(files: Files, **config: Any) -> MadeImage:
    program = Path("/bin/busybox").read_bytes()
    all_files: Files = {"bin": None, "etc": None, "bin/busybox": program}
    all_files |= {f"bin/{name}": "busybox" for name in ("sh", "id", "cat", "ls", "echo")}
    return MadeImage(all_files | files, pack=bytes, **{"Env": ["PATH=/bin"], **config})


def special_file(name: str, kind: bytes) -> tarfile.TarInfo:
    member = tarfile.TarInfo(name)
    member.type, member.mode = kind, 0o644
    member.devmajor, member.devminor = 10, 130
    return member


def index_of(*images: MadeImage, architectures: tuple[str, ...] = ("amd64",)) -> bytes:
    rows = [
        {
            "mediaType": "application/vnd.oci.image.manifest.v1+json",
            **describe_blob(image.manifest),
            "platform": {"os": "linux", "architecture": architecture},
        }
        for image, architecture in zip(images, architectures, strict=True)
    ]
    value = {"schemaVersion": 2, "mediaType": "application/vnd.oci.image.index.v1+json", "manifests": rows}
    return json.dumps(value).encode()


def oci_archive(path: Path, image: MadeImage, name: str = "") -> Path:
    description = {"mediaType": "application/vnd.oci.image.manifest.v1+json", **describe_blob(image.manifest)}
    if name:
        description["annotations"] = {"io.containerd.image.name": name}
    index = json.dumps({"schemaVersion": 2, "manifests": [description]}).encode()
    files: Files = {"oci-layout": b"{}", "index.json": index}
    files |= {f"blobs/{key.replace(':', '/')}": data for key, data in image.blobs.items()}
    path.write_bytes(layer(files))
    return path


def docker_archive(path: Path, image: MadeImage, *names: str) -> Path:
    layers = {f"{at}/layer.tar": data for at, data in enumerate(image.plain)}
    row = {"Config": "config.json", "RepoTags": list(names), "Layers": list(layers)}
    path.write_bytes(layer({"manifest.json": json.dumps([row]).encode(), "config.json": image.config, **layers}))
    return path
