#!/bin/bash
# files.sh: installs the build $BUILD under a directory of its own and looks at what is there:
# the files, the units as systemd reads them, and the agent on the agent.yaml that is shipped.
# The rest of the environment is set by CMakeLists.txt beside it.
set -euo pipefail

here=$(cd "$(dirname "$0")" && pwd)
PATH=${here%/service}/e2e:$PATH # until_ok
root=$(mktemp -d "${TMPDIR:-/tmp}/service.XXXXXX")
agent_pid=
units=(spoa-ratelimit.service spoa-ratelimit.socket)

clean_up() {
    if [[ -n $agent_pid ]]; then
        kill -s KILL "$agent_pid" 2>/dev/null || true
    fi
    rm -rf "$root"
}
trap clean_up EXIT

fail() {
    echo "files.sh: $*" >&2
    exit 1
}

install_files() { # ARGUMENT...
    DESTDIR=$root cmake --install "$BUILD" "$@" 2>&1
}

list_expected() {
    printf '%s\n' "$BINDIR/spoa-ratelimit" "$ETC"/{agent,rules}.yaml \
        "$PREFIX"/lib/systemd/system/spoa-ratelimit.{service,socket} \
        "$PREFIX"/lib/{sysusers,tmpfiles}.d/spoa-ratelimit.conf \
        "$DOCDIR"/{LICENSE,README.md} "$DOCDIR"/{agent,haproxy,rules,systemd}/README.md \
        "$DOCDIR"/haproxy/{delay.lua,haproxy.cfg,rules.yaml,spoe-ratelimit.conf} | sort
}

check_files() {
    if install_files --prefix /elsewhere >"$root.log"; then
        fail "another prefix than the unit's was taken"
    fi
    grep -q CMAKE_INSTALL_PREFIX "$root.log" || fail "the refusal names no mend: $(cat "$root.log")"
    rm "$root.log"
    install_files >/dev/null
    diff <(list_expected) <(cd "$root" && find . -type f | sed 's/^\.//' | sort) ||
        fail "other files than expected (<) are installed (>)"
}

# What an administrator wrote stays; what is gone comes back.
check_second_install() {
    echo "# mine" >"$root$ETC/agent.yaml"
    rm "$root$ETC/rules.yaml"
    install_files >/dev/null
    [[ $(cat "$root$ETC/agent.yaml") == "# mine" ]] || fail "agent.yaml was overwritten"
    [[ -s $root$ETC/rules.yaml ]] || fail "rules.yaml did not come back"
    rm "$root$ETC/agent.yaml"
    install_files >/dev/null
}

# --man=no: the pages named are systemd's own.
check_units() {
    local said
    mkdir -p "$root/bin" "$root/etc/systemd/system"
    install -m 755 /dev/null "$root/bin/sh" # what verify looks for
    # What every unit depends on; an empty file would mask it.
    echo "[Unit]" >"$root/etc/systemd/system/sysinit.target"
    said=$(systemd-analyze verify --man=no --root="$root" "${units[@]}" 2>&1) || fail "verify: $said"
    [[ -z $said ]] || fail "verify: $said"
    said=$(systemd-analyze security --offline=true --root="$root" --threshold=15 --no-pager \
        "${units[0]}" 2>&1) || fail "more exposed than 1.5: $said"
    grep Overall <<<"$said"
}

# A user and a directory as sysusers.d and tmpfiles.d make them, where root may be one.
check_user() {
    local made
    if ((EUID != 0)); then
        echo "not root: the user and the directory are not made"
        return
    fi
    echo "haproxy:x:987:" >"$root/etc/group"
    systemd-sysusers --root="$root" spoa-ratelimit.conf 2>/dev/null
    grep -Eq "^spoa-ratelimit:x:[0-9]+:[0-9]+:.*:/usr/sbin/nologin$" "$root/etc/passwd" ||
        fail "no such user was made: $(cat "$root/etc/passwd")"
    systemd-tmpfiles --root="$root" --create spoa-ratelimit.conf
    made=$(stat -c "%a %u %g" "$root/var/lib/haproxy/spoa-ratelimit")
    [[ $made == "750 0 987" ]] || fail "the socket's directory is $made"
}

runtime_says() { # COMMAND PATTERN
    echo "$1" | socat - "UNIX:$root/run/spoa-ratelimit/runtime.sock" 2>/dev/null | grep "$2" >/dev/null
}
export root
export -f runtime_says # until_ok is a program

# systemd-socket-activate hands the agent its socket as descriptor 3 and starts it at the
# first connection, as systemd does.
check_agent() {
    local code=0
    mkdir -p "$root"/run/spoa-ratelimit "$root/var/lib/spoa-ratelimit"
    sed "s#\([ \[]\)/\(run\|etc\|var\|usr\)/#\1$root/\2/#" "$root$ETC/agent.yaml" >"$root/agent.yaml"
    systemd-socket-activate --listen="$root/agent.sock" \
        "$AGENT" serve -c "$root/agent.yaml" >"$root/agent.out" 2>"$root/agent.err" &
    agent_pid=$!
    until_ok test -S "$root/agent.sock"
    until_ok socat -u /dev/null "UNIX:$root/agent.sock" 2>/dev/null
    until_ok runtime_says "show info" "^Domain: public_api" || fail "no agent: $(cat "$root/agent.err")"
    kill "$agent_pid"
    wait "$agent_pid" || code=$?
    agent_pid=
    ((code == 0)) || fail "the agent ended with $code: $(cat "$root/agent.err")"
    [[ -s $root/var/lib/spoa-ratelimit/counters.snapshot ]] || fail "no counters were kept"
}

for program in systemd-analyze systemd-sysusers systemd-tmpfiles systemd-socket-activate socat; do
    if ! command -v "$program" >/dev/null; then
        echo "skipped: $program is not there; tests/install.sh test installs what the tests need"
        exit 77
    fi
done
check_files
check_second_install
check_units
check_user
check_agent
