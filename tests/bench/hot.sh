#!/bin/bash
# What one hot key does to all others, and how long an answer takes with leases; --help says more.
set -euo pipefail

here=$(cd "$(dirname "$0")" && pwd)
root=$(cd "$here/../.." && pwd)
build=${BUILD:-$root/build/release}
agent=$build/agent/spoa-ratelimit
seconds=3
rounds=9
rate=1000
hot_rate=10000
work=
log=agent.err
pids=()

source "$here/servers.sh"

print_help() {
    cat <<'EOT'
usage: tests/bench/hot.sh [--seconds N] [--rounds N] [--rate N]

Starts a redis-server and an agent with one worker. Nobody is over a limit. Turns of --seconds (default 3), --rounds of
each (default 9); p50 and p99 are in us from when a request was due to its ACK, medians over the rounds.
  by local, lease    1 000 clients, 10 000 requests a second
  beside             1 000 clients by store redis, --rate (default 1 000) requests a second, alone and beside a second
                     load of one client at 10 000 a second: by store local, redis and lease; by how many percent that
                     moves their p99, in the median round, over alone and over beside local, where the machine is as
                     busy and Redis is not
Exit code: 0 measured, 1 not, 2 usage.
Environment: BUILD=build/release. Needs a release build, redis-server and socat.
EOT
}

median() { # FILE of numbers
    sort -n "$1" | awk '{ v[NR] = $1 } END { print v[int((NR + 1) / 2)] }'
}

least() { # FILE of numbers
    sort -n "$1" | sed -n 1p
}

start_both() {
    cat >"$work/rules.yaml" <<'EOT'
version: 1
domain: bench
rules:
  - { name: redis, match: { path: /redis }, key: [client], store: redis, limit: { requests: 10000000, per: 60s } }
  - { name: local, match: { path: /local }, key: [client], limit: { requests: 10000000, per: 60s } }
  - { name: lease, match: { path: /lease }, key: [client], store: lease, limit: { requests: 10000000, per: 60s } }
EOT
    cat >"$work/agent.yaml" <<EOT
workers: 1
redis: { addresses: ["unix@$work/redis.sock"], slow_ms: 0 }
deadline_ms: 1000
runtime: ["$work/runtime.sock"]
EOT
    redis-server --port 0 --unixsocket "$work/redis.sock" --save "" --dir "$work" >"$work/redis.out" &
    pids+=($!)
    wait_for test -S "$work/redis.sock"
    "$agent" serve -c "$work/agent.yaml" --rules "$work/rules.yaml" --listen "unix@$work/agent.sock" \
        >"$work/agent.out" 2>"$work/agent.err" &
    pids+=($!)
    wait_for test -s "$work/agent.out"
    sleep 1 # until the worker is connected to Redis
}

ask() { # NAME STORE CLIENTS RATE SECONDS
    "$agent" bench "unix@$work/agent.sock" --rate "$4" --duration "$5" --warmup 1 --connections 8 --json --quiet \
        --keys "$3" --arg "path=/$2" --arg 'client:int={key}' >"$work/$1" || fail "bench failed:" "$work/$1"
}

# The 1 000 clients, alone or beside one hot one that is counted by that store.
turn() { # none|local|redis|lease
    local hot=
    if [[ $1 != none ]]; then
        ask hot "$1" 1 "$hot_rate" $((seconds + 2)) &
        hot=$!
        sleep 0.5
    fi
    ask clients redis 1000 "$rate" "$seconds"
    field latency_p50_us "$work/clients" >>"$work/$1.p50"
    field latency_p99_us "$work/clients" >>"$work/$1.p99"
    [[ -z $hot ]] || wait "$hot"
}

# By how many percent a hot one moves p99 over that of the same round beside OTHER.
moved() { # STORE OTHER
    paste "$work/$2.p99" "$work/$1.p99" | awk '{ printf "%.0f\n", 100 * ($2 / $1 - 1) }' | sort -n |
        awk '{ v[NR] = $1 } END { printf "%+d", v[int((NR + 1) / 2)] }'
}

measure_hot() {
    local round beside
    for ((round = 1; round <= rounds; round++)); do
        for beside in none local redis lease; do
            turn "$beside"
        done
    done
    for beside in none local redis lease; do
        printf 'beside %s: p50 %s, p99 %s, least p99 %s; p99 moved by %s %% over alone, by %s %% over local\n' \
            "$beside" "$(median "$work/$beside.p50")" "$(median "$work/$beside.p99")" \
            "$(least "$work/$beside.p99")" "$(moved "$beside" none)" "$(moved "$beside" local)"
    done
}

# By leases, and what it takes on this machine without a Redis.
measure_held() {
    local round store
    for ((round = 1; round <= rounds; round++)); do
        for store in local lease; do
            ask held "$store" 1000 "$hot_rate" "$seconds"
            field latency_p50_us "$work/held" >>"$work/held_$store.p50"
            field latency_p99_us "$work/held" >>"$work/held_$store.p99"
        done
    done
    for store in local lease; do
        printf 'by %s, %s/s: p50 %s, p99 %s, least p99 %s\n' "$store" "$hot_rate" \
            "$(median "$work/held_$store.p50")" "$(median "$work/held_$store.p99")" "$(least "$work/held_$store.p99")"
    done
}

while (($# > 0)); do
    case $1 in
    --seconds) seconds=$2; shift 2 ;;
    --rounds) rounds=$2; shift 2 ;;
    --rate) rate=$2; shift 2 ;;
    --help) print_help; exit 0 ;;
    *) print_help >&2; exit 2 ;;
    esac
done

work=$(mktemp -d)
trap clean_up EXIT
start_both
measure_held
measure_hot
