"""Marks on the bridges of running processes, and the aliases that name the owner of a bridge."""

from __future__ import annotations

import subprocess
import sys
import threading
from pathlib import Path

import pytest

from sampan.host.linux.network_namespace import NetworkNamespace, run_in_network
from sampan.network import bridge_marks
from sampan.network.bridge_marks import (
    BridgeMark,
    alias_for,
    announced_removal,
    is_alias_of,
    is_owner_gone,
    marked_bridge,
    marked_bridges,
)
from tests.eventually import wait_until
from tests.network.pods.conftest import lab
from tests.network.pods.lab import Lab, needs_network

__all__ = ["lab"]

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="abstract socket names exist on Linux only")


def test_a_bridge_is_marked_until_its_last_user_has_ended() -> None:
    with marked_bridge("sn00ffee"):
        with marked_bridge("sn00ffee"):
            assert "sn00ffee" in marked_bridges()
        assert "sn00ffee" in marked_bridges()
    assert "sn00ffee" not in marked_bridges()


def test_mark_of_a_killed_process_is_gone() -> None:
    code = "from sampan.network.bridge_marks import BridgeMark; mark = BridgeMark('sn00ffed'); mark.set(); "
    code += "print(flush=True); input()"
    with subprocess.Popen(
        [sys.executable, "-W", "ignore", "-c", code], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    ) as process:
        assert process.stdout is not None
        process.stdout.readline()
        assert "sn00ffed" in marked_bridges()
        process.kill()
    assert "sn00ffed" not in marked_bridges()


@needs_network
def test_a_mark_belongs_to_the_network_namespace_of_the_node(lab: Lab) -> None:
    mark = BridgeMark("sp00ffee", NetworkNamespace(lab.node))
    mark.set()
    assert "sp00ffee" in run_in_network(lab.node, marked_bridges)
    assert "sp00ffee" not in marked_bridges()
    mark.clear()
    assert "sp00ffee" not in run_in_network(lab.node, marked_bridges)


def test_a_removal_sees_the_mark_and_a_second_removal_is_refused() -> None:
    with announced_removal("sn00ffec") as is_unused, announced_removal("sn00ffec") as is_unused_again:
        assert (is_unused, is_unused_again) == (True, False)
    with marked_bridge("sn00ffec"), announced_removal("sn00ffec") as is_unused:
        assert not is_unused


def test_a_new_user_of_a_bridge_waits_for_its_removal() -> None:
    mark, is_set = BridgeMark("sn00ffeb"), threading.Event()

    def use() -> None:
        mark.set()
        is_set.set()

    with announced_removal("sn00ffeb") as is_unused:
        assert is_unused
        thread = threading.Thread(target=use)
        thread.start()
        wait_until(lambda: "sn00ffeb" in marked_bridges())
        assert not is_set.is_set()
    thread.join()
    mark.clear()


def test_owner_is_gone_only_if_its_directory_certainly_does_not_exist(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    directory = tmp_path / "data"
    alias = alias_for(directory)
    assert is_owner_gone(alias)
    directory.mkdir()
    assert not is_owner_gone(alias)
    directory.rmdir()
    assert not is_owner_gone(f"sampan {directory}"), "the mount namespace is unknown"
    assert not is_owner_gone(alias_for(tmp_path / ("x" * 300))), "the path is truncated"
    assert not is_owner_gone("another program's bridge")
    assert not is_owner_gone("")
    monkeypatch.setattr(bridge_marks, "_own_mount_namespace", lambda: "1")
    assert not is_owner_gone(alias), "the path is one of another mount namespace"


def test_alias_names_its_directory_in_every_mount_namespace(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    long, alias = tmp_path / ("ü" * 120), alias_for(tmp_path / "data")
    assert is_alias_of(alias_for(long), long)
    assert is_alias_of(f"sampan {tmp_path}", tmp_path), "the alias of an earlier version"
    monkeypatch.setattr(bridge_marks, "_own_mount_namespace", lambda: "1")
    assert is_alias_of(alias, tmp_path / "data")
    assert not is_alias_of(alias, tmp_path / "data2")
    assert not is_alias_of(alias, tmp_path)
    assert not is_alias_of("sampan0", tmp_path)
