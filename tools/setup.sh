#!/usr/bin/env bash
# Makes .venv with Sampan and everything its tests need. Starts from a bare Debian or Ubuntu: what is missing is installed
# with apt as root, and named in the message otherwise. Running it again only brings the environment up to date.
set -euo pipefail
cd "$(dirname "$0")/.."

say() { printf 'setup: %s\n' "$*"; }
die() { printf 'setup: %s\n' "$*" >&2; exit 1; }

# need WHY PACKAGE...: have these Debian packages, or stop with a message that names them.
need() {
    local why=$1; shift
    [ "$(id -u)" = 0 ] || die "$why. Run as root: apt-get install $*"
    command -v apt-get >/dev/null || die "$why. Install what Debian calls: $*"
    say "$why: installing $*"
    tools/install_packages.sh "$@" || die "$why, and the packages could not be installed."
}

is_recent() { "$1" -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null; }

find_python() {
    local name
    for name in ${PYTHON:-} python3 python3.14 python3.13 python3.12 python3.11; do
        if is_recent "$name"; then command -v "$name"; return; fi
    done
    return 1
}

# An environment is usable where it was made: a copied one is not, nor one whose installation was interrupted, in which
# pip fails.
is_usable() {
    [ ! -e .venv/installing ] && is_recent .venv/bin/python &&
        .venv/bin/python -c 'import os, pip, sys; sys.exit(os.path.realpath(sys.prefix) != os.path.realpath(".venv"))' 2>/dev/null
}

make_environment() {
    local python version
    python=$(find_python) || {
        command -v python3 >/dev/null || need "there is no python3" python3
        python=$(find_python) || die "Sampan needs Python 3.11 or later, and $(python3 --version) is the newest here." \
            "Install python3.11 (or 3.12, 3.13), or name one: make PYTHON=/path/to/python3 ..."
    }
    version=$("$python" -c 'import sys; print("%d.%d" % sys.version_info[:2])')
    "$python" -c 'import ensurepip, venv' 2>/dev/null || need "python$version cannot make virtual environments" "python$version-venv"
    say "making .venv with $python ($version)"
    "$python" -m venv --clear .venv
}

# want PROGRAM PACKAGE OTHERWISE: have a program that is not worth stopping for where it cannot be had.
want() {
    ! command -v "$1" >/dev/null && [ "$(id -u)" = 0 ] && command -v apt-get >/dev/null || return 0
    say "there is no $1: installing $2"
    tools/install_packages.sh "$2" || say "$3"
}

is_usable || make_environment
want kubectl kubernetes-client "tests that need kubectl will be skipped"
want nft nftables "pods of real nodes have no network, and tests of it will be skipped"
# One of the two runs containers. crun costs less, and refuses machines that use both versions of cgroups.
if [ -e /sys/fs/cgroup/unified/cgroup.controllers ]; then
    want runc runc "pods cannot run in containers, and tests of that will be skipped"
elif ! command -v runc >/dev/null; then
    want crun crun "pods cannot run in containers, and tests of that will be skipped"
fi
want ip iproute2 "some tests of the pod network will be skipped"
say "installing Sampan and its tools into .venv"
touch .venv/installing
.venv/bin/python -m pip install --quiet --disable-pip-version-check --no-input --editable '.[dev]'
# What pip does for a package it copies: without it, and where Python may not write, each start compiles everything again.
.venv/bin/python -m compileall -q src
rm .venv/installing
touch .venv/ready
