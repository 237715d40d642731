#!/usr/bin/env bash
# Installs Debian packages as root: tools/install_packages.sh PACKAGE... Its output is shown only if that fails.
#
# Another apt may be at work, as on a machine that has just booted and updates itself: this waits for it up to five
# minutes. apt can wait for the lock of dpkg by itself, but not for the lock of its package lists.
set -uo pipefail
export DEBIAN_FRONTEND=noninteractive
lock_wait_s=300

update_lists() {
    local output
    until output=$(apt-get update 2>&1); do
        if [[ $output != *"Could not get lock"* ]] || ((SECONDS >= lock_wait_s)); then
            printf 'apt-get update failed:\n%s\n' "$output" >&2
            return 1
        fi
        sleep 2
    done
}

update_lists || exit 1
output=$(apt-get -o DPkg::Lock::Timeout=$lock_wait_s install --yes --no-install-recommends "$@" 2>&1) || {
    printf 'apt-get install %s failed:\n%s\n' "$*" "$output" >&2
    exit 1
}
