#!/bin/bash
# Runs all benches and prints their figures as the table of README.md; --help says how.
set -euo pipefail

here=$(cd "$(dirname "$0")" && pwd)
root=$(cd "$here/../.." && pwd)
build=${BUILD:-$root/build/release}
port=${BENCH_PORT:-18300}
haproxy=${HAPROXY:-/usr/sbin/haproxy}
agent=$build/agent/spoa-ratelimit
proxy_options=(--seconds 4 --pairs 7)
notify_seconds=4
notify_rounds=3
memory_clients=1000000
has_two_for_each=$(($(nproc) >= 4))
parts=()
work=
pids=()

print_help() {
    cat <<'EOT'
usage: tests/bench/run.sh [--quick] [PART]...

Installs what is missing, builds the release, and runs all of these, in about 5 minutes, or some:
  decide   bench_decide: a decision alone
  proxy    proxy.sh: behind HAProxy, beside a fixed-ACK agent and HAProxy's own stick tables
  notify   spoa-ratelimit bench: NOTIFY to ACK through a socket, ours and the fixed-ACK agent in turns
  memory   a million clients, each once: memory and evictions
  accuracy two counts beside an exact log: a table, and plots in build/accuracy.svg
Prints a table in Markdown to standard output, all else to standard error. --quick runs each for
a moment: to see that all of it works, not how fast. Run it on a machine with nothing else to do.
Exit code: 0 measured, 1 not, 2 usage.
Environment: BUILD=build/release, HAPROXY=/usr/sbin/haproxy, BENCH_PORT=18300 (seven ports).
EOT
}

say() {
    echo "== $*" >&2
}

fail() { # TEXT [LOG]
    echo "run.sh: $1" >&2
    if [[ -s ${2:-} ]]; then
        sed 's/^/    /' "$2" >&2
    fi
    exit 1
}

stop_all() {
    if ((${#pids[@]} > 0)); then
        kill "${pids[@]}" 2>/dev/null || true
        wait "${pids[@]}" 2>/dev/null || true
    fi
    pids=()
}

clean_up() {
    stop_all
    rm -rf "$work"
}

# Starts an agent in the background; its process is the last of `pids`.
start() { # NAME COMMAND...
    local name=$1 give_up=$((SECONDS + 10))
    shift
    rm -f "$work/$name.out"
    "$@" >"$work/$name.out" 2>"$work/$name.err" &
    pids+=($!)
    until [[ -s $work/$name.out ]]; do
        kill -0 "${pids[-1]}" 2>/dev/null || fail "$name ended:" "$work/$name.err"
        ((SECONDS < give_up)) || fail "$name did not start within 10 s:" "$work/$name.err"
        sleep 0.05
    done
}

write_rules() { # FILE RULE...
    local file=$1
    shift
    printf '%s\n' "version: 1" "domain: bench" "rules:" "$@" >"$file"
}

calculate() { # EXPRESSION [FORMAT]
    awk "BEGIN { printf \"${2:-%.2f}\", $1 }"
}

median() { # of the lines of standard input
    sort -g |
        awk '{ v[NR] = $1 } END { print (v[int((NR + 1) / 2)] + v[int(NR / 2) + 1]) / 2 }'
}

# The number that a flat JSON object has under NAME.
field() { # NAME FILE
    sed -n "s/.*\"$1\": \([0-9.]*\).*/\1/p" "$2" | grep . || fail "no $1 in the result:" "$2"
}

value() { # NAME FILE: of NAME=VALUE lines
    sed -n "s/^$1=//p" "$2" | grep . || fail "no $1 in the result:" "$2"
}

# Column 1 (median) or 2 (least) of a line of bench_decide.
decided() { # LABEL COLUMN
    awk -v label="$1" -v column="$2" 'index($0, label "  ") == 1 {
        print $(NF - 2 + column); found = 1 } END { exit !found }' "$work/decide" ||
        fail "bench_decide did not print '$1':" "$work/decide"
}

run_decide() {
    say "decide: a decision alone"
    "$build/tests/bench/bench_decide" >"$work/decide" || fail "bench_decide failed:" "$work/decide"
    cat "$work/decide" >&2
}

run_proxy() {
    say "proxy: behind HAProxy"
    "$here/proxy.sh" "${proxy_options[@]}" >"$work/proxy" || fail "proxy.sh failed:" "$work/proxy"
    cat "$work/proxy" >&2
}

# What proxy.sh has HAProxy send.
load() { # RESULT SECONDS PID PORT [OPTION]...
    local result=$1 seconds=$2 pid=$3 at=$4
    shift 4
    "$agent" bench "127.0.0.1:$at" --duration "$seconds" --json --quiet --pid "$pid" \
        --arg 'ip:ip=10.0.0.0+{key}' --arg method=GET --arg host=127.0.0.1 --arg path=/v1/items/42 \
        --arg 'client:int={key}' --keys 4096 "$@" >"$result" || fail "bench failed:" "$result"
}

run_notify() {
    local round
    say "notify: NOTIFY to ACK through a socket"
    write_rules "$work/two.yaml" \
        "  - { name: per_address, key: [ip], limit: { requests: 1000000000, per: 60s } }" \
        "  - { name: per_client, key: [client], limit: { requests: 10000000, per: 60s } }"
    start agent "$agent" serve --rules "$work/two.yaml" --listen "127.0.0.1:$port" --workers 1
    start fixed "$build/tests/bench/fixed_ack_agent" --listen $((port + 1)) --workers 1
    for ((round = 1; round <= notify_rounds; round++)); do
        load "$work/notify.$round" "$notify_seconds" "${pids[0]}" "$port"
        load "$work/fixed.$round" "$notify_seconds" "${pids[1]}" $((port + 1))
    done
    if ((has_two_for_each)); then
        start two "$agent" serve --rules "$work/two.yaml" --listen "127.0.0.1:$((port + 2))" --workers 2
        for ((round = 1; round <= notify_rounds; round++)); do
            load "$work/two.$round" "$notify_seconds" "${pids[2]}" $((port + 2)) --threads 2
        done
    fi
    cat "$work"/notify.? "$work"/fixed.? >&2
    stop_all
}

run_memory() {
    say "memory: a million clients in turn"
    write_rules "$work/one.yaml" \
        "  - { name: per_client, key: [client], limit: { requests: 1000000, per: 1h } }"
    printf 'memory: 64MiB\nruntime: [%s]\n' "$work/runtime.sock" >"$work/agent.yaml"
    start agent "$agent" serve -c "$work/agent.yaml" --rules "$work/one.yaml" \
        --listen "127.0.0.1:$port" --workers 1
    load "$work/memory" 60 "${pids[0]}" "$port" --warmup 0 --keys "$memory_clients" --in-turn \
        --requests "$memory_clients"
    cat "$work/memory" >&2
    echo "show metrics" | socat -t 5 - "UNIX:$work/runtime.sock" >"$work/metrics"
    stop_all
}

run_accuracy() {
    say "accuracy: two counts beside an exact log"
    "$build/tests/bench/accuracy" "$root/build/accuracy.svg" >"$work/accuracy" || fail "accuracy failed:" "$work/accuracy"
    cat "$work/accuracy" >&2
    say "plots: build/accuracy.svg"
}

metric() { # NAME
    awk -v name="spoa_ratelimit_$1" '$1 == name { print $2; found = 1 } END { exit !found }' \
        "$work/metrics" || fail "no metric $1:" "$work/metrics"
}

# The figures of one field over the rounds of NAME.
over_rounds() { # FIELD NAME
    local round
    for ((round = 1; round <= notify_rounds; round++)); do
        field "$1" "$work/$2.$round"
    done
}

range() { # FORMAT NUMBER...
    local format=$1
    shift
    printf '%s\n' "$@" | sort -g | awk -v f="$format" '{ v[NR] = $1 }
        END { printf f " (" f " to " f ")", (v[int((NR + 1) / 2)] + v[int(NR / 2) + 1]) / 2, v[1], v[NR] }'
}

verdict() { # VALUE COMPARISON BAR
    awk "BEGIN { print ($1 $2 $3) ? \"met\" : \"missed\" }"
}

row() { # WHAT BAR MEASURED VERDICT
    printf '| %s | %s | %s | %s |\n' "$@"
}

print_proxy_rows() {
    local p=$work/proxy extra over
    extra=$(value cpu_agent_minus_fixed_us "$p")
    over=$(value rate_agent_over_control "$p")
    row "agent CPU a request under HAProxy, over the fixed-ACK agent's" "≤ +1.5 µs" \
        "$(printf '%+.2f µs (%.2f against %.2f; control %+.2f)' "$extra" "$(value cpu_agent_us "$p")" \
            "$(value cpu_fixed_us "$p")" "$(value cpu_control_minus_fixed_us "$p")")" \
        "$(verdict "$extra" "<=" 1.5)"
    row "HAProxy requests/s over the fixed-ACK agent's, of the control's" "≥ 0.95" \
        "$(printf '%.2f (%.2f, control %.2f)' "$over" "$(value rate_agent_over_fixed "$p")" \
            "$(value rate_control_over_fixed "$p")")" \
        "$(verdict "$over" ">=" 0.95)"
    row "the same two limits in HAProxy's stick tables, no agent" "" \
        "$(printf 'requests/s of ours over theirs %.2f (%.0f, %.0f); CPU a request of HAProxy and agent %.1f against %.1f µs' \
            "$(value rate_agent_over_table "$p")" "$(value rate_agent "$p")" "$(value rate_table "$p")" \
            "$(value cpu_total_agent_us "$p")" "$(value cpu_total_table_us "$p")")" ""
}

print_notify_rows() {
    local rate fixed
    mapfile -t rate < <(over_rounds acks_per_second notify)
    mapfile -t fixed < <(over_rounds acks_per_second fixed)
    row "NOTIFY→ACK through a socket, pipelined, one worker" "≥ 1 000 000 /s at 3 GHz" \
        "$(range '%.0f' "${rate[@]}")/s, $(over_rounds agent_cpu_us_per_request notify | median) µs of CPU each; 8 connections × 20 under way: p50 $(over_rounds latency_p50_us notify | median) µs, p99 $(over_rounds latency_p99_us notify | median) µs. Fixed-ACK agent: $(range '%.0f' "${fixed[@]}")/s, $(over_rounds agent_cpu_us_per_request fixed | median) µs" \
        "$(verdict "$(over_rounds acks_per_second notify | median)" ">=" 1000000)"
    if ((has_two_for_each)); then
        local more
        more=$(calculate "$(over_rounds acks_per_second two | median) / $(over_rounds acks_per_second notify | median) - 1")
        row "a second worker adds" "≥ 0.8" "$more" "$(verdict "$more" ">=" 0.8)"
    else
        row "a second worker adds" "≥ 0.8" "not measured: fewer than 4 cores" ""
    fi
}

print_decide_rows() {
    local ns ratio matching allocations
    ns=$(decided "allow, decision" 1)
    ratio=$(decided "refusing over allowing, with ACK" 1)
    matching=$(decided "matching, 1000 rules over 10" 1)
    allocations=$(sed -n 's/^allocations in \([0-9]*\) decisions: \([0-9]*\)$/\2 in \1/p' "$work/decide")
    row "decision alone, 2 of 100 rules, local, 1 M keys" "≤ 400 ns" \
        "$ns ns, least round $(decided "allow, decision" 2); with the ACK $(decided "allow, decision and ACK" 1), least $(decided "allow, decision and ACK" 2)" \
        "$(verdict "$ns" "<=" 400)"
    row "allocations a decision" "0" "$allocations" "$(verdict "${allocations%% *}" "==" 0)"
    row "matching, 1 000 rules over 10" "≤ 2" "$matching" "$(verdict "$matching" "<=" 2)"
    row "refusing over allowing, default variables" "≤ 1.1" \
        "with the ACK: $ratio over 1 M keys, $(decided "refusing over allowing, with ACK, one key" 1) for one key that stays in the cache" \
        "$(verdict "$ratio" "<=" 1.1)"
}

print_memory_rows() {
    local share rss
    share=$(calculate "$(metric local_evictions_total) * 100 / $memory_clients" %.2f)
    rss=$(calculate "$(field agent_rss_after_bytes "$work/memory") / 1048576" %.0f)
    row "1 M live counters in 64 MiB" "< 1 % evicted" \
        "$share %; $(calculate "67108864 / $(metric local_slots)" %.1f) bytes a counter; RSS of the agent $rss MiB" \
        "$(verdict "$share" "<" 1)"
}

print_accuracy_rows() {
    local ratios worst
    ratios=$(awk -F ' *[|] *' '$2 == "Poisson" { print $6 }' "$work/accuracy" | sort -g)
    [[ -n $ratios ]] || fail "accuracy did not print Poisson:" "$work/accuracy"
    worst=$(awk '{ d = $1 > 1 ? $1 - 1 : 1 - $1; if (d > most) most = d } END { print most + 0 }' <<<"$ratios")
    row "sliding window against the exact log: admitted over the log's" "Poisson within 1 %" \
        "$(head -n 1 <<<"$ratios") to $(tail -n 1 <<<"$ratios"); the others in a table of their own" \
        "$(verdict "$worst" "<=" 0.01)"
}

print_table() {
    local cpu part
    cpu=$(sed -n '/^model name/ { s/^[^:]*: *//p; q }' /proc/cpuinfo)
    cat <<EOT
$(date +%F), commit $(git -C "$root" describe --always --dirty), release flags (RelWithDebInfo, hardened, linked
as one), $("$haproxy" -v | sed -n '1s/ \(20\|-\).*//p'), $(nproc) cores of ${cpu:-an unknown CPU}, Linux $(uname -r), load average
at the start $started_load. proxy.sh ${proxy_options[*]}; bench $notify_rounds times $notify_seconds s.

| what | bar | measured | |
| --- | --- | --- | --- |
EOT
    for part in "${parts[@]}"; do
        "print_${part}_rows"
    done
}

while (($# > 0)); do
    case $1 in
    --quick)
        proxy_options=(--seconds 1 --pairs 1 --warmup 1)
        notify_seconds=1
        notify_rounds=1
        shift
        ;;
    decide | proxy | notify | memory | accuracy) parts+=("$1"); shift ;;
    --help) print_help; exit 0 ;;
    *) print_help >&2; exit 2 ;;
    esac
done

if ((${#parts[@]} == 0)); then
    parts=(proxy notify decide memory accuracy)
fi
work=$(mktemp -d)
trap clean_up EXIT
started_load=$(cut -d ' ' -f 1 /proc/loadavg)
cd "$root"
bash tests/install.sh build bench >&2
if [[ -z ${BUILD:-} ]]; then
    say "build release"
    { cmake --preset release && cmake --build --preset release; } >"$work/build" 2>&1 ||
        fail "the release did not build:" "$work/build"
fi
for part in "${parts[@]}"; do
    "run_$part"
done
print_table
