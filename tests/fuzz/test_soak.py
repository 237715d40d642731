"""Coverage-guided fuzzing of every target with atheris; `FUZZ_S` is the time for each target in seconds."""

import importlib.util
import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.fuzz.targets import MOST_BYTES, TARGETS

ROOT = Path(__file__).parents[2]
SECONDS = int(os.environ.get("FUZZ_S", "120"))


@pytest.mark.soak
@pytest.mark.timeout(SECONDS + 600)
@pytest.mark.parametrize("name", TARGETS)
def test_atheris_finds_no_crash_or_excessive_cost(name: str, tmp_path: Path) -> None:
    if importlib.util.find_spec("atheris") is None:
        pytest.skip("atheris is not installed")
    corpus = tmp_path / "corpus"
    corpus.mkdir()
    for number, sample in enumerate(TARGETS[name].samples):
        (corpus / f"sample-{number}").write_bytes(sample)
    limits = (f"-max_total_time={SECONDS}", f"-max_len={MOST_BYTES}", "-rss_limit_mb=1024", "-timeout=60")
    command = [
        sys.executable,
        "-m",
        "tests.fuzz.atheris_run",
        name,
        *limits,
        f"-artifact_prefix={tmp_path}/",
        str(corpus),
    ]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=SECONDS + 500)
    assert done.returncode == 0, done.stderr[-4000:]
