"""The constants of the kernel's headers."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path

import pytest

from sampan.host.netlink import constants

_HEADER = re.compile(r"^# ([a-z_/]+\.h)$", re.MULTILINE)
_VALUE = re.compile(r"^([A-Za-z0-9_]+): Final = ", re.MULTILINE)


def test_constants_agree_with_the_kernel_headers(tmp_path: Path) -> None:
    """A C program prints the values. Numbers that are negative in C are so in Python."""
    text = Path(constants.__file__).read_text()
    headers, names = _HEADER.findall(text), _VALUE.findall(text)
    assert len(headers) > 20
    assert len(names) > 250
    lines = ["#include <stdio.h>", *(f"#include <{header}>" for header in headers), "int main(void) {"]
    lines += [f'printf("{name} %lld\\n", (long long)({name}));' for name in names]
    source, program = tmp_path / "constants.c", tmp_path / "constants"
    source.write_text("\n".join([*lines, "return 0; }", ""]))
    try:
        compiled = subprocess.run(["cc", "-o", program, source], capture_output=True, text=True, check=False)
    except FileNotFoundError:
        pytest.skip("a C compiler is not installed")
    if "No such file" in compiled.stderr:
        pytest.skip("the kernel headers (linux-libc-dev) are not installed")
    assert compiled.returncode == 0, compiled.stderr
    printed = subprocess.run([program], capture_output=True, text=True, check=True).stdout
    expected = {name: int(value) for name, value in (line.split() for line in printed.splitlines())}
    assert {name: getattr(constants, name) for name in names} == expected
