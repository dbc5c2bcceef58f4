#!/bin/bash
# What the agent costs behind a real HAProxy, beside an agent that decides nothing: requests/s
# and agent CPU a request, in alternating turns of one run. --help says how.
set -euo pipefail

here=$(cd "$(dirname "$0")" && pwd)
root=$(cd "$here/../.." && pwd)
build=${BUILD:-$root/build/release}
haproxy=${HAPROXY:-/usr/sbin/haproxy}
port=${BENCH_PORT:-18300}
seconds=4
pairs=7
connections=32
work=
pids=()
declare -A pid_of     # agent -> its process
declare -A rates cpus # agent -> its figures, one a round

print_help() {
    cat <<'EOT'
usage: tests/bench/proxy.sh [--seconds N] [--pairs N]

Starts HAProxy with one thread, the agent and two fixed-ACK agents ("fixed" and "control") with
one worker each, and wrk with one thread. In every round each of the three gets --seconds of
load (default 4); there are --pairs rounds (default 7), every second one in reverse order.
Environment: BUILD=build/release, HAPROXY=/usr/sbin/haproxy, BENCH_PORT=18300 (six ports).
EOT
}

fail() {
    echo "proxy.sh: $1" >&2
    if [[ -s ${2:-} ]]; then
        sed 's/^/    /' "$2" >&2
    fi
    exit 1
}

clean_up() {
    if ((${#pids[@]} > 0)); then
        kill "${pids[@]}" 2>/dev/null || true
        wait "${pids[@]}" 2>/dev/null || true
    fi
    rm -rf "$work"
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
}

wait_for() { # NAME LOG COMMAND...
    local name=$1 log=$2 give_up=$((SECONDS + 10))
    shift 2
    until "$@" 2>/dev/null; do
        kill -0 "${pids[-1]}" 2>/dev/null || fail "$name ended:" "$log"
        ((SECONDS < give_up)) || fail "$name did not start within 10 s:" "$log"
        sleep 0.05
    done
}

start_agent() { # NAME COMMAND...
    local name=$1
    shift
    "$@" >"$work/$name.out" 2>"$work/$name.err" &
    pids+=($!)
    pid_of[$name]=$!
    wait_for "$name" "$work/$name.err" test -s "$work/$name.out"
}

is_open() { # PORT
    (exec 3<>"/dev/tcp/127.0.0.1/$1")
}

start_all() {
    local fixed=$build/tests/bench/fixed_ack_agent p
    for ((p = port; p < port + 6; p++)); do
        ! is_open "$p" 2>/dev/null || fail "127.0.0.1:$p is taken; choose others with BENCH_PORT"
    done
    start_agent agent "$build/agent/spoa-ratelimit" serve --rules "$work/rules.yaml" \
        --listen "127.0.0.1:$((port + 1))" --workers 1
    start_agent fixed "$fixed" --listen $((port + 3)) --workers 1
    start_agent control "$fixed" --listen $((port + 5)) --workers 1
    "$haproxy" -db -f "$work/haproxy.cfg" >"$work/haproxy.log" 2>&1 &
    pids+=($!)
    wait_for HAProxy "$work/haproxy.log" is_open "$port"
}

# User and system time of a process so far, in ticks. A name in brackets may hold blanks.
cpu_ticks() { # PID
    local stat fields
    stat=$(<"/proc/$1/stat")
    read -ra fields <<<"${stat##*) }"
    echo $((fields[11] + fields[12]))
}

measure() { # NAME PORT SECONDS
    local name=$1 out=$work/wrk.out before after n
    before=$(cpu_ticks "${pid_of[$name]}")
    wrk -t1 "-c$connections" "-d${3}s" "http://127.0.0.1:$2/v1/items/42" >"$out" ||
        fail "wrk failed:" "$out"
    after=$(cpu_ticks "${pid_of[$name]}")
    ! grep -q 'Non-2xx\|Socket errors' "$out" || fail "requests without a verdict:" "$out"
    n=$(sed -n 's/^ *\([0-9]*\) requests in .*/\1/p' "$out")
    rate=$(sed -n 's/^Requests.sec: *//p' "$out")
    cpu=$(calculate "($after - $before) * 1000000 / $(getconf CLK_TCK) / $n")
}

calculate() { # EXPRESSION
    awk "BEGIN { printf \"%.3f\", $1 }"
}

turn() { # NAME PORT
    measure "$1" "$2" "$seconds"
    rates[$1]+="$rate "
    cpus[$1]+="$cpu "
    printf '  %s %.0f/s %.2f us' "$1" "$rate" "$cpu"
}

# The agent's memory for counters is touched first: its pages come as they are used.
run_rounds() {
    local round
    measure agent "$port" 8
    measure fixed $((port + 2)) 1
    measure control $((port + 4)) 1
    for ((round = 1; round <= pairs; round++)); do
        printf '%d:' "$round"
        if ((round % 2)); then
            turn agent "$port"
            turn fixed $((port + 2))
            turn control $((port + 4))
        else
            turn control $((port + 4))
            turn fixed $((port + 2))
            turn agent "$port"
        fi
        echo
    done
}

# The median, over the rounds, of an expression in $1 and $2: the figures of two lists.
median_of() { # LIST LIST EXPRESSION
    paste <(tr ' ' '\n' <<<"${1% }") <(tr ' ' '\n' <<<"${2% }") | awk "{ print $3 }" | sort -g |
        awk '{ v[NR] = $1 } END { printf "%.3f", (v[int((NR + 1) / 2)] + v[int(NR / 2) + 1]) / 2 }'
}

print_results() {
    local ratio control
    ratio=$(median_of "${rates[agent]}" "${rates[fixed]}" '$1 / $2')
    control=$(median_of "${rates[control]}" "${rates[fixed]}" '$1 / $2')
    echo
    echo "medians of $pairs rounds of $seconds s; $("$haproxy" -v | head -n 1)"
    echo "requests/s, agent over fixed:   $ratio"
    echo "requests/s, control over fixed: $control"
    echo "of the control's:               $(calculate "$ratio / $control")"
    echo "CPU a request, us: agent $(median_of "${cpus[agent]}" "${cpus[agent]}" '$1')," \
        "fixed $(median_of "${cpus[fixed]}" "${cpus[fixed]}" '$1')," \
        "control $(median_of "${cpus[control]}" "${cpus[control]}" '$1')"
    echo "difference, us: agent - fixed $(median_of "${cpus[agent]}" "${cpus[fixed]}" '$1 - $2')," \
        "control - fixed $(median_of "${cpus[control]}" "${cpus[fixed]}" '$1 - $2')"
}

while (($# > 0)); do
    case $1 in
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
