#!/usr/bin/env bash
# Installs, as root on Debian or Ubuntu, the engines that tests use: containerd, Docker, crun, runc, CNI plugins, a static
# busybox for their images; and Chromium for the page of the dashboard. Tests start them in
# directories of their own; no service is started here. Where they cannot be had, those tests are skipped.
set -uo pipefail
cd "$(dirname "$0")/.."

declare -A packages=(
    [containerd]=containerd [dockerd]=docker.io [crun]=crun [runc]=runc [busybox]=busybox-static [nft]=nftables [ip]=iproute2
)

missing=()
for program in "${!packages[@]}"; do
    PATH=$PATH:/usr/sbin:/sbin command -v "$program" >/dev/null || missing+=("${packages[$program]}")
done
command -v chromium >/dev/null || missing+=(chromium)
[ -e /usr/lib/cni/bridge ] || missing+=(containernetworking-plugins)
[ ${#missing[@]} = 0 ] && exit 0

if [ "$(id -u)" != 0 ] || ! command -v apt-get >/dev/null; then
    printf 'engines: not here, and not to be installed: %s; some tests will be skipped\n' "${missing[*]}"
    exit 0
fi
printf 'engines: installing %s\n' "${missing[*]}"
RUNLEVEL=1 tools/install_packages.sh "${missing[@]}" || printf 'engines: some tests will be skipped\n'
