#!/bin/bash
# stack.sh COMMAND: two HAProxy, two agents that count in one Redis, and clients that are limited,
# in containers; --help says how.
set -euo pipefail

here=$(cd "$(dirname "$0")" && pwd)
base_images=(debian:12-slim haproxy:2.6 redis:7)

print_help() {
    cat <<'EOF'
usage: haproxy/demo/stack.sh COMMAND

  up      builds the agent and starts all that compose.yaml has, anew
  load    drives clients through both proxies and prints who was limited
  down    stops all of it, and removes containers, networks, volumes, images
  bases   where no image registry can be reached: makes debian:12-slim, haproxy:2.6
          and redis:7 from Debian's packages (as root, with debootstrap)

Needs Docker, with docker compose or docker-compose 1.29. The proxies are published
on 127.0.0.1, ports DEMO_PORT_A (18090) and DEMO_PORT_B (18091).
Exit code: 0 done, and load saw exactly the limits; 1 not; 2 usage.
EOF
}

say() {
    printf '\n== %s\n' "$*"
}

fail() {
    echo "stack.sh: $*" >&2
    exit 1
}

compose() { # ARGUMENT...
    "${compose_command[@]}" -f "$here/compose.yaml" "$@"
}

find_compose() {
    docker version >/dev/null 2>&1 || fail "no answer from Docker; docker version says why"
    if docker compose version >/dev/null 2>&1; then
        compose_command=(docker compose)
    elif command -v docker-compose >/dev/null; then
        compose_command=(docker-compose)
    else
        fail "neither docker compose nor docker-compose is there"
    fi
}

# Anew: a proxy looks up its agents' addresses only when it starts, and an old volume would have
# the users of an old agent.
up() {
    say "Building the agent"
    compose --profile load build
    say "Starting"
    compose down --volumes --remove-orphans
    compose up -d
    say "Running. Limits of a client, by hand:"
    echo "curl -i -H 'X-Api-Key: alice' http://$(compose port proxy-a 8080)/v1/things"
    echo "curl -i -H 'X-Api-Key: alice' http://$(compose port proxy-b 8080)/v1/things"
}

load() {
    [[ -n $(compose ps -q proxy-a) ]] || fail "nothing runs; start it: $0 up"
    compose run --rm -T --no-deps client
}

down() {
    compose --profile load down --volumes --rmi local --remove-orphans
    docker image prune --force --filter label=ratelimit-demo=build >/dev/null
}

is_there() { # IMAGE
    docker image inspect "$1" >/dev/null 2>&1
}

# As official images have it: nothing is started because a package is installed.
make_debian() {
    command -v debootstrap >/dev/null || fail "debootstrap is not there; tests/install.sh service installs it"
    ((EUID == 0)) || fail "only root can run debootstrap"
    debian=$(mktemp -d "${TMPDIR:-/var/tmp}/debian.XXXXXX")
    trap 'rm -rf --one-file-system "$debian"' EXIT
    debootstrap --variant=minbase bookworm "$debian" >"$debian.log" || fail "debootstrap failed; see $debian.log"
    rm "$debian.log"
    printf '#!/bin/sh\nexit 101\n' >"$debian/usr/sbin/policy-rc.d"
    chmod 755 "$debian/usr/sbin/policy-rc.d"
    rm -rf "$debian"/var/cache/apt/archives/*.deb "$debian"/var/lib/apt/lists/*
    tar -C "$debian" -c . | docker import --change 'CMD ["bash"]' - debian:12-slim
}

make_from_package() { # IMAGE PACKAGE
    docker build -t "$1" - <<EOF
FROM debian:12-slim
RUN apt-get -q update \
    && apt-get -q -y --no-install-recommends install $2 \
    && rm -rf /var/lib/apt/lists/*
EOF
}

bases() {
    local image
    for image in "${base_images[@]}"; do
        if is_there "$image"; then
            say "$image is there already"
            continue
        fi
        say "Making $image"
        case $image in
        debian:*) make_debian ;;
        haproxy:*) make_from_package "$image" haproxy ;;
        redis:*) make_from_package "$image" redis-server ;;
        esac
    done
    say "docker rmi ${base_images[*]} removes them"
}

case ${1:-} in
up | load | down | bases) ;;
--help)
    print_help
    exit 0
    ;;
*)
    print_help >&2
    exit 2
    ;;
esac
find_compose
"$1"
