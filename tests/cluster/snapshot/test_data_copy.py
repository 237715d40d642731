"""Copies of images and volumes for a fork."""

import os
from pathlib import Path

from sampan.cluster.snapshot import copy_images, copy_volumes
from sampan.host.linux.directory_trees import measure_tree, opened_position, remove_tree


def test_image_blobs_and_layers_are_hard_linked(tmp_path: Path) -> None:
    source, target = tmp_path / "a", tmp_path / "b"
    for name in ("images.json", f"blobs/sha256/{'0' * 64}", "layers/aa/bin/tool", "layers/.new-x/part"):
        (source / name).parent.mkdir(parents=True, exist_ok=True)
        (source / name).write_bytes(b"{}")
    assert copy_images(source, target) == []
    blob, layer = f"blobs/sha256/{'0' * 64}", "layers/aa/bin/tool"
    assert all(os.path.samefile(source / name, target / name) for name in (blob, layer))
    assert not os.path.samefile(source / "images.json", target / "images.json")
    assert not (target / "layers/.new-x").exists()
    assert copy_images(tmp_path / "none", tmp_path / "c") == []


def test_volumes_are_copied_with_links_but_without_pipes(tmp_path: Path) -> None:
    source, target = tmp_path / "a", tmp_path / "b"
    (source / "pvc/sub").mkdir(parents=True)
    (source / "pvc/sub/file").write_bytes(b"data")
    (source / "pvc/sub/file").chmod(0o640)
    os.symlink("sub/file", source / "pvc/link")
    os.mkfifo(source / "pvc/pipe")
    assert copy_volumes(source, target) == ["pvc"]
    assert (target / "pvc/link").read_bytes() == b"data"
    assert (target / "pvc/sub/file").stat().st_mode & 0o777 == 0o640
    assert not os.path.samefile(source / "pvc/sub/file", target / "pvc/sub/file")
    assert not (target / "pvc/pipe").exists()


def test_a_volume_that_is_too_deep_for_paths_is_copied(tmp_path: Path) -> None:
    source, target = tmp_path / "a", tmp_path / "b"
    (source / "pvc").mkdir(parents=True)
    with opened_position(source / "pvc") as position:
        for _ in range(1500):
            os.mkdir("deep", dir_fd=position.descriptor)
            position.enter("deep")
            os.fchmod(position.descriptor, 0o2750)
        os.symlink("/etc/passwd", "link", dir_fd=position.descriptor)
    assert copy_volumes(source, target) == ["pvc"]
    assert measure_tree(target).inodes == measure_tree(source).inodes == 1503
    assert (target / "pvc/deep/deep").stat().st_mode & 0o7777 == 0o2750
    remove_tree(source)
    remove_tree(target)
