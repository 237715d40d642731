#!/usr/bin/env bash
# Everything that must hold before a change goes in: the checkers, and beside them the tests, which often wait. All of it
# runs even if a part fails. Arguments go to pytest. With --unit, only the unit tests run, and nothing of the dashboard.
set -uo pipefail
cd "$(dirname "$0")/.."
bin=.venv/bin
[[ " $* " == *" --unit "* ]] && scope=unit || scope=all
# tests/conftest.py reads these files, and reports failed checkers above pytest's last line, which is the last line of all.
CHECKS=$(mktemp -d)
export CHECKS
trap 'kill $(jobs -p) 2>/dev/null; rm -rf "$CHECKS"' EXIT

check() {
    local name=$1; shift
    "$@" >"$CHECKS/output $name" 2>&1 || mv "$CHECKS/output $name" "$CHECKS/failed $name"
}

run_checkers() {
    check "ruff check" $bin/python -m ruff check .
    check "ruff format" $bin/python -m ruff format --check .
    check "import contracts" $bin/lint-imports --no-logo
    check "mypy" $bin/python -m mypy
    [ "$scope" = unit ] || check "page types" $bin/python tools/build_backend.py run --silent check
    [ "$scope" = unit ] || check "page unit tests" $bin/python tools/build_backend.py run --silent test
    touch "$CHECKS/complete"
}

# The many programs that tests start, and the workers, which all import all tests, share what is compiled here; without
# it, and where PYTHONDONTWRITEBYTECODE is set, each of them compiles everything again.
unset PYTHONDONTWRITEBYTECODE
$bin/python -m compileall -q src
[ -d tests/__pycache__ ] || $bin/python -m pytest --collect-only >/dev/null 2>&1 &
collection=$!
if [ "$scope" = all ]; then
    tools/engines.sh
    check "page build" $bin/python tools/build_backend.py
fi
run_checkers &
wait $collection
# Two workers more than there are cores, because tests wait for programs, timers and disks.
$bin/python -m pytest -n $(($(nproc) + 2)) --dist loadfile --no-loadscope-reorder "$@"
status=$?
wait
[ "$status" = 0 ] && ! compgen -G "$CHECKS/failed *" >/dev/null || exit $((status > 0 ? status : 1))
