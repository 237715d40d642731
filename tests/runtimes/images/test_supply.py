"""Images that Sampan supplies to engines: images of its store, and the host image."""

import io
import tarfile
from pathlib import Path

from sampan.runtimes.images import ImageStore
from sampan.runtimes.images.archives import load
from sampan.runtimes.images.bundles import write_docker_archive
from sampan.runtimes.images.supply import ImageSupply
from tests.runtimes.images.builders import MadeImage, docker_archive

_NAME = "example.org/app:1"


def _store(directory: Path) -> ImageStore:
    store = ImageStore(directory / "store")
    load(store, docker_archive(directory / "app.tar", MadeImage({"hello": b"hi"}, Cmd=["/hello"]), _NAME), now=0)
    return store


def test_image_of_the_store_is_exported_unchanged(tmp_path: Path) -> None:
    store = _store(tmp_path)
    bundle = ImageSupply(directory=tmp_path, store=store).find(_NAME)
    assert bundle is not None
    archive = tmp_path / "out.tar"
    with archive.open("wb") as file:
        write_docker_archive(bundle, file)
    other = ImageStore(tmp_path / "other")
    (image,) = load(other, archive, now=0)
    assert (image.id, image.names) == (store.get(_NAME).id, [_NAME])
    assert [part.digest for part in bundle.layers] == [part.digest for part in store.get(_NAME).manifest.layers]


def test_unknown_images_are_not_supplied(tmp_path: Path) -> None:
    supply = ImageSupply(directory=tmp_path, store=_store(tmp_path))
    assert supply.find("example.org/other:1") is None
    assert supply.find("Not A Name") is None
    assert ImageSupply(directory=tmp_path).find(_NAME) is None
    assert supply.mounts(_NAME) == ()


def test_host_image_is_reproducible_and_mounts_programs_read_only(tmp_path: Path) -> None:
    """The programs are not in the layer of the image, but mounted."""
    supply = ImageSupply(directory=tmp_path)
    first, again = supply.find("sampan.local/host"), ImageSupply(directory=tmp_path).find("sampan.local/host:latest")
    assert first is not None
    assert again is not None
    assert first.config.digest == again.config.digest
    content = first.layers[0].content
    assert isinstance(content, bytes)
    with tarfile.open(fileobj=io.BytesIO(content)) as layer:
        assert {"etc/passwd", "usr", "tmp"} <= set(layer.getnames())
        assert not [name for name in layer.getnames() if name.startswith("usr/")]
    mounts = {mount.target: mount for mount in supply.mounts("sampan.local/host")}
    assert mounts["/usr"].is_read_only
    assert mounts["/usr"].source == Path("/usr")
