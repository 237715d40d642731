#!/usr/bin/env bash
# Runs the official conformance suite; arguments go to `python -m tests.conformance`. Installs, as root on Debian or
# Ubuntu, the packages that the test images are made with.
set -euo pipefail
cd "$(dirname "$0")/.."

if ! command -v go >/dev/null; then
    echo "conformance: Go is not installed (1.26 or later): the suite is built from Go modules" >&2
    exit 1
fi
tools/engines.sh
missing=()
command -v mmdebstrap >/dev/null || missing+=(mmdebstrap)
command -v bash-static >/dev/null || missing+=(bash-static)
if [ ${#missing[@]} != 0 ]; then
    if [ "$(id -u)" != 0 ] || ! command -v apt-get >/dev/null; then
        echo "conformance: not installed: ${missing[*]}" >&2
        exit 1
    fi
    echo "conformance: installing ${missing[*]}"
    tools/install_packages.sh "${missing[@]}"
fi
exec .venv/bin/python -m tests.conformance "$@"
