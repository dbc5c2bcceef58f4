#!/bin/bash
# Full speed for minutes, with connections closed at random: is every NOTIFY answered, and does
# nothing grow? --help says how.
set -euo pipefail

here=$(cd "$(dirname "$0")" && pwd)
root=$(cd "$here/../.." && pwd)
agent=${AGENT:-$root/build/release/agent/spoa-ratelimit}
seconds=300
kills=50
work=
agent_pid=
sampler_pid=
failed=0
rss_growth_kib_max=1024

print_help() {
    cat <<EOT
usage: tests/soak/soak.sh [--seconds N] [--kills N]

Starts the agent with two workers and a table that is full at once, and loads it with
"spoa-ratelimit bench" for N seconds (default 300), while --kills connections a second (default 50)
are closed at random, in the middle of what is under way. Fails when
  - a NOTIFY on a connection that was not closed has no ACK, or a connection is lost otherwise;
  - what "show metrics" says does not add up at the end, or an error is counted;
  - resident memory grows by more than $rss_growth_kib_max KiB after the first fifth, or descriptors are left;
  - the agent logs anything.
Environment: AGENT=build/release/agent/spoa-ratelimit. Exit code: 0, 1 a failure, 2 usage.
EOT
}

fail() {
    echo "soak.sh: $1" >&2
    if [[ -s ${2:-} ]]; then
        tail -n 20 "$2" | sed 's/^/    /' >&2
    fi
    exit 1
}

clean_up() {
    local pid
    for pid in $sampler_pid $agent_pid; do
        kill "$pid" 2>/dev/null || true
        wait "$pid" 2>/dev/null || true
    done
    rm -rf "$work"
}

start_agent() {
    local give_up=$((SECONDS + 10))
    cat >"$work/rules.yaml" <<'EOT'
version: 1
domain: soak
rules:
  - name: per_address
    key: [ip]
    limit: { requests: 600, per: 60s }
  - name: per_key
    match: { auth: api_key }
    key: [api_key]
    limit: { requests: 5, per: 10s, algorithm: token_bucket }
EOT
    cat >"$work/agent.yaml" <<EOT
listen: ['unix@$work/agent.sock']
rules: $work/rules.yaml
runtime: ['$work/runtime.sock']
memory: 4MiB
EOT
    "$agent" serve -c "$work/agent.yaml" >"$work/agent.out" 2>"$work/agent.err" &
    agent_pid=$!
    until [[ -s $work/agent.out ]]; do
        kill -0 "$agent_pid" 2>/dev/null || fail "the agent ended:" "$work/agent.err"
        ((SECONDS < give_up)) || fail "the agent did not start within 10 s:" "$work/agent.err"
        sleep 0.05
    done
}

rss_kib() {
    sed -n 's/^VmRSS:[ \t]*\([0-9]*\).*/\1/p' "/proc/$agent_pid/status"
}

count_descriptors() {
    find "/proc/$agent_pid/fd" -mindepth 1 | wc -l
}

sample() {
    while sleep 1; do
        rss_kib
    done
}

read_metrics() {
    echo 'show metrics' | socat - "UNIX-CONNECT:$work/runtime.sock" | sed -n 's/^spoa_ratelimit_//p' >"$work/metrics"
}

metric() { # NAME
    sed -n "s/^$1 //p" "$work/metrics"
}

result() { # NAME
    sed -n "s/.*\"$1\": \"\{0,1\}\([^,\"}]*\).*/\1/p" "$work/result"
}

expect() { # WHAT A B
    if [[ $2 != "$3" ]]; then
        echo "    $1: $2, not $3"
        failed=1
    fi
}

check_metrics() {
    local name
    read_metrics
    expect "NOTIFYs received and answered" "$(metric notifies_total)" "$(metric acks_total)"
    expect "decisions" "$(($(metric requests_allowed_total) + $(metric requests_refused_total)))" \
        "$(metric acks_total)"
    expect "connections opened and closed" "$(metric connections_opened_total)" \
        "$(metric connections_closed_total)"
    expect "connections opened by the client" "$(metric connections_opened_total)" \
        "$(result connections_opened)"
    for name in connections connections_failed_total notifies_malformed_total acks_neutral_total \
        actions_left_out_total frames_ignored_total protocol_errors_total timeouts_total; do
        expect "$name" "$(metric "$name")" 0
    done
    # What reached the agent of that on closed connections is anything up to all of it.
    if (($(metric acks_total) < $(result acks) || $(metric acks_total) > $(result notifies))); then
        echo "    the agent answered $(metric acks_total)"
        failed=1
    fi
}

check_memory() {
    local base peak
    base=$(sed -n "$((seconds / 5 + 1))p" "$work/rss")
    peak=$(tail -n "+$((seconds / 5 + 1))" "$work/rss" | sort -n | tail -n 1)
    echo "resident: $base KiB after a fifth, then $peak at most, $(tail -n 1 "$work/rss") at the end"
    if ((peak > base + rss_growth_kib_max)); then
        echo "    it grows"
        failed=1
    fi
}

while (($# > 0)); do
    case $1 in
    --seconds) seconds=${2:?"--seconds N"}; shift 2 ;;
    --kills) kills=${2:?"--kills N"}; shift 2 ;;
    --help) print_help; exit 0 ;;
    *) print_help >&2; exit 2 ;;
    esac
done

for program in "$agent" socat; do
    command -v "$program" >/dev/null || fail "$program is not there"
done
work=$(mktemp -d)
trap clean_up EXIT
start_agent
read_metrics # its first memory is not growth
descriptors=$(count_descriptors)
sample >"$work/rss" &
sampler_pid=$!
"$agent" bench "unix@$work/agent.sock" --connections 16 --duration "$seconds" --warmup 0 \
    --kill-connections "$kills" --keys 1000000 --json --quiet >"$work/result" 2>"$work/bench.err" ||
    { echo "    bench says:"; cat "$work/bench.err" "$work/result"; failed=1; }
printf '%s s: %s NOTIFYs, %s ACKs, %s under way on %s connections that were closed, %s unanswered\n' \
    "$seconds" "$(result notifies)" "$(result acks)" "$(result unanswered_closed)" \
    "$(result closed_on_purpose)" "$(result unanswered)"
sleep 0.5
check_metrics
check_memory
expect descriptors "$(count_descriptors)" "$descriptors"
if [[ -s $work/agent.err ]]; then
    echo "    the agent logged:"
    cat "$work/agent.err"
    failed=1
fi
((failed)) || echo "no error"
exit "$failed"
