"""A program in which atheris searches for bad input: `python -m tests.fuzz.atheris_run TARGET [libFuzzer options]`.

An input that raises an undocumented error, or takes too much CPU time, is written to a file `crash-…`, and the program
ends. libFuzzer stops an input that takes more memory than `-rss_limit_mb`.
"""

import sys

import atheris  # type: ignore[import-not-found, import-untyped, unused-ignore]

with atheris.instrument_imports(include=["sampan"]):
    from tests.fuzz.targets import TARGETS

if __name__ == "__main__":
    atheris.Setup([sys.argv[0], *sys.argv[2:]], TARGETS[sys.argv[1]].check)
    atheris.Fuzz()
