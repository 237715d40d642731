#!/usr/bin/env bash
# Everything that must hold before a change goes in: the checkers, then the tests. All of it runs even if a part fails.
# Arguments go to pytest.
set -uo pipefail
cd "$(dirname "$0")/.."
bin=.venv/bin
failed=()

check() {
    local name=$1; shift
    printf '\n== %s\n' "$name"
    "$@" || failed+=("$name")
}

check "ruff check" $bin/python -m ruff check .
check "ruff format" $bin/python -m ruff format --check .
check "mypy" $bin/python -m mypy
check "import contracts" $bin/lint-imports --no-logo

printf '\n== pytest\n'
tools/engines.sh
# tests/conftest.py repeats the failed checkers above pytest's last line, which is the last line of all.
FAILED_CHECKS=$(IFS=,; echo "${failed[*]-}") $bin/python -m pytest -n auto --dist loadfile "$@" || exit
[ ${#failed[@]} = 0 ]
