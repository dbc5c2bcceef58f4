#!/bin/bash
# booted.sh BUILD: installs the build into a Debian of its own, as systemd/README.md says, boots
# that Debian's systemd, and drives the service through it: HAProxy's requests through the socket
# in HAProxy's chroot; restart, reload, crash, hang, wrong files, credentials, stop. BASE=DIR is
# a Debian to copy instead of asking debootstrap for one; it is kept there when it is not yet.
# Exit code: 0 all went well, 1 not, 77 it cannot be tried here.
set -euo pipefail

here=$(cd "$(dirname "$0")" && pwd)
build=$(cd "${1:?usage: booted.sh BUILD}" && pwd)
PATH=${here%/service}/e2e:$PATH # until_ok
work=$(mktemp -d "${TMPDIR:-/var/tmp}/booted.XXXXXX")
root=$work/root
packages=systemd,systemd-sysv,haproxy,curl,libev4,libhiredis0.14,libjansson4,libsodium23,libssl3,libsystemd0,libyaml-0-2
unit=spoa-ratelimit.service
cgroup=
boot_pid=

clean_up() {
    if [[ -n $boot_pid ]]; then
        kill -s KILL "$boot_pid" 2>/dev/null || true
        wait "$boot_pid" 2>/dev/null || true
    fi
    if [[ -n $cgroup ]]; then
        until_ok remove_cgroup || true
    fi
    rm -rf --one-file-system "$work"
}
trap clean_up EXIT

say() {
    printf '== %s\n' "$*"
}

skip() {
    echo "skipped: $*"
    exit 77
}

fail() {
    echo "booted.sh: $*" >&2
    if [[ -n ${init:-} ]]; then
        in_root journalctl --no-pager -o short-monotonic -n 80 >&2 || true
    fi
    exit 1
}

remove_cgroup() {
    find "$cgroup" -depth -type d -exec rmdir {} + 2>/dev/null
}

in_root() { # COMMAND [ARGUMENT]...
    nsenter --target "$init" --all -- "$@"
}

of_unit() { # PROPERTY
    in_root systemctl show --property "$1" --value "$unit"
}

unit_is() { # PROPERTY VALUE
    [[ $(of_unit "$1") == "$2" ]]
}

unit_is_not() { # PROPERTY VALUE
    ! unit_is "$@"
}

has_restarted() { # TIMES
    (($(of_unit NRestarts) >= $1)) && unit_is ActiveState active
}

journal_has() { # PATTERN
    in_root journalctl --no-pager -o cat -u "$unit" | grep "$1" >/dev/null
}

# The status of a request with this API key, and the policy it was decided by.
ask() { # KEY
    in_root curl -s -o /dev/null -w '%{http_code} %header{ratelimit-policy}' -H "X-Api-Key: $1" http://127.0.0.1/
}

answers() { # KEY PATTERN
    [[ $(ask "$1") == $2 ]]
}

# until_ok is a program of its own.
export unit
export -f in_root of_unit unit_is unit_is_not has_restarted journal_has ask answers remove_cgroup

check() { # WHAT COMMAND [ARGUMENT]...
    local what=$1
    shift
    until_ok "$@" || fail "not seen: $what"
    say "$what"
}

can_be_tried() {
    command -v debootstrap >/dev/null || skip "debootstrap is not there; tests/install.sh service installs it"
    ((EUID == 0)) || skip "only root can boot a system"
    # shellcheck source=/dev/null
    [[ $(. /etc/os-release && echo "$ID") == debian ]] || skip "what is built here is for another system than Debian"
    cgroup=$(awk '$3 == "cgroup2" { print $2; exit }' /proc/mounts)/spoa-ratelimit-test.$$
    export cgroup
    mkdir "$cgroup" 2>/dev/null || skip "no cgroup of version 2 can be made"
    unshare --pid --fork --mount --cgroup true 2>/dev/null || skip "no namespaces can be made"
}

make_debian() {
    local base=${BASE:-$work/base} mirror codename
    codename=$(. /etc/os-release && echo "$VERSION_CODENAME")
    mirror=$(apt-get indextargets --format '$(REPO_URI) $(CODENAME)' | awk -v c="$codename" '$2 == c { print $1; exit }')
    if [[ ! -e $base ]]; then
        say "Fetching a Debian"
        debootstrap --variant=minbase --include="$packages" "$codename" "$work/new" "$mirror" >"$work/debootstrap.log" 2>&1 ||
            { tail -20 "$work/debootstrap.log" >&2; fail "debootstrap failed"; }
        mv "$work/new" "$base"
    fi
    cp -a "$base" "$root"
}

# HAProxy with the files as they are installed, and an application behind it.
set_up_haproxy() {
    cp "$root"/usr/share/doc/spoa-ratelimit/haproxy/{haproxy.cfg,spoe-ratelimit.conf,delay.lua} "$root/etc/haproxy/"
    sed -i '/server second/d' "$root/etc/haproxy/haproxy.cfg"
    cat >"$root/etc/haproxy/application.cfg" <<'END'
frontend application
    mode http
    timeout client 10s
    bind 127.0.0.1:8000
    http-request return status 200 content-type text/plain string "a thing"
END
    # The shipped 20 ms are short for a busy test host.
    cat >"$root/etc/default/haproxy" <<'END'
EXTRAOPTS="-f /etc/haproxy/application.cfg"
RATELIMIT_TIMEOUT=2s
RATELIMIT_CHECK_TIMEOUT=2s
END
}

write_rules() { # RULE
    cat >"$root/etc/spoa-ratelimit/rules.yaml" <<END
version: 1
domain: booted
rules:
  - name: $1
    key: [api_key]
    limit: { requests: 2, per: 1h, algorithm: token_bucket }
END
}

boot() {
    (
        echo "$BASHPID" >"$cgroup/cgroup.procs"
        exec unshare --pid --fork --kill-child --mount --uts --ipc --net --cgroup \
            "$here/boot" "$root" </dev/null >"$work/boot.log" 2>&1
    ) &
    boot_pid=$!
    until_ok grep -q . "/proc/$boot_pid/task/$boot_pid/children"
    init=$(tr -d ' ' <"/proc/$boot_pid/task/$boot_pid/children")
    export init
    until_ok in_root systemctl is-system-running --wait >/dev/null 2>&1 || true
    until_ok in_root systemctl is-active --quiet haproxy.service || fail "HAProxy does not run: $(cat "$work/boot.log")"
}

start_service() {
    say "Starting, as systemd/README.md says"
    in_root systemd-sysusers spoa-ratelimit.conf
    in_root systemd-tmpfiles --create spoa-ratelimit.conf
    in_root systemctl daemon-reload
    in_root systemctl --quiet enable --now spoa-ratelimit.socket "$unit" || fail "it does not start"
    check "it says what it serves" unit_is StatusText "domain booted, 1 rules, 2 workers, on fd@3"
}

process_has() { # PID PATTERN
    in_root grep -Eqz "$2" "/proc/$1/status"
}
export -f process_has

check_rights() {
    local pid
    pid=$(of_unit MainPID)
    check "it runs as spoa-ratelimit" test "$(in_root stat -c %U "/proc/$pid")" = spoa-ratelimit
    check "without capabilities" process_has "$pid" "CapBnd:.0000000000000000"
    check "behind a filter of system calls" process_has "$pid" "Seccomp:.2"
    check "the socket is HAProxy's to open" test "$(in_root stat -c '%a %U %G' /var/lib/haproxy/spoa-ratelimit/agent.sock)" = "660 root haproxy"
    pid=$(in_root tail -n 1 /sys/fs/cgroup/system.slice/haproxy.service/cgroup.procs)
    check "HAProxy runs as haproxy" test "$(in_root stat -c %U "/proc/$pid")" = haproxy
    check "in its chroot" test "$(in_root readlink "/proc/$pid/root")" = /var/lib/haproxy
}

check_verdicts() {
    check "HAProxy gets verdicts" answers alice '200 "per_key"*'
    check "and refuses for them" answers alice '429 "per_key"*'
}

check_restart() {
    in_root systemctl restart "$unit"
    check "counters outlive a restart" answers alice '429 "per_key"*'
}

check_reload() {
    local pid
    pid=$(of_unit MainPID)
    in_root systemctl reload "$unit"
    check "after a reload another process is the service" unit_is_not MainPID "$pid"
    check "the old one is gone" in_root test ! -e "/proc/$pid"
    check "counters outlive a reload" answers alice '429 "per_key"*'
    check "a reload is no restart" unit_is NRestarts 0
}

check_crash() {
    in_root systemctl kill --signal KILL "$unit"
    check "killed, it is back" has_restarted 1
    check "and asked again" answers bob '200 "per_key"*'
}

# A watchdog short enough to wait for.
check_hang() {
    local pid tid
    mkdir "$root/etc/systemd/system/$unit.d"
    printf '[Service]\nWatchdogSec=4s\n' >"$root/etc/systemd/system/$unit.d/watchdog.conf"
    in_root systemctl daemon-reload
    in_root systemctl restart "$unit"
    pid=$(of_unit MainPID)
    tid=$(in_root grep -l "^worker-1$" -r "/proc/$pid/task" --include comm | cut -d/ -f5)
    cp "$build/tests/service/hold_thread" "$root/usr/local/bin/"
    in_root hold_thread "$tid" &
    check "a worker that stands still is told of" journal_has "worker 1 stands still"
    check "and the service restarted" has_restarted 1
    in_root systemctl kill --signal STOP "$unit"
    check "stopped as a whole, it is restarted too" has_restarted 2
    check "and asked again" answers carol '200 "per_key"*'
}

# Where nothing can be served: a wrong agent.yaml.
check_cannot_start() {
    local before
    before=$(of_unit NRestarts)
    cp "$root/etc/spoa-ratelimit/agent.yaml" "$work/"
    echo "listen: wrong" >"$root/etc/spoa-ratelimit/agent.yaml"
    in_root systemctl kill --signal KILL "$unit"
    check "with a wrong agent.yaml it tries again and again" tried $((before + 3))
    check "meanwhile requests pass without a verdict" answers alice "200 "
    cp "$work/agent.yaml" "$root/etc/spoa-ratelimit/"
    check "with a right one it is back" unit_is ActiveState active
    check "and asked again" answers dave '200 "per_key"*'
}

check_rules() {
    write_rules per_tenant
    check "changed rules come into force" answers erin '200 "per_tenant"*'
    echo "rules: wrong" >"$root/etc/spoa-ratelimit/rules.yaml"
    in_root systemctl restart "$unit"
    check "with wrong ones the last good ones serve" answers frank '200 "per_tenant"*'
    write_rules per_key
}

tried() { # TIMES
    (($(of_unit NRestarts) >= $1))
}
export -f tried

check_credentials() {
    local credentials
    mkdir -m 700 "$root/etc/credstore"
    echo "swordfish" >"$root/etc/credstore/spoa-ratelimit.redis-password"
    in_root systemctl restart "$unit"
    credentials=$(in_root sed -nz 's/^CREDENTIALS_DIRECTORY=//p' "/proc/$(of_unit MainPID)/environ" | tr -d '\0')
    check "a secret that is there is handed over" in_root grep -q swordfish "$credentials/redis-password"
    check "another that is not is no fault" in_root test ! -e "$credentials/fleet-secret"
}

check_stop() {
    in_root systemctl stop spoa-ratelimit.socket "$unit"
    check "it stops" unit_is ActiveState inactive
    check "as it should" unit_is Result success
    check "saying so" journal_has "stopping: answering what is in flight"
    check "requests pass without a verdict" answers alice "200 "
}

can_be_tried
make_debian
DESTDIR=$root cmake --install "$build" >"$work/install.log" || fail "$(cat "$work/install.log")"
[[ -x $root/usr/bin/spoa-ratelimit ]] || fail "$build is made for another prefix: configure it with -DCMAKE_INSTALL_PREFIX=/usr"
set_up_haproxy
write_rules per_key
boot
start_service
check_rights
check_verdicts
check_restart
check_reload
check_crash
check_hang
check_cannot_start
check_rules
check_credentials
check_stop
