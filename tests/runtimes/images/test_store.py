"""The image store, and images from archives."""

import multiprocessing
from pathlib import Path

import pytest

from sampan.runtimes.images import ImageStore, ImageUnknown
from sampan.runtimes.images.archives import load, save
from sampan.runtimes.images.manifests import BadImage, Platform
from tests.runtimes.images.builders import MadeImage, docker_archive, index_of, layer, oci_archive

AMD = Platform("amd64", "linux")


def image(text: bytes = b"1") -> MadeImage:
    return MadeImage({"etc": None, "etc/one": text}, {"etc/two": b"2"}, Cmd=["/bin/sh"], Env=["A=b"])


@pytest.fixture
def store(tmp_path: Path) -> ImageStore:
    return ImageStore(tmp_path / "images")


def load_from(store: ImageStore, path: Path) -> list[str]:
    return [image.id for image in load(store, path, now=1, platform=AMD)]


def test_load_oci_archive(tmp_path: Path, store: ImageStore) -> None:
    new_image = image()
    assert load_from(store, oci_archive(tmp_path / "a.tar", new_image, "docker.io/library/app:1")) == [new_image.id]
    for name in ("app:1", "docker.io/library/app:1", new_image.id, new_image.id[7:19], f"app@{new_image.digest}"):
        assert store.get(name).id == new_image.id
    stored_image = store.get("app:1")
    assert (stored_image.config.run.cmd, stored_image.config.run.env) == (["/bin/sh"], ["A=b"])
    below, above = store.lower_layers(stored_image)
    assert (below / "etc/one").read_bytes() == b"1"
    assert (above / "etc/two").read_bytes() == b"2"
    assert store.lower_layers(stored_image) == [below, above]


def test_load_docker_archive(tmp_path: Path, store: ImageStore) -> None:
    new_image = image()
    assert load_from(store, docker_archive(tmp_path / "a.tar", new_image, "app:1", "app:latest")) == [new_image.id]
    assert store.get("app").names == ["docker.io/library/app:1", "docker.io/library/app:latest"]
    assert len(store.lower_layers(store.get("app"))) == 2


def test_save_and_load_round_trip(tmp_path: Path, store: ImageStore) -> None:
    new_image = image()
    load_from(store, docker_archive(tmp_path / "a.tar", new_image, "app:1"))
    save(store, store.get("app:1"), tmp_path / "b.tar")
    other = ImageStore(tmp_path / "other")
    assert load_from(other, tmp_path / "b.tar") == [new_image.id]
    assert other.get("app:1").digest == store.get("app:1").digest


def test_a_name_moves_to_the_newer_image(tmp_path: Path, store: ImageStore) -> None:
    old, new = image(b"old"), image(b"new")
    for archived in (old, new):
        load_from(store, docker_archive(tmp_path / "a.tar", archived, "app:1"))
    assert store.get("app:1").id == new.id
    assert store.get(old.id).names == []
    assert len(store.list()) == 2


def test_prune_deletes_only_layers_of_removed_unused_images(tmp_path: Path, store: ImageStore) -> None:
    old, new = image(b"old"), image(b"new")
    load_from(store, docker_archive(tmp_path / "a.tar", old, "old:1", "old:2"))
    load_from(store, docker_archive(tmp_path / "a.tar", new, "new:1"))
    shared = store.lower_layers(store.get("new:1"))[1]
    own = store.lower_layers(store.get("old:1"))[0]
    store.remove("old:1")
    assert store.get("old:2").id == old.id
    in_use = store.get("old:2").digest
    store.remove("old:2")
    assert not store.has("old:2")
    assert store.prune(used=[in_use]) == 0
    assert own.exists()
    assert store.prune() > 0
    assert not own.exists()
    assert (shared / "etc/two").exists()
    assert store.get("new:1").id == new.id
    with pytest.raises(ImageUnknown, match="there is no image 'old:2'"):
        store.remove("old:2")


def test_invalid_archives_are_rejected(tmp_path: Path, store: ImageStore) -> None:
    def file(data: bytes) -> Path:
        path = tmp_path / f"{hash(data)}.tar"
        path.write_bytes(data)
        return path

    new_image = image()
    for path, text in [
        (tmp_path / "none", "No such file"),
        (file(b"junk"), "unexpected end of the archive in a header"),
        (file(layer({"a": b""})), "not an image archive"),
        (file(layer({"index.json": b"[]"})), "not an index"),
        (file(layer({"index.json": b'{"manifests": [{"digest": "sha256:12"}]}'})), "not a digest"),
        (file(layer({"manifest.json": b'[{"Config": "../../etc/passwd"}]'})), "missing from the archive"),
    ]:
        with pytest.raises(BadImage, match=text):
            load(store, path, now=1, platform=AMD)
    new_image.blobs[new_image.digest] = new_image.manifest + b" "
    with pytest.raises(BadImage, match="digest"):
        load(store, oci_archive(tmp_path / "bad.tar", new_image), now=1, platform=AMD)
    good = image()
    files = {f"blobs/{key.replace(':', '/')}": data for key, data in good.blobs.items()}
    foreign = file(layer({"index.json": index_of(good, architectures=("s390x",)), **files}))
    with pytest.raises(BadImage, match="only for"):
        load(store, foreign, now=1, platform=AMD)
    assert store.list() == []


def _load_many(directory: Path, number: int) -> None:
    for at in range(5):
        path = docker_archive(directory / f"{number}-{at}.tar", image(b"%d %d" % (number, at)), f"app:{number}-{at}")
        load(ImageStore(directory / "images"), path, now=1, platform=AMD)


def test_concurrent_processes_can_load_images(tmp_path: Path) -> None:
    spawn = multiprocessing.get_context("spawn")
    workers = [spawn.Process(target=_load_many, args=(tmp_path, number)) for number in range(3)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join(60)
    store = ImageStore(tmp_path / "images")
    assert sorted(name for image in store.list() for name in image.names) == sorted(
        f"docker.io/library/app:{number}-{at}" for number in range(3) for at in range(5)
    )
