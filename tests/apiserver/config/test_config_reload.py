"""A file that is followed: nothing that is in it ends what follows it."""

from pathlib import Path

import pytest

from sampan.apiserver.config.config_reload import ReloadingFile
from sampan.machinery.clock import VirtualClock


@pytest.mark.parametrize("fault", [OSError("gone"), UnicodeDecodeError("utf-8", b"\xff", 0, 1, "invalid start byte")])
@pytest.mark.parametrize("when", ["read", "used"])
def test_what_cannot_be_used_changes_nothing(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, fault: Exception, when: str
) -> None:
    file, used = tmp_path / "file", list[str]()
    file.write_text("good")

    def read(path: Path) -> str:
        if when == "read" and path.read_text() == "bad":
            raise fault
        return path.read_text()

    def use(text: str) -> None:
        if when == "used" and text == "bad":
            raise fault
        used.append(text)

    reloading = ReloadingFile(file, read=read, use=use, clock=VirtualClock())
    file.write_text("bad")
    reloading.check()
    assert not used
    assert str(fault) in caplog.text
    file.write_text("better")
    reloading.check()
    assert used == ["better"]
