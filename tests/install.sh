#!/bin/bash
# install.sh SET...: installs what is missing of the named sets of Debian packages. Services
# that come with them are kept from starting.
set -euo pipefail

declare -A packages=(
    [build]="cmake ninja-build gcc libc6-dev pkgconf libev-dev libyaml-dev libsodium-dev libjansson-dev libsystemd-dev libcmocka-dev libhiredis-dev libssl-dev"
    [demo]="haproxy curl"
    [test]="haproxy varnish socat curl faketime systemd tzdata redis-server openssl"
    [service]="debootstrap"
    [fuzz]="clang libclang-rt-14-dev"
    [coverage]="gcovr"
    [bench]="haproxy wrk socat redis-server"
)
policy=/usr/sbin/policy-rc.d

list_missing() {
    local set package
    for set in "$@"; do
        for package in ${packages[$set]:?"install.sh: there is no set $set"}; do
            if [[ $(dpkg-query -W -f '${db:Status-Status}' "$package" 2>/dev/null) != installed ]]; then
                echo "$package"
            fi
        done
    done | sort -u
}

say_when_failed() { # COMMAND...
    local output
    if ! output=$("$@" 2>&1); then
        printf '%s\n' "$output" "install.sh: failed: $*" >&2
        return 1
    fi
}

# A service that apt wants to start asks policy-rc.d first; 101 means no. One that is there
# already is the host's own and stays as it is.
install_quietly() {
    if [[ ! -e $policy ]]; then
        trap 'rm -f "$policy"' EXIT
        printf '#!/bin/sh\nexit 101\n' >"$policy"
        chmod 755 "$policy"
    fi
    export DEBIAN_FRONTEND=noninteractive
    say_when_failed apt-get -q update
    say_when_failed apt-get -q -y -o DPkg::Lock::Timeout=120 --no-install-recommends install "$@"
}

missing=$(list_missing "$@")
missing=${missing//$'\n'/ }
if [[ -z $missing ]]; then
    exit 0
fi
if ! command -v apt-get >/dev/null; then
    echo "install.sh: there is no apt-get here; install what stands for these Debian packages: $missing" >&2
    exit 1
fi
if ((EUID != 0)); then
    if command -v sudo >/dev/null; then
        exec sudo bash "$0" "$@"
    fi
    echo "install.sh: missing: $missing" >&2
    echo "install.sh: only root can install them: apt-get install --no-install-recommends $missing" >&2
    exit 1
fi
echo "== install $missing"
read -ra names <<<"$missing"
install_quietly "${names[@]}"
