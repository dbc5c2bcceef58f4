#!/bin/bash
# Two agents that share one limit by leases, and one that is killed; --help says more.
set -euo pipefail

here=$(cd "$(dirname "$0")" && pwd)
root=$(cd "$here/../.." && pwd)
build=${BUILD:-$root/build/release}
agent=$build/agent/spoa-ratelimit
seconds=30
limit=500
store=lease
work=
log=a.err
pids=()

source "$here/servers.sh"

print_help() {
    cat <<'EOT'
usage: tests/bench/fleet.sh [--seconds N] [--store redis|lease|sync]

Starts a redis-server and two agents, each with a limit of 500 a second on one key, and offers them 800 a second:
720 to one, 80 to the other. Prints, one line an algorithm, what both admitted in --seconds (default 30) after the
first 5. Then the first is killed by SIGKILL, and all 800 go to the other: what it admitted in each half second
after, and in the 10 seconds that begin 3 s (ttl + 1 s) after the kill.
Exit code: 0 measured, 1 not, 2 usage.
Environment: BUILD=build/release. Needs a release build, redis-server and socat.
EOT
}

ask() { # AGENT COMMAND
    echo "$2" | socat -t 5 - "UNIX:$work/$1.runtime.sock"
}

# The time, and what agents have admitted until then and what policies have: one line.
admitted() { # AGENT...
    local name all=
    for name in "$@"; do
        all+=$(ask "$name" "show metrics")$'\n'
    done
    awk -v now="$EPOCHREALTIME" -v limit="$limit_name" '
        $1 == "spoa_ratelimit_decisions_total{limit=\"" limit "\",outcome=\"charged\"}" { n += $2 }
        $1 == "spoa_ratelimit_store_policy_local_total" { policy += $2 }
        END { printf "%s %d %d\n", now, n, policy }' <<<"$all"
}

# ... a second between two such lines.
per_second() { # FROM TO
    awk -v from="$1" -v to="$2" 'BEGIN {
        split(from, a, " "); split(to, b, " ")
        printf "%.1f", (b[2] - a[2]) / (b[1] - a[1]) }'
}

start_agent() { # NAME
    cat >"$work/$1.yaml" <<EOT
workers: 1
redis: { addresses: ["unix@$work/redis.sock"], slow_ms: 0 }
deadline_ms: 100
state_dir: "$work/$1.state"
runtime: ["$work/$1.runtime.sock"]
EOT
    mkdir -p "$work/$1.state"
    "$agent" serve -c "$work/$1.yaml" --rules "$work/rules.yaml" --listen "unix@$work/$1.sock" \
        >"$work/$1.out" 2>"$work/$1.err" &
    pids+=($!)
    wait_for test -s "$work/$1.out"
}

write_rules() {
    cat >"$work/rules.yaml" <<EOT
version: 1
domain: bench
defaults: { store: $store }
rules:
  - { name: sliding_window, match: { path: /sliding_window }, key: [client], limit: { requests: $limit, per: 1s } }
  - { name: token_bucket, match: { path: /token_bucket }, key: [client], limit: { requests: $limit, per: 1s, burst: $limit } }
  - name: fixed_window
    match: { path: /fixed_window }
    key: [client]
    limit: { algorithm: fixed_window, requests: $limit, per: 1s }
EOT
}

offer() { # AGENT RATE SECONDS
    "$agent" bench "unix@$work/$1.sock" --rate "$2" --duration "$3" --warmup 0 --connections 4 --quiet --json \
        --keys 1 --arg "path=/$limit_name" --arg 'client:int={key}' >"$work/$1.bench" 2>&1 &
}

# Both at work, for long enough to know each other.
start_all() {
    work=$(mktemp -d)
    pids=()
    write_rules
    start_redis "$work/redis.sock"
    start_agent a
    start_agent b
    wait_for sh -c "echo 'show redis' | socat -t 5 - UNIX:$work/a.runtime.sock | grep -q 'agents=2'"
    wait_for sh -c "echo 'show redis' | socat -t 5 - UNIX:$work/b.runtime.sock | grep -q 'agents=2'"
}

measure_steady() {
    offer a $((limit * 144 / 100)) $((seconds + 7))
    offer b $((limit * 16 / 100)) $((seconds + 7))
    sleep 5
    local from to
    from=$(admitted a b)
    sleep "$seconds"
    to=$(admitted a b)
    printf '%s steady: %s/s of %s in %s s, by policy %s\n' "$limit_name" "$(per_second "$from" "$to")" "$limit" \
        "$seconds" "$((${to##* } - ${from##* }))"
    show_policies
}

# A Redis that did not answer in time let this host's share through.
show_policies() {
    grep -h "asked any more" "$work/a.err" "$work/b.err" | sed 's/^/    /' || true
}

measure_kill() {
    local killed=${pids[1]} from to half line=
    kill -9 "$killed"
    wait "$killed" 2>/dev/null || true
    offer b $((limit * 16 / 10)) 16
    local began=$EPOCHREALTIME since
    to=$(admitted b)
    since=$to
    for half in 1 2 3 4 5 6; do
        from=$to
        sleep "$(awk -v b="$began" -v n="$EPOCHREALTIME" -v h="$half" 'BEGIN { s = b + h / 2 - n; printf "%.3f", (s > 0 ? s : 0) }')"
        to=$(admitted b)
        line+=" $(per_second "$from" "$to")"
    done
    from=$to
    sleep 10
    to=$(admitted b)
    printf '%s killed: by half seconds%s; then %s/s of %s in 10 s, by policy %s\n' "$limit_name" "$line" \
        "$(per_second "$from" "$to")" "$limit" "$((${to##* } - ${since##* }))"
    show_policies
}

while (($# > 0)); do
    case $1 in
    --seconds) seconds=$2; shift 2 ;;
    --store) store=$2; shift 2 ;;
    --help) print_help; exit 0 ;;
    *) print_help >&2; exit 2 ;;
    esac
done

trap clean_up EXIT
for limit_name in sliding_window token_bucket fixed_window; do
    start_all
    measure_steady
    measure_kill
    clean_up
done
