#!/bin/bash
# demo.sh: HAProxy and spoa-ratelimit side by side on this machine, and a client that is
# limited. Installs what is missing (as root, or with sudo), builds, shows, and cleans up.
set -euo pipefail

here=$(cd "$(dirname "$0")" && pwd)
root=$(dirname "$here")
port=${DEMO_PORT:-18080}
url=http://127.0.0.1:$port/v1/things
work=$(mktemp -d)
pids=()
wrong=0

clean_up() {
    if ((${#pids[@]} > 0)); then
        kill "${pids[@]}" 2>/dev/null || true
        wait "${pids[@]}" 2>/dev/null || true
    fi
    rm -rf "$work"
}
trap clean_up EXIT

say() {
    printf '\n== %s\n' "$*"
}

fail() {
    echo "demo.sh: $1" >&2
    if [[ -s ${2:-} ]]; then
        sed 's/^/    /' "$2" >&2
    fi
    exit 1
}

build() {
    say "Building the agent into build/release"
    cd "$root"
    mkdir -p build
    cmake --preset release >build/demo.log 2>&1 || fail "cmake failed:" build/demo.log
    cmake --build --preset release --target spoa-ratelimit >build/demo.log 2>&1 ||
        fail "the build failed:" build/demo.log
}

check_ports() {
    local p
    for p in "$port" $((port + 1)) $((port + 2)); do
        if (exec 3<>"/dev/tcp/127.0.0.1/$p") 2>/dev/null; then
            fail "127.0.0.1:$p is taken; choose three free ports in a row with DEMO_PORT=18180 $0"
        fi
    done
}

start_agent() {
    say "Starting the agent: counters in its memory, rules from haproxy/rules.yaml"
    "$root/build/release/agent/spoa-ratelimit" serve --rules "$here/rules.yaml" \
        --listen "127.0.0.1:$((port + 1))" >"$work/agent.out" 2>"$work/agent.err" &
    pids+=($!)
    wait_for "the agent" "$work/agent.err" test -s "$work/agent.out"
    cat "$work/agent.out"
}

# The application is a second frontend of the same HAProxy.
start_haproxy() {
    say "Starting HAProxy on 127.0.0.1:$port with haproxy/haproxy.cfg as it is"
    cat >"$work/application.cfg" <<EOF
frontend application
    mode http
    timeout client 10s
    bind 127.0.0.1:$((port + 2))
    http-request return status 200 content-type text/plain string "a thing"
EOF
    RATELIMIT_UNPRIVILEGED=1 RATELIMIT_LOG=stdout RATELIMIT_STATS=$work/haproxy.sock \
        RATELIMIT_BIND=127.0.0.1:$port RATELIMIT_AGENT=127.0.0.1:$((port + 1)) \
        RATELIMIT_APP=127.0.0.1:$((port + 2)) \
        haproxy -db -f "$work/application.cfg" -f "$here/haproxy.cfg" >"$work/haproxy.log" 2>&1 &
    pids+=($!)
    wait_for "HAProxy" "$work/haproxy.log" curl -sf -o "$work/body" "$url"
    haproxy -v | sed -n 1p
}

wait_for() { # WHO LOG COMMAND...
    local who=$1 log=$2 give_up=$((SECONDS + 10))
    shift 2
    until "$@" 2>/dev/null; do
        kill -0 "${pids[-1]}" 2>/dev/null || fail "$who ended:" "$log"
        ((SECONDS < give_up)) || fail "$who did not start within 10 s:" "$log"
        sleep 0.05
    done
}

# Sends one request as a client, shows status and headers, and compares the status.
ask() { # CLIENT WANTED-STATUS
    local status
    status=$(curl -s -D "$work/headers" -o "$work/body" -w '%{http_code}' -H "X-Api-Key: $1" "$url")
    echo "$1: $status"
    grep -iE '^(ratelimit|retry-after|content-type: application|cache-control)' "$work/headers" |
        tr -d '\r' | sed 's/^/    /'
    want "$status" "$2" "status"
}

want() { # SEEN WANTED WHAT
    if [[ $1 != "$2" ]]; then
        echo "    not as it should be: $3 is $1, not $2"
        wrong=1
    fi
}

show() {
    say "alice may do 5 requests at once, then one every 2 s"
    for _ in 1 2 3 4 5; do
        ask alice 200
    done

    say "Her sixth is refused: when to come back, and which rule it was"
    ask alice 429
    sed 's/^/    /' "$work/body"
    echo
    want "$(grep -c '"violated-policies": *\["per_key"\]' "$work/body")" 1 "mentions of the rule in the body"
    local wait_s
    wait_s=$(sed -n 's/^retry-after: \([0-9]*\).*/\1/p' "$work/headers")
    want "${wait_s:+present}" present "Retry-After"

    say "bob has a key of his own and notices nothing"
    ask bob 200

    say "alice waits the ${wait_s:-2} s she was told, and is let in again"
    sleep "${wait_s:-2}"
    ask alice 200
}

check_ports
bash "$root/tests/install.sh" build demo
build
start_agent
start_haproxy
show
if ((wrong)); then
    fail "not all of this was as it should be (see above)" "$work/agent.err"
fi
say "That was it; all that was started is stopped again"
