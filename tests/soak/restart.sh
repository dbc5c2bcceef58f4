#!/bin/bash
# How many requests get no verdict while the agent is killed, restarted or upgraded at full load
# behind the real HAProxy; --help says how.
set -euo pipefail

here=$(cd "$(dirname "$0")" && pwd)
root=$(cd "$here/../.." && pwd)
agent=${AGENT:-$root/build/release/agent/spoa-ratelimit}
haproxy=${HAPROXY:-haproxy}
port=${SOAK_PORT:-18400}
seconds=9
connections=32
timeout=500ms
events=()
work=
pids=()
agent_pid=
log_off=0
dropped_before=0
failed=0

print_help() {
    cat <<'EOT'
usage: tests/soak/restart.sh [--seconds N] [--timeout TIME] [EVENT...]

Starts HAProxy with the shipped files, the agent and wrk (32 connections, as fast as it goes). For
each event, or those named, there are N seconds of load (default 9), a third of which has passed when it
happens to the agent. Every request is in HAProxy's log, but for the few lines that it says it
dropped: counted are those without txn.rl.action.
  nothing   the control
  SIGKILL   killed, and started again at once
  SIGTERM   asked to stop, and started again when it has
  SIGUSR2   upgraded in place
--timeout is HAProxy's "timeout processing", 500ms here: the shipped 20ms are short for a busy
test host. Environment: AGENT=build/release/agent/spoa-ratelimit, HAPROXY=haproxy,
SOAK_PORT=18400 (two ports).
Exit code: 0, or 1 when a request had no verdict though nothing happened or the agent was
upgraded, when requests and log lines do not fit, or when something did not start; 2 usage.
EOT
}

fail() {
    echo "restart.sh: $1" >&2
    if [[ -s ${2:-} ]]; then
        tail -n 20 "$2" | sed 's/^/    /' >&2
    fi
    exit 1
}

clean_up() {
    if [[ -n $agent_pid ]]; then
        kill -s KILL "$agent_pid" 2>/dev/null || true
    fi
    if ((${#pids[@]} > 0)); then
        kill "${pids[@]}" 2>/dev/null || true
        wait "${pids[@]}" 2>/dev/null || true
    fi
    rm -rf "$work"
}

wait_for() { # WHAT LOG COMMAND...
    local what=$1 log=$2 give_up=$((SECONDS + 10))
    shift 2
    until "$@" 2>/dev/null; do
        ((SECONDS < give_up)) || fail "$what not within 10 s:" "$log"
        sleep 0.01
    done
}

# Nobody is refused, so every request is logged.
write_files() {
    cat >"$work/rules.yaml" <<'EOT'
version: 1
domain: public_api
rules:
  - name: per_address
    key: [ip]
    limit: { requests: 1000000000, per: 60s }
  - name: per_path
    key: [ip, path]
    limit: { requests: 100000000, per: 1s, burst: 100000000 }
EOT
    cat >"$work/agent.yaml" <<EOT
listen: ['unix@$work/agent.sock']
rules: $work/rules.yaml
runtime: ['$work/runtime.sock']
EOT
    cat >"$work/application.cfg" <<EOT
frontend application
    mode http
    timeout client 10s
    bind 127.0.0.1:$((port + 1))
    http-request return status 200 content-type text/plain string "a thing"
EOT
}

count_ready() {
    grep -c ' ready: ' "$work/agent.out" || true
}

is_ready_again() { # N: more often than N times
    (($(count_ready) > $1))
}

start_agent() {
    local before
    before=$(count_ready)
    "$agent" serve -c "$work/agent.yaml" >>"$work/agent.out" 2>>"$work/agent.err" &
    agent_pid=$!
    disown
    wait_for "the agent ready" "$work/agent.err" is_ready_again "$before"
}

stop_agent() { # SIGNAL
    kill -s "$1" "$agent_pid"
    wait_for "the agent gone" "$work/agent.err" is_gone "$agent_pid"
}

is_gone() { # PID: a zombie is gone too
    ! [[ -e /proc/$1 ]] || grep -q '^State:.Z' "/proc/$1/status"
}

start_haproxy() {
    export RATELIMIT_UNPRIVILEGED=1 RATELIMIT_LOG=stdout RATELIMIT_STATS=$work/haproxy.sock
    export RATELIMIT_BIND=127.0.0.1:$port RATELIMIT_APP=127.0.0.1:$((port + 1))
    export RATELIMIT_AGENT=unix@$work/agent.sock RATELIMIT_SECOND_AGENT=unix@$work/none.sock
    export RATELIMIT_TIMEOUT=$timeout RATELIMIT_CHECK_TIMEOUT=2s
    "$haproxy" -db -f "$work/application.cfg" -f "$root/haproxy/haproxy.cfg" \
        >"$work/haproxy.log" 2>"$work/haproxy.err" &
    pids+=($!)
    wait_for "HAProxy serving" "$work/haproxy.err" is_served
}

# What HAProxy logged since the row began.
row_log() {
    tail -c +$((log_off + 1)) "$work/haproxy.log"
}

# A verdict, and the server seen to be up.
is_served() {
    curl -sf -o /dev/null "http://127.0.0.1:$port/" && tail -n 1 "$work/haproxy.log" | grep ' action=allow ' >/dev/null
}

# HAProxy drops a line rather than wait for another thread that is writing one; it counts them.
count_dropped() {
    echo 'show info' | socat - "UNIX-CONNECT:$work/haproxy.sock" | sed -n 's/^DroppedLogs: //p'
}

is_logged() { # N: each request that wrk got an answer to has its line, or it was dropped
    local n n_dropped
    n=$(row_log | grep -c ' time_ms=')
    n_dropped=$(($(count_dropped) - dropped_before))
    ((n + n_dropped >= $1))
}

pid_now() {
    echo 'show info' | socat - "UNIX-CONNECT:$work/runtime.sock" | sed -n 's/^Pid: //p'
}

is_successor() { # PID
    local now
    now=$(pid_now)
    [[ -n $now && $now != "$1" ]]
}

upgrade() {
    local before=$agent_pid
    kill -s USR2 "$before"
    wait_for "a successor" "$work/agent.err" is_successor "$before"
    agent_pid=$(pid_now)
    wait_for "the predecessor gone" "$work/agent.err" is_gone "$before"
}

happen() { # EVENT
    case $1 in
    nothing) ;;
    SIGKILL) stop_agent KILL; start_agent ;;
    SIGTERM) stop_agent TERM; start_agent ;;
    SIGUSR2) upgrade ;;
    *) fail "there is no event $1" ;;
    esac
}

now_ms() {
    date +%s%3N
}

# Requests, those without a verdict, how long the first of them is before the last, and what
# HAProxy answered to them.
count() {
    awk '
        / time_ms=/ {
            match($0, / time_ms=[0-9]+/); t = substr($0, RSTART + 9, RLENGTH - 9)
            n++
            if ($0 ~ / action=- /) {
                n_none++
                if (!first || t < first) first = t
                if (t > last) last = t
                match($0, /\/[+0-9]+ [0-9-]+ [+0-9]+ /); split(substr($0, RSTART, RLENGTH), f, " ")
                statuses[f[2]]++
            }
        }
        END {
            printf "%d %d %d", n, n_none, n_none ? last - first : 0
            for (s in statuses) printf " %s:%d", s, statuses[s]
            print ""
        }'
}

row() { # EVENT
    local event=$1 began n n_none span statuses n_sent wrk_pid
    log_off=$(stat -c %s "$work/haproxy.log")
    dropped_before=$(count_dropped)
    wrk -t1 "-c$connections" "-d${seconds}s" "http://127.0.0.1:$port/v1/items/42" >"$work/wrk.out" 2>&1 &
    wrk_pid=$!
    sleep $((seconds / 3))
    began=$(now_ms)
    happen "$event"
    local took=$(($(now_ms) - began))
    wait "$wrk_pid" || fail "wrk failed:" "$work/wrk.out"
    n_sent=$(sed -n 's/^ *\([0-9]*\) requests in .*/\1/p' "$work/wrk.out")
    wait_for "HAProxy serving" "$work/haproxy.err" is_served
    wait_for "$n_sent lines of log" "$work/haproxy.err" is_logged "$n_sent"
    read -r n n_none span statuses < <(row_log | count)
    printf '%-8s %9d %9d %9d ms %9d ms   %s\n' "$event" "$n" "$n_none" "$span" "$took" "$statuses"
    local n_dropped=$(($(count_dropped) - dropped_before))
    if ((n_dropped > 0)); then
        echo "    not in these: $n_dropped lines that HAProxy dropped"
    fi
    # Not in wrk's count: what was under way at its end, and our own questions.
    if ((n > n_sent + connections + 50)); then
        echo "    wrk has $n_sent requests, the log $n"
        failed=1
    fi
    if [[ $event == nothing || $event == SIGUSR2 ]] && ((n_none > 0)); then
        echo "    none was allowed to be without"
        failed=1
    fi
}

while (($# > 0)); do
    case $1 in
    --seconds) seconds=${2:?"--seconds N"}; shift 2 ;;
    --timeout) timeout=${2:?"--timeout TIME"}; shift 2 ;;
    --help) print_help; exit 0 ;;
    -*) print_help >&2; exit 2 ;;
    *) events+=("$1"); shift ;;
    esac
done
if ((${#events[@]} == 0)); then
    events=(nothing SIGKILL SIGTERM SIGUSR2)
fi

for program in "$agent" "$haproxy" wrk socat curl; do
    command -v "$program" >/dev/null || fail "$program is not there; tests/install.sh test load installs what is needed"
done
work=$(mktemp -d)
trap clean_up EXIT
: >"$work/agent.out"
write_files
start_agent
start_haproxy
echo "$("$haproxy" -v | sed -n 1p), $connections connections, $seconds s each, timeout processing $timeout"
echo "event     requests  without a verdict  first to last     took  answered to these"
for event in "${events[@]}"; do
    row "$event"
done
exit "$failed"
