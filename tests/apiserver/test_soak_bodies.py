"""Bodies that a fuzzer makes up as it learns which code they reach; `BODY_FUZZ_S` is for how long."""

import importlib.util
import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.apiserver import body_fuzzing as fuzzing

ROOT = Path(__file__).parents[2]
SECONDS = int(os.environ.get("BODY_FUZZ_S", "120"))
SEEDS = (
    b"\x00" + b'{"kind":"Pod","apiVersion":"v1","metadata":{"name":"a"},"spec":{"containers":[{"name":"c"}]}}',
    b"\x01" + b"kind: ConfigMap\napiVersion: v1\nmetadata: &m {name: a}\ndata: {<<: *m, b: |\n  text\n}\n",
    b"\x02" + b"k8s\x00\x0a\x09\x0a\x02v1\x12\x03Pod\x12\x05\x0a\x03\x0a\x01a",
)


@pytest.mark.soak
def test_no_body_found_by_a_fuzzer_does_harm(tmp_path: Path) -> None:
    if importlib.util.find_spec("atheris") is None:
        pytest.skip("atheris is not installed")
    for number, seed in enumerate(SEEDS):
        (tmp_path / f"seed-{number}").write_bytes(seed)
    limits = (f"-max_total_time={SECONDS}", f"-max_len={fuzzing.MOST_BYTES}", "-rss_limit_mb=1024", "-timeout=20")
    command = [
        sys.executable,
        "-m",
        "tests.apiserver.body_fuzzer",
        *limits,
        f"-artifact_prefix={tmp_path}/",
        str(tmp_path),
    ]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=SECONDS + 300)
    assert done.returncode == 0, done.stderr[-4000:]
