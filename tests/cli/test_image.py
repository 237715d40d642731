"""`sampan image`."""

from pathlib import Path

from tests.cli.command import Sampan
from tests.runtimes.images.builders import MadeImage, docker_archive


def archive(tmp_path: Path) -> Path:
    from sampan.runtimes.images.manifests import detect_platform

    image = MadeImage({"etc": None, "etc/motd": b"hello"}, architecture=detect_platform().architecture)
    return docker_archive(tmp_path / "app.tar", image, "app:1", "quay.io/team/app:2")


def test_load_list_save_remove(sampan: Sampan, tmp_path: Path) -> None:
    out = sampan("image", "load", str(archive(tmp_path)))
    assert out == "loaded docker.io/library/app:1, quay.io/team/app:2\n"
    lines = sampan("image", "ls").splitlines()
    assert lines[0].split() == ["IMAGE", "TAG", "IMAGE", "ID", "SIZE"]
    assert [line.split()[:2] for line in lines[1:]] == [
        ["sampan.local/host", "latest"],
        ["docker.io/library/app", "1"],
        ["quay.io/team/app", "2"],
    ]
    sampan("image", "save", "app:1", "-o", str(tmp_path / "saved.tar"))
    sampan("image", "rm", "app:1", "quay.io/team/app:2")
    assert sampan("image", "ls", "-q") == "sampan.local/host:latest\n"
    assert list((sampan.home / "clusters/sampan/images/blobs/sha256").iterdir()) == []
    sampan("image", "load", str(tmp_path / "saved.tar"))
    assert "docker.io/library/app:1" in sampan("image", "ls", "-q")


def test_load_rm_save_and_pull_errors_are_reported(sampan: Sampan, tmp_path: Path) -> None:
    (tmp_path / "junk").write_bytes(b"junk")
    assert "junk" in sampan.expect_failure("image", "load", str(tmp_path / "junk"))
    assert "No such file" in sampan.expect_failure("image", "load", str(tmp_path / "none"))
    assert "there is no image 'x'" in sampan.expect_failure("image", "rm", "x")
    assert "there is no image 'x'" in sampan.expect_failure("image", "save", "x", "-o", str(tmp_path / "y"))
    assert "not the name of a repository" in sampan.expect_failure("image", "pull", "UPPER/x/")
    assert "127.0.0.1:1" in sampan.expect_failure("image", "pull", "127.0.0.1:1/x")
    assert "--auth-file" in sampan.expect_failure("image", "pull", "x", "--auth-file", str(tmp_path / "junk"))
