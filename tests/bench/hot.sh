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
log=here.err
pids=()

source "$here/servers.sh"

print_help() {
    cat <<'EOT'
usage: tests/bench/hot.sh [--seconds N] [--rounds N] [--rate N]

Starts two pairs of a redis-server and an agent with one worker. Nobody is over a limit. Turns of --seconds (default 3), --rounds of
each (default 9); p50 and p99 are in us from when a request was due to its ACK, medians over the rounds.
  by local, lease    1 000 clients, 10 000 requests a second
  by redis           1 000 clients, as many requests a second as there can be, and half of that
  beside             1 000 clients by store redis, --rate (default 1 000) requests a second, alone and beside a second
                     load of one client at 10 000 a second: by store local, redis and lease, and by store redis of
                     another agent with a redis-server of its own (elsewhere); by how many percent that moves their
                     p99, in the median round, over alone and over beside elsewhere, where the machine is as busy as
                     by redis, and Redis is not
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

write_rules() {
    cat >"$work/rules.yaml" <<'EOT'
version: 1
domain: bench
rules:
  - { name: redis, match: { path: /redis }, key: [client], store: redis, limit: { requests: 10000000, per: 60s } }
  - { name: local, match: { path: /local }, key: [client], limit: { requests: 10000000, per: 60s } }
  - { name: lease, match: { path: /lease }, key: [client], store: lease, limit: { requests: 10000000, per: 60s } }
EOT
}

start_both() { # here|elsewhere
    local at=$work/$1
    cat >"$at.yaml" <<EOT
workers: 1
redis: { addresses: ["unix@$at.redis"], slow_ms: 0 }
deadline_ms: 1000
runtime: ["$at.runtime"]
EOT
    start_redis "$at.redis"
    "$agent" serve -c "$at.yaml" --rules "$work/rules.yaml" --listen "unix@$at.agent" >"$at.out" 2>"$at.err" &
    pids+=($!)
    wait_for test -s "$at.out"
    sleep 1 # until the worker is connected to Redis
}

ask() { # NAME AGENT STORE CLIENTS SECONDS [RATE]; without one as fast as it can
    "$agent" bench "unix@$work/$2.agent" ${6:+--rate "$6"} --duration "$5" --warmup 1 --connections 8 --json --quiet \
        --keys "$4" --arg "path=/$3" --arg 'client:int={key}' >"$work/$1" || fail "bench failed:" "$work/$1"
}

# The 1 000 clients, alone or beside one hot one that is counted by that store.
turn() { # none|local|elsewhere|redis|lease
    local hot=
    case $1 in
    none) ;;
    elsewhere) ask hot elsewhere redis 1 $((seconds + 2)) "$hot_rate" & hot=$! ;;
    *) ask hot here "$1" 1 $((seconds + 2)) "$hot_rate" & hot=$! ;;
    esac
    sleep 0.5
    ask clients here redis 1000 "$seconds" "$rate"
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
        for beside in none local elsewhere redis lease; do
            turn "$beside"
        done
    done
    for beside in none local elsewhere redis lease; do
        printf 'beside %s: p50 %s, p99 %s, least p99 %s; p99 moved by %s %% over alone, by %s %% over elsewhere\n' \
            "$beside" "$(median "$work/$beside.p50")" "$(median "$work/$beside.p99")" \
            "$(least "$work/$beside.p99")" "$(moved "$beside" none)" "$(moved "$beside" elsewhere)"
    done
}

# By leases, and what it takes on this machine without a Redis.
measure_held() {
    local round store
    for ((round = 1; round <= rounds; round++)); do
        for store in local lease; do
            ask held here "$store" 1000 "$seconds" "$hot_rate"
            field latency_p50_us "$work/held" >>"$work/held_$store.p50"
            field latency_p99_us "$work/held" >>"$work/held_$store.p99"
        done
    done
    for store in local lease; do
        printf 'by %s, %s/s: p50 %s, p99 %s, least p99 %s\n' "$store" "$hot_rate" \
            "$(median "$work/held_$store.p50")" "$(median "$work/held_$store.p99")" "$(least "$work/held_$store.p99")"
    done
}

# What one primary can do at most, and how long an answer takes at half of it.
measure_half() {
    local round rate
    for ((round = 1; round <= rounds; round++)); do
        ask full here redis 1000 "$seconds"
        rate=$(field acks_per_second "$work/full")
        ask half here redis 1000 "$seconds" "$((${rate%.*} / 2))"
        echo "$rate" >>"$work/full.rate"
        field latency_p50_us "$work/half" >>"$work/half.p50"
        field latency_p99_us "$work/half" >>"$work/half.p99"
    done
    printf 'by redis: %s/s at most; at half of that p50 %s, p99 %s, least p99 %s\n' "$(median "$work/full.rate")" \
        "$(median "$work/half.p50")" "$(median "$work/half.p99")" "$(least "$work/half.p99")"
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
write_rules
start_both here
start_both elsewhere
measure_held
measure_half
measure_hot
