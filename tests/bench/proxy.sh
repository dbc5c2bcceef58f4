#!/bin/bash
# What the agent costs behind a real HAProxy, beside an agent that decides nothing and beside
# HAProxy's own stick tables with the same limits: requests/s and CPU a request, in alternating
# turns of one run. --help says how.
set -euo pipefail

here=$(cd "$(dirname "$0")" && pwd)
root=$(cd "$here/../.." && pwd)
build=${BUILD:-$root/build/release}
haproxy=${HAPROXY:-/usr/sbin/haproxy}
port=${BENCH_PORT:-18300}
seconds=4
pairs=7
warmup=3
connections=32
work=
log=haproxy.log
pids=()
declare -A pid_of     # agent -> its process
declare -A rates cpus # turn -> its figures, one a round
declare -A totals     # likewise: CPU a request of the agent and of HAProxy
turns=(agent fixed control table)

source "$here/servers.sh"

print_help() {
    cat <<'EOT'
usage: tests/bench/proxy.sh [--seconds N] [--pairs N] [--warmup N]

Starts HAProxy with one thread, the agent and two fixed-ACK agents ("fixed" and "control") with
one worker each, and wrk with one thread. In every round each of the three gets --seconds of
load (default 4), and so does HAProxy alone with the same two limits in stick tables ("table");
there are --pairs rounds (default 7), every second one in reverse order.
Prints NAME=VALUE lines at the end. Exit code: 0 measured, 1 not, 2 usage.
Environment: BUILD=build/release, HAPROXY=/usr/sbin/haproxy, BENCH_PORT=18300 (seven ports).
EOT
}

# Nobody is refused: the same work in every turn. `client` is drawn by HAProxy out of a million.
write_rules() {
    cat >"$work/rules.yaml" <<'EOT'
version: 1
domain: bench
rules:
  - name: per_address
    key: [ip]
    limit: { requests: 1000000000, per: 60s }
  - name: per_client
    key: [client]
    limit: { requests: 10000000, per: 60s }
EOT
}

write_spoe() { # AGENT...
    local agent
    for agent in "$@"; do
        cat <<EOT
[$agent]
spoe-agent $agent
    messages ratelimit-check
    use-backend $agent
    option var-prefix rl
    timeout processing 1s
    timeout hello 1s
    timeout idle 30s
    option set-on-error err
    option continue-on-error

spoe-message ratelimit-check
    args ip=src method=method host=req.hdr(host) path=path client=rand(1000000)
    event on-frontend-http-request

EOT
    done
}

# HAProxy answers by itself, so that the agent's share shows: with 500 where no verdict came.
write_haproxy() { # AGENT...
    local agent at=$port
    cat <<EOT
global
    nbthread 1
defaults
    mode http
    timeout connect 1s
    timeout client 30s
    timeout server 30s
EOT
    for agent in "$@"; do
        cat <<EOT
frontend to_$agent
    bind 127.0.0.1:$at
    filter spoe engine $agent config $work/spoe.conf
    http-request return status 500 unless { var(txn.rl.action) -m str allow }
    http-after-response set-header RateLimit "%[var(txn.rl.ratelimit)]"
    http-after-response set-header RateLimit-Policy "%[var(txn.rl.policy)]"
    http-request return status 200 content-type text/plain string ok
backend $agent
    mode tcp
    server agent 127.0.0.1:$((at + 1))
EOT
        at=$((at + 2))
    done
    cat <<EOT
frontend to_table
    bind 127.0.0.1:$at
    http-request track-sc0 src table per_address
    http-request track-sc1 rand(1000000) table per_client
    acl over sc_http_req_rate(0) gt 1000000000
    acl over sc_http_req_rate(1) gt 10000000
    http-request return status 429 if over
    http-after-response set-header RateLimit "%[sc_http_req_rate(0)]"
    http-after-response set-header RateLimit-Policy "%[sc_http_req_rate(1)]"
    http-request return status 200 content-type text/plain string ok
backend per_address
    stick-table type ip size 1m expire 60s store http_req_rate(60s)
backend per_client
    stick-table type integer size 2m expire 60s store http_req_rate(60s)
EOT
}

start_agent() { # NAME COMMAND...
    local name=$1
    shift
    "$@" >"$work/$name.out" 2>"$work/$name.err" &
    pids+=($!)
    pid_of[$name]=$!
    log=$name.err wait_for test -s "$work/$name.out"
}

start_all() {
    local fixed=$build/tests/bench/fixed_ack_agent p
    for ((p = port; p < port + 7; p++)); do
        ! is_open "$p" 2>/dev/null || fail "127.0.0.1:$p is taken; choose others with BENCH_PORT"
    done
    start_agent agent "$build/agent/spoa-ratelimit" serve --rules "$work/rules.yaml" \
        --listen "127.0.0.1:$((port + 1))" --workers 1
    start_agent fixed "$fixed" --listen $((port + 3)) --workers 1
    start_agent control "$fixed" --listen $((port + 5)) --workers 1
    "$haproxy" -db -f "$work/haproxy.cfg" >"$work/haproxy.log" 2>&1 &
    pids+=($!)
    pid_of[haproxy]=$!
    wait_for is_open "$port"
}

# User and system time of a process so far, in ticks. A name in brackets may hold blanks.
cpu_ticks() { # PID
    local stat fields
    stat=$(<"/proc/$1/stat")
    read -ra fields <<<"${stat##*) }"
    echo $((fields[11] + fields[12]))
}

# CPU a request: of the agent, if the turn has one, and of it and HAProxy together.
measure() { # TURN SECONDS
    local agent=${pid_of[$1]:-} out=$work/wrk.out n before=0 after=0 haproxy_before haproxy_after
    [[ -z $agent ]] || before=$(cpu_ticks "$agent")
    haproxy_before=$(cpu_ticks "${pid_of[haproxy]}")
    wrk -t1 "-c$connections" "-d${2}s" "http://127.0.0.1:$(port_of "$1")/v1/items/42" >"$out" ||
        fail "wrk failed:" "$out"
    haproxy_after=$(cpu_ticks "${pid_of[haproxy]}")
    [[ -z $agent ]] || after=$(cpu_ticks "$agent")
    ! grep -q 'Non-2xx\|Socket errors' "$out" || fail "requests without a verdict:" "$out"
    n=$(sed -n 's/^ *\([0-9]*\) requests in .*/\1/p' "$out")
    rate=$(sed -n 's/^Requests.sec: *//p' "$out")
    cpu=$(us_a_request $((after - before)) "$n")
    total=$(us_a_request $((after - before + haproxy_after - haproxy_before)) "$n")
}

us_a_request() { # TICKS REQUESTS
    calculate "$1 * 1000000 / $(getconf CLK_TCK) / $2"
}

port_of() { # TURN
    local i
    for i in "${!turns[@]}"; do
        [[ ${turns[i]} != "$1" ]] || echo $((port + 2 * i))
    done
}

calculate() { # EXPRESSION
    awk "BEGIN { printf \"%.3f\", $1 }"
}

turn() { # NAME
    measure "$1" "$seconds"
    rates[$1]+="$rate "
    cpus[$1]+="$cpu "
    totals[$1]+="$total "
    printf '  %s %.0f/s %.2f us' "$1" "$rate" "$total"
}

# Each is warmed up first: pages of memory for counters come as they are used.
run_rounds() {
    local round i name
    for name in "${turns[@]}"; do
        measure "$name" "$warmup"
    done
    for ((round = 1; round <= pairs; round++)); do
        printf '%d:' "$round"
        for i in "${!turns[@]}"; do
            turn "${turns[round % 2 ? i : ${#turns[@]} - 1 - i]}"
        done
        echo
    done
}

# The median, over the rounds, of an expression in $1 and $2: the figures of two lists.
median_of() { # LIST LIST EXPRESSION
    paste <(tr ' ' '\n' <<<"${1% }") <(tr ' ' '\n' <<<"${2% }") | awk "{ print $3 }" | sort -g |
        awk '{ v[NR] = $1 } END { printf "%.3f", (v[int((NR + 1) / 2)] + v[int(NR / 2) + 1]) / 2 }'
}

print_results() {
    local ratio control name
    ratio=$(median_of "${rates[agent]}" "${rates[fixed]}" '$1 / $2')
    control=$(median_of "${rates[control]}" "${rates[fixed]}" '$1 / $2')
    cat <<EOT

haproxy=$("$haproxy" -v | sed -n 1p)
rounds=$pairs
seconds=$seconds
rate_agent_over_fixed=$ratio
rate_control_over_fixed=$control
rate_agent_over_control=$(calculate "$ratio / $control")
cpu_agent_minus_fixed_us=$(median_of "${cpus[agent]}" "${cpus[fixed]}" '$1 - $2')
cpu_control_minus_fixed_us=$(median_of "${cpus[control]}" "${cpus[fixed]}" '$1 - $2')
rate_agent_over_table=$(median_of "${rates[agent]}" "${rates[table]}" '$1 / $2')
cpu_total_agent_minus_table_us=$(median_of "${totals[agent]}" "${totals[table]}" '$1 - $2')
EOT
    for name in "${turns[@]}"; do
        echo "rate_$name=$(median_of "${rates[$name]}" "${rates[$name]}" '$1')"
        echo "cpu_${name}_us=$(median_of "${cpus[$name]}" "${cpus[$name]}" '$1')"
        echo "cpu_total_${name}_us=$(median_of "${totals[$name]}" "${totals[$name]}" '$1')"
    done
}

while (($# > 0)); do
    case $1 in
    --warmup) warmup=${2:?"--warmup N"}; shift 2 ;;
    --seconds) seconds=${2:?"--seconds N"}; shift 2 ;;
    --pairs) pairs=${2:?"--pairs N"}; shift 2 ;;
    --help) print_help; exit 0 ;;
    *) print_help >&2; exit 2 ;;
    esac
done

work=$(mktemp -d)
trap clean_up EXIT
write_rules
write_spoe agent fixed control >"$work/spoe.conf"
write_haproxy agent fixed control >"$work/haproxy.cfg"
start_all
run_rounds
print_results
