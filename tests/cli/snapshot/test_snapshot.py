"""`sampan snapshot` of a cluster that is running."""

import json
import ssl
import stat
import urllib.error
import urllib.request
from pathlib import Path

import pytest
from click.testing import CliRunner

from sampan.cli.main import cli
from tests.cli.command import Sampan


def run(sampan: Sampan, *words: str) -> str:
    """Run the command in this process, which is faster than a process of its own."""
    done = CliRunner().invoke(cli, words, env=sampan.environment)
    assert done.exit_code == 0, done.output
    return done.stdout


def fails(sampan: Sampan, *words: str) -> str:
    done = CliRunner().invoke(cli, words, env=sampan.environment)
    assert done.exit_code == 1, done.output
    return done.stderr


def config_map(sampan: Sampan, cluster: str) -> str:
    return run(sampan, "kubectl", "--name", cluster, "get", "configmap", "kept", "-o", "jsonpath={.data}")


def test_save_restore_and_fork_of_a_running_cluster(sampan: Sampan, capfd: pytest.CaptureFixture[str]) -> None:
    sampan("up", "--name", "one", "--detach", "--store", "memory", "--nodes", "1", "--runtime", "hollow")
    run(sampan, "kubectl", "--name", "one", "create", "configmap", "kept", "--from-literal=a=b")
    file = sampan.directory("one") / "volumes/pvc-1_default_data/file"
    file.parent.mkdir(parents=True)
    file.write_text("content")

    printed = run(sampan, "snapshot", "save", "--name", "one")
    (saved,) = json.loads(run(sampan, "snapshot", "ls", "-o", "json"))
    assert f"saved one to {saved['file']}" in printed
    assert (saved["cluster"], saved["volumes"]) == ("one", ["pvc-1_default_data"])
    assert stat.S_IMODE(Path(saved["file"]).stat().st_mode) == 0o600
    assert "one-" in run(sampan, "snapshot", "ls")
    assert "exists; --force replaces it" in fails(sampan, "snapshot", "save", saved["file"], "--name", "one")
    assert "exists; --replace removes its data" in fails(sampan, "snapshot", "restore", saved["file"])
    assert "one is running" in fails(sampan, "snapshot", "restore", saved["file"], "--replace")

    for more in ([], ["--replace"]):
        run(sampan, "snapshot", "restore", saved["file"], "--name", "two", *more)
        assert (sampan.directory("two") / "volumes/pvc-1_default_data/file").read_text() == "content"
        names = sorted(path.name for path in sampan.directory("two").iterdir())
        assert names == ["flags.json", "lock", "pki", "state.db", "volumes"]

    assert run(sampan, "snapshot", "fork", "three", "--name", "one").startswith("forked one to three in ")
    assert "three is ready at " in capfd.readouterr().out
    assert config_map(sampan, "three") == '{"a":"b"}'
    run(sampan, "kubectl", "--name", "three", "delete", "configmap", "kept")
    assert config_map(sampan, "one") == '{"a":"b"}'
    assert (sampan.directory("three") / "volumes/pvc-1_default_data/file").read_text() == "content"
    assert "NEW: three exists" in fails(sampan, "snapshot", "fork", "three", "--name", "one")


def test_cluster_with_new_keys_accepts_no_credentials_of_the_original(sampan: Sampan, tmp_path: Path) -> None:
    file = str(tmp_path / "lesson.tar")
    sampan("up", "--name", "lesson", "--detach", "--nodes", "0")
    run(sampan, "kubectl", "--name", "lesson", "create", "configmap", "kept", "--from-literal=a=b")
    token = run(sampan, "kubectl", "--name", "lesson", "create", "token", "default").strip()
    run(sampan, "snapshot", "save", file, "--name", "lesson")
    run(sampan, "snapshot", "restore", file, "--name", "ann", "--new-keys")
    assert not (sampan.directory("ann") / "pki").exists()
    sampan("up", "--name", "ann", "--detach", "--nodes", "0")
    assert config_map(sampan, "ann") == '{"a":"b"}'
    url = f"{sampan.read_running_file('ann')['url']}/api"
    context = ssl.create_default_context(cafile=str(sampan.directory("ann") / "pki/ca.crt"))
    with pytest.raises(urllib.error.HTTPError, match="401"):
        urllib.request.urlopen(
            urllib.request.Request(url, headers={"Authorization": f"Bearer {token}"}), context=context
        ).close()
    keys = sampan.directory("lesson") / "pki"
    context.load_cert_chain(keys / "admin.crt", keys / "admin.key")
    with pytest.raises(OSError, match=r"closed connection|unknown ca"):  # the server ends the TLS connection
        urllib.request.urlopen(url, context=context).close()


def test_invalid_snapshots_and_names_are_reported(sampan: Sampan, tmp_path: Path) -> None:
    bad = tmp_path / "bad.tar"
    bad.write_bytes(b"x" * 2000)
    message = fails(sampan, "snapshot", "restore", str(bad), "--name", "new")
    assert message.startswith(f"Error: {bad}: it is not a snapshot")
    assert fails(sampan, "snapshot", "ls", str(bad)).startswith(f"Error: {bad}: it is not a snapshot")
    assert "No such file" in fails(sampan, "snapshot", "restore", str(tmp_path / "none"))
    assert "there is no cluster in" in fails(sampan, "snapshot", "save", "--name", "none")
    assert "must be a DNS label" in fails(sampan, "snapshot", "save", "--name", "../x")
    assert not sampan.directory("new").exists()
    assert run(sampan, "snapshot", "ls") == "no snapshots; `sampan snapshot save` saves one\n"
