#!/bin/bash
# One key far over its limit in Redis: what it costs Redis and the agent; --help says how.
set -euo pipefail

here=$(cd "$(dirname "$0")" && pwd)
root=$(cd "$here/../.." && pwd)
build=${BUILD:-$root/build/release}
agent=$build/agent/spoa-ratelimit
seconds=5
rounds=3
workers=2
work=
log=agent.err
pids=()

source "$here/servers.sh"

print_help() {
    cat <<'EOT'
usage: tests/bench/attack.sh [--seconds N] [--rounds N]

Starts a redis-server and an agent with two workers, and has `spoa-ratelimit bench` ask as fast as it can, 8
connections with 20 requests under way on each, in turns: of many clients, all allowed; of one key of a
sliding window of 20 a second; of one key of a token bucket of 20 a second. All are counted in Redis. A line
for each, of --seconds (default 5) that begin a second after the load, --rounds times (default 3):
  asked, admitted      requests
  calls                of the agent's scripts to Redis, heartbeats apart
  calls_per_admitted   the bound is workers + 1, and one call a second for each worker
  cpu_us               the agent's CPU a request
  cpu_over_allowed     over that of an allowed one in the same round
Exit code: 0 measured, 1 not, 2 usage.
Environment: BUILD=build/release. Needs a release build, redis-server and socat.
EOT
}

# Metrics as they are now, each in a line `NAME VALUE`.
metrics() {
    echo "show metrics" | socat -t 5 - "UNIX:$work/runtime.sock" | sed -n 's/^spoa_ratelimit_//p'
}

value() { # NAME FILE
    awk -v name="$1" '$1 == name { print $2; found = 1 } END { exit !found }' "$2" || fail "no metric $1:" "$2"
}

# How much a metric grew while a load was measured.
growth() { # NAME
    echo $(($(value "$1" "$work/after") - $(value "$1" "$work/before")))
}

start_both() {
    cat >"$work/rules.yaml" <<'EOT'
version: 1
domain: bench
defaults: { store: redis }
rules:
  - { name: allowed, match: { path: /allowed }, key: [client], limit: { requests: 100000000, per: 60s } }
  - { name: window, match: { path: /window }, key: [], limit: { requests: 20, per: 1s } }
  - { name: bucket, match: { path: /bucket }, key: [], limit: { requests: 20, per: 1s, burst: 20 } }
EOT
    cat >"$work/agent.yaml" <<EOT
workers: $workers
redis: { addresses: ["unix@$work/redis.sock"], slow_ms: 0 }
deadline_ms: 1000
runtime: ["$work/runtime.sock"]
EOT
    start_redis "$work/redis.sock"
    "$agent" serve -c "$work/agent.yaml" --rules "$work/rules.yaml" --listen "unix@$work/agent.sock" \
        >"$work/agent.out" 2>"$work/agent.err" &
    pids+=($!)
    wait_for test -s "$work/agent.out"
    sleep 1 # until each worker is connected to Redis
}

# One second of load more on either side: while it is measured it is steady.
load() { # NAME: of the rule and its path
    "$agent" bench "unix@$work/agent.sock" --duration $((seconds + 1)) --warmup 1 --json --quiet \
        --pid "${pids[1]}" --keys 4096 --arg "path=/$1" --arg 'client:int={key}' >"$work/$1" &
    local bench=$!
    sleep 1
    metrics >"$work/before"
    sleep "$seconds"
    metrics >"$work/after"
    wait "$bench" || fail "bench failed:" "$work/$1"
}

print_round() {
    local name allowed_us
    for name in allowed window bucket; do
        load "$name"
        [[ $name != allowed ]] || allowed_us=$(field agent_cpu_us_per_request "$work/$name")
        awk -v name="$name" -v asked="$(growth acks_total)" -v calls="$(growth store_calls_total)" \
            -v admitted="$(growth "decisions_total{limit=\"$name\",outcome=\"charged\"}")" \
            -v us="$(field agent_cpu_us_per_request "$work/$name")" -v allowed_us="$allowed_us" 'BEGIN {
                printf "%s asked=%d admitted=%d calls=%d calls_per_admitted=%.2f cpu_us=%.2f cpu_over_allowed=%.2f\n",
                    name, asked, admitted, calls, calls / admitted, us, us / allowed_us }'
    done
    (($(value store_policy_local_total "$work/after") == 0)) ||
        fail "Redis did not answer in time: policies decided" "$work/agent.err"
}

while (($# > 0)); do
    case $1 in
    --seconds) seconds=$2; shift 2 ;;
    --rounds) rounds=$2; shift 2 ;;
    --help) print_help; exit 0 ;;
    *) print_help >&2; exit 2 ;;
    esac
done

work=$(mktemp -d)
trap clean_up EXIT
start_both
for ((round = 1; round <= rounds; round++)); do
    print_round
done
