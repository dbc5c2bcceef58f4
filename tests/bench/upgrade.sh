#!/bin/bash
# Upgrades of the agent one after the other while HAProxy asks it as fast as it can: how many
# requests were without a verdict, and how long one took at most. --help says how.
set -euo pipefail

here=$(cd "$(dirname "$0")" && pwd)
root=$(cd "$here/../.." && pwd)
agent=${BUILD:-$root/build/release}/agent/spoa-ratelimit
haproxy=${HAPROXY:-/usr/sbin/haproxy}
port=${BENCH_PORT:-18310}
upgrades=20
timeout_ms=1000
connections=32
keys=100000
work=
log=haproxy.log
pids=()

source "$here/servers.sh"

print_help() {
    cat <<'EOT'
usage: tests/bench/upgrade.sh [--upgrades N] [--timeout MS] [--keys N]

Starts HAProxy with one thread, the agent with two workers, and wrk; sends SIGUSR2 to the agent
in power --upgrades times (default 20), each when the one before is over; then loads it for as
long again without upgrades. --timeout is HAProxy's timeout processing (default 1000; shipped 20),
--keys how many clients there are (default 100000).
Environment: BUILD=build/release, HAPROXY=/usr/sbin/haproxy, BENCH_PORT=18310.
EOT
}

# The agent is another process after each upgrade.
clean_up() {
    if ((${#pids[@]} > 0)); then
        kill "${pids[@]}" "$(agent_pid)" 2>/dev/null || true
        wait "${pids[@]}" 2>/dev/null || true
    fi
    rm -rf "$work"
}

write_files() {
    cat >"$work/rules.yaml" <<'EOT'
version: 1
domain: bench
rules:
  - name: per_client
    key: [client]
    limit: { requests: 1000000000, per: 1h }
EOT
    cat >"$work/spoe.conf" <<EOT
[agent]
spoe-agent agent
    messages ratelimit-check
    use-backend agent
    option var-prefix rl
    timeout processing ${timeout_ms}ms
    timeout hello 1s
    timeout idle 30s
    option set-on-error err
    option continue-on-error

spoe-message ratelimit-check
    args ip=src client=rand($keys)
    event on-frontend-http-request

EOT
    # HAProxy answers by itself: with 500 where no verdict came.
    cat >"$work/haproxy.cfg" <<EOT
global
    nbthread 1
    stats socket $work/stats.sock level admin
defaults
    mode http
    timeout connect 1s
    timeout client 30s
    timeout server 30s
frontend www
    bind 127.0.0.1:$port
    filter spoe engine agent config $work/spoe.conf
    http-request return status 500 unless { var(txn.rl.action) -m str allow }
    http-request return status 200 content-type text/plain string ok
backend agent
.if version_atleast(3.1)
    mode spop
.else
    mode tcp
.endif
    server agent unix@$work/agent.sock
EOT
}

ask() { # SOCKET COMMAND
    echo "$2" | socat -t5 - "UNIX:$work/$1.sock"
}

agent_pid() {
    ask runtime "show info" | sed -n 's/^Pid: //p'
}

start_all() {
    ! is_open "$port" 2>/dev/null || fail "127.0.0.1:$port is taken; choose another with BENCH_PORT"
    "$agent" serve --rules "$work/rules.yaml" --listen "unix@$work/agent.sock" \
        --runtime "$work/runtime.sock" >"$work/agent.out" 2>"$work/agent.err" &
    pids+=($!)
    log=agent.err wait_for test -s "$work/agent.out"
    "$haproxy" -db -f "$work/haproxy.cfg" >"$work/haproxy.log" 2>&1 &
    pids+=($!)
    wait_for is_open "$port"
}

load() { # SECONDS NAME
    wrk -t1 "-c$connections" "-d${1}s" "http://127.0.0.1:$port/" >"$work/$2.wrk" ||
        fail "wrk failed:" "$work/$2.wrk"
}

upgrade() {
    local before=$1 give_up=$((SECONDS + 20))
    kill -s USR2 "$before"
    while grep -qs '^State:.[^Z]' "/proc/$before/status"; do
        ((SECONDS < give_up)) || fail "process $before does not end" "$work/agent.err"
        sleep 0.01
    done
}

# Of HAProxy's server, by the names of the columns: connections it has opened, and how many
# failed or broke.
server_figures() {
    ask stats "show stat" | awk -F, '
        NR == 1 { for (i = 1; i <= NF; i++) column[$i] = i }
        $1 == "agent" && $2 == "agent" {
            print "connections " $column["connect"], "failed " $column["econ"], "broken " $column["eresp"] }'
}

count_of() { # NAME
    awk '/requests in/ { n = $1 } /Non-2xx/ { bad = $3 } END { printf "%d %d\n", n, bad }' "$work/$1.wrk"
}

print_figures() { # NAME
    local name=$1 n bad
    read -r n bad < <(count_of "$name")
    sed -n "s/^ *Latency  *\([^ ]*\)  *\([^ ]*\)  *\([^ ]*\) .*/$name: $n requests, $bad without a verdict; latency mean \1, at most \3/p" \
        "$work/$name.wrk"
    grep -h 'Socket errors' "$work/$name.wrk" || true
}

while (($# > 0)); do
    case $1 in
    --upgrades) upgrades=${2:?"--upgrades N"}; shift 2 ;;
    --timeout) timeout_ms=${2:?"--timeout MS"}; shift 2 ;;
    --keys) keys=${2:?"--keys N"}; shift 2 ;;
    --help) print_help; exit 0 ;;
    *) print_help >&2; exit 2 ;;
    esac
done

work=$(mktemp -d)
trap clean_up EXIT
write_files
start_all
load 3 warm
seconds=$((upgrades + 4))
echo "$("$haproxy" -v | sed -n 1p); HAProxy waits $timeout_ms ms for a verdict"
echo "at first: $(server_figures)"
load "$seconds" upgrades &
loader=$!
sleep 1
for ((i = 0; i < upgrades; i++)); do
    upgrade "$(agent_pid)"
    sleep 0.5
done
wait "$loader"
echo "after $upgrades upgrades: $(server_figures)"
load "$seconds" control
print_figures upgrades
print_figures control
grep -c 'has taken over' "$work/agent.err" | sed 's/^/upgrades done: /'
grep 'upgrade: taken over' "$work/agent.err" | tail -n 3
