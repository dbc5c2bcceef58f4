#!/bin/bash
# command.sh AGENT: the command check as people run it, with good and bad arguments.
set -euo pipefail

agent=$1
root=$(cd "$(dirname "$0")/../../.." && pwd)
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
wrong=0

# Runs check, and compares its exit code and a text that it has to print.
expect() { # EXIT-CODE TEXT ARGUMENT...
    local code=$1 text=$2 got=0
    shift 2
    "$agent" check "$@" >"$work/out" 2>&1 || got=$?
    if [[ $got != "$code" ]] || ! grep -qF -e "$text" "$work/out"; then
        printf 'check %s: exit code %s, not %s; or no "%s" in:\n' "$*" "$got" "$code" "$text"
        head -c 2000 "$work/out"
        wrong=1
    fi
}

cd "$root"
rules=haproxy/rules.yaml
spoe=haproxy/spoe-ratelimit.conf

expect 0 "$rules: ok: 0 errors, 0 warnings" "$rules" --spoe "$spoe" --strict
expect 0 "usage: spoa-ratelimit check" --help
expect 0 "at most 600 at once" "$rules"
expect 0 '"ok": true' --json "$rules"
expect 0 "Against $rules: nothing changes" "$rules" --against "$rules"
expect 0 '"changes": []' "$rules" --against "$rules" --json
expect 0 "memory    62MiB or more" "$rules" --keys 200000
expect 0 "[local-in-fleet]" "$rules" --nodes 2
expect 1 "refused: 3 errors, 0 warnings" "$rules" --nodes 2 --strict

printf 'nodes: 3\n' >"$work/agent.yaml"
printf 'nodes: none\n' >"$work/bad.yaml"
expect 0 "3 hosts: at most 1800 at once" "$rules" -c "$work/agent.yaml"
expect 0 "2 hosts: at most 1200 at once" "$rules" -c "$work/agent.yaml" --nodes 2
expect 1 "bad-value" "$rules" -c "$work/bad.yaml"
expect 1 "No such file or directory" "$rules" -c "$work/missing"


# What agent.yaml says of Redis, and of its deadline.
printf 'version: 1\ndomain: d\nrules:\n  - {name: a, key: [ip], limit: {requests: 60, per: 60s}, store: redis}\n' >"$work/redis.yaml"
expect 0 "redis" "$work/redis.yaml"
expect 1 "[store-not-there]" "$work/redis.yaml" -c "$work/agent.yaml"
printf 'redis: {addresses: [a:1]}\ndeadline_ms: 20\n' >"$work/with_redis.yaml"
expect 0 "redis" "$work/redis.yaml" -c "$work/with_redis.yaml"
expect 1 "[spoe-timeout]" "$work/redis.yaml" -c "$work/with_redis.yaml" --spoe "$spoe"

# What it says of the stores that count ahead.
for store in lease sync; do
    sed "s/store: redis/store: $store/; s/60,/6000,/" "$work/redis.yaml" >"$work/$store.yaml"
    expect 1 "store: $store, and agent.yaml has no 'redis'" "$work/$store.yaml" -c "$work/agent.yaml"
done
printf 'redis: {addresses: [a:1]}\nnodes: 3\nlease: {share: 20%%}\nsync: {interval: 2s}\n' >"$work/ahead.yaml"
expect 0 "beyond that at most 300 that hosts hold in blocks, and 300 for each" "$work/lease.yaml"
expect 0 "beyond that at most 1200 that hosts hold in blocks, and 400 for each" "$work/lease.yaml" -c "$work/ahead.yaml"
expect 0 "hold 20% of a limit" "$work/lease.yaml" -c "$work/ahead.yaml"
expect 0 "what comes within 200ms, at most 6001; through one host at most 6000 at once" "$work/sync.yaml"
expect 0 "what comes within 4s, at most 6003; through one host at most 2000 at once" "$work/sync.yaml" -c "$work/ahead.yaml"
expect 0 "hear of each other each 2s let 6% and more" "$work/sync.yaml" -c "$work/ahead.yaml"

expect 0 "calls     at most 1000 a second, 1 for each request" "$work/redis.yaml" --keys 10 --rate 1000
expect 0 "batches   about 344 calls a second, with 2500 orders of lease" "$work/lease.yaml" --keys 1000 --rate 50000
expect 0 "batches   about 645 calls a second, with 0 orders of lease and 10000 exchanges" "$work/sync.yaml" --keys 1000 --rate 50000 --nodes 1
expect 0 "; beyond that requests ask Redis" "$work/lease.yaml" --keys 100000 --rate 1000000
expect 0 "; beyond that requests ask Redis" "$work/sync.yaml" --keys 100000 --rate 1000000
expect 0 "primaries 1, busy" "$work/redis.yaml" --keys 10 --rate 1000
expect 0 "primaries 38, busy for half of the time at most: that is a cluster" "$work/redis.yaml" --keys 10 --rate 1000000
printf 'redis: {addresses: [a:1], cluster: true}\n' >"$work/cluster.yaml"
expect 0 "slot      by [ip]" "$work/redis.yaml" -c "$work/cluster.yaml"

# The Redis of agent.yaml, as it is.
redis=
trap '[[ -z $redis ]] || kill "$redis"; rm -rf "$work"' EXIT
printf 'redis: {addresses: ["unix@%s/redis.sock"]}\n' "$work" >"$work/there.yaml"
expect 1 "[redis-unreachable]" "$work/redis.yaml" -c "$work/there.yaml" --redis
redis-server --port 0 --unixsocket "$work/redis.sock" --save '' --dir "$work" \
    --maxmemory 100mb --maxmemory-policy allkeys-lru >/dev/null &
redis=$!
for _ in {1..500}; do [[ -S $work/redis.sock ]] && break; sleep 0.01; done
expect 0 ", primary, up to 100MiB, allkeys-lru, answers in " "$work/redis.yaml" -c "$work/there.yaml" --redis
expect 0 "[redis-evicts]" "$work/redis.yaml" -c "$work/there.yaml" --redis
expect 1 "[redis-evicts]" "$work/redis.yaml" -c "$work/there.yaml" --redis --strict
expect 0 '"maxmemory_policy": "allkeys-lru"' "$work/redis.yaml" -c "$work/there.yaml" --redis --json
expect 0 '"code": "redis-evicts"' "$work/redis.yaml" -c "$work/there.yaml" --redis --json
expect 1 "there is no \`redis\` in it" "$work/redis.yaml" -c "$work/agent.yaml" --redis
expect 2 "want -c agent.yaml" "$work/redis.yaml" --redis
printf 'redis: {addresses: [a:1], password_file: %s}\n' "$work/missing" >"$work/secret.yaml"
expect 1 "password_file" "$work/redis.yaml" -c "$work/secret.yaml" --redis

expect 2 "want one rules file"
expect 2 "want one rules file" "$rules" "$rules"
expect 2 "unrecognized option" "$rules" --unknown
expect 2 "requires an argument" "$rules" --spoe
expect 2 "want a number from 1 to" "$rules" --keys 0
expect 2 "want a number from 1 to" "$rules" --keys 99999999999999999999
expect 2 "want a number from 1 to" "$rules" --nodes 3x
expect 2 "want --keys too" "$rules" --rate 10

: >"$work/empty"
head -c 100000 /dev/urandom >"$work/binary"
printf 'version: 1\ndomain: d\0\n' >"$work/nul"
head -c 5242880 /dev/zero | tr '\0' '#' >"$work/large"
mkdir "$work/directory"
mkfifo "$work/fifo"
expect 1 "[unreadable]" "$work/missing"
expect 1 "[unreadable]" "$work/directory"
expect 1 "[unreadable]" "$work/fifo"
expect 1 "[yaml-empty]" "$work/empty"
expect 1 "[yaml-encoding]" "$work/nul"
expect 1 "refused: 1 error," "$work/binary"
expect 1 "refused: 1 error," "$work/large"
expect 1 '"code": "unreadable"' "$work/missing" --json
expect 1 '"file": "'"$work"'/?' "$work/"$'\xff' --json
for file in missing directory fifo empty nul binary large; do
    expect 1 "error" "$rules" --spoe "$work/$file"
    expect 1 "error" "$rules" --against "$work/$file"
    expect 1 "$rules: refused" "$rules" --spoe "$work/$file" --against "$work/$file"
done

# A report that cannot be written is no good report.
if "$agent" check "$rules" >/dev/full 2>"$work/out" || ! grep -q "cannot be written" "$work/out"; then
    echo "check >/dev/full: not told"
    wrong=1
fi
exit "$wrong"
