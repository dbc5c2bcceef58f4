#!/bin/bash
# stack.sh: haproxy/demo/stack.sh up, load, down, under a name of its own: the figures that load
# prints, how the containers end, and that nothing is left.
# Exit code: 0 all went well, 1 not, 77 it cannot be tried here.
set -euo pipefail

here=$(cd "$(dirname "$0")" && pwd)
demo=${here%/tests/demo}/haproxy/demo
export COMPOSE_PROJECT_NAME=ratelimit-test-$$ DEMO_PORT_A=0 DEMO_PORT_B=0
is_up=no
work=$(mktemp -d)

clean_up() {
    if [[ $is_up == yes ]]; then
        "$demo/stack.sh" down >"$work/down" 2>&1 || cat "$work/down" >&2
    fi
    rm -rf "$work"
}
trap clean_up EXIT

skip() {
    echo "skipped: $*"
    exit 77
}

fail() {
    echo "stack.sh: $*" >&2
    docker ps -a --filter "$ours" >&2
    exit 1
}

can_be_tried() {
    local image
    docker version >/dev/null 2>&1 || skip "Docker does not answer"
    docker compose version >/dev/null 2>&1 || command -v docker-compose >/dev/null || skip "there is no docker compose"
    for image in debian:12-slim haproxy:2.6 redis:7; do
        docker image inspect "$image" >/dev/null 2>&1 || timeout 120 docker pull -q "$image" >/dev/null 2>&1 ||
            skip "there is no $image, here or in a registry; haproxy/demo/stack.sh bases makes it"
    done
}

quietly() { # COMMAND...
    "$@" >"$work/log" 2>&1 || { cat "$work/log" >&2; fail "failed: $*"; }
}

# A row of the table of a limit: requests, allowed, refused, through both.
printed() { # LIMIT CLIENT REQUESTS ALLOWED REFUSED
    local seen
    seen=$(awk -v limit="$1:" -v client="$2" '/^[a-z_]+:/ { in_it = ($1 == limit) }
        in_it && $1 == client { print $6, $7, $8 }' "$work/load")
    [[ $seen == "${*:3}" ]] || fail "$1, $2: printed '$seen', not '${*:3}'"
}

check_load() {
    "$demo/stack.sh" load >"$work/load" 2>"$work/log" || { cat "$work/load" "$work/log" >&2; fail "load failed"; }
    cat "$work/load"
    printed per_client alice 60 20 40
    printed per_client bob 60 20 40
    printed per_client carol 15 15 0
    printed per_client dave 9 9 0
    printed per_client all 144 64 80
    printed whole_site all 200 100 100
}

# Through the published port.
check_port() {
    local address
    address=$(sed -n "s#.*X-Api-Key: alice' \(http://[^ ]*\)#\1#p" "$work/up" | head -1)
    [[ $(curl -s -o "$work/body" -w '%{http_code} %header{ratelimit-policy}' -H 'X-Api-Key: alice' "$address") == \
        '200 "per_client";q=20;w=3600' ]] || fail "no verdict at $address"
}

# Each ends by itself at its signal: no 137.
check_ends() {
    local id
    mapfile -t ids < <(docker ps -q --filter "$ours")
    ((${#ids[@]} == 6)) || fail "${#ids[@]} containers run, not 6"
    for id in "${ids[@]}"; do
        docker update --restart no "$id" >/dev/null
        docker kill --signal "$(docker inspect -f '{{or .Config.StopSignal "SIGTERM"}}' "$id")" "$id" >/dev/null
        [[ $(timeout 20 docker wait "$id") == 0 ]] || fail "not ended well: $(docker inspect -f '{{.Name}} {{.State.ExitCode}}' "$id")"
    done
}

check_nothing_left() {
    local left
    left=$(docker ps -aq --filter "$ours"; docker network ls -q --filter "$ours"; docker volume ls -q --filter "$ours"
        docker images -q "${COMPOSE_PROJECT_NAME}*")
    [[ -z $left ]] || fail "left behind: $left"
}

ours=label=com.docker.compose.project=$COMPOSE_PROJECT_NAME
can_be_tried
is_up=yes
quietly "$demo/stack.sh" up
cp "$work/log" "$work/up"
check_load
check_port
check_load
quietly "$demo/stack.sh" up
check_load
check_ends
quietly "$demo/stack.sh" down
is_up=no
check_nothing_left
