# servers.sh: what the scripts of this directory share; to be sourced, with $work a directory
# that goes, $log what to show of a wait that was in vain, and $pids of what is to end.

fail() { # TEXT [LOG]
    echo "${0##*/}: $1" >&2
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

wait_for() { # COMMAND...
    local give_up=$((SECONDS + 20))
    until "$@" >/dev/null 2>&1; do
        ((SECONDS < give_up)) || fail "not within 20 s: $*" "$work/$log"
        sleep 0.05
    done
}

is_open() { # PORT
    (exec 3<>"/dev/tcp/127.0.0.1/$1")
}

start_redis() { # SOCKET
    redis-server --port 0 --unixsocket "$1" --save "" --dir "$work" >"$1.out" &
    pids+=($!)
    wait_for test -S "$1"
}

# The number that a flat JSON object has under NAME.
field() { # NAME FILE
    sed -n "s/.*\"$1\": \([0-9.]*\).*/\1/p" "$2" | grep . || fail "no $1 in the result:" "$2"
}
