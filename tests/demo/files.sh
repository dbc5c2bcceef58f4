#!/bin/bash
# files.sh: the files of haproxy/demo/, each by what reads it: $AGENT, HAProxy, docker-compose.
set -euo pipefail

here=$(cd "$(dirname "$0")" && pwd)
root=${here%/tests/demo}
demo=$root/haproxy/demo

fail() {
    echo "files.sh: $*" >&2
    exit 1
}

# What compose.yaml sets for the proxies, with addresses that are known here.
read_environment() {
    local line
    environment=(RATELIMIT_AGENT=127.0.0.1:9911 RATELIMIT_SECOND_AGENT=127.0.0.1:9912)
    while read -r line; do
        environment+=("$line")
    done < <(sed -n 's/^  \(RATELIMIT_[A-Z_]*\): "\{0,1\}\([^"]*\)"\{0,1\}$/\1=\2/p' "$demo/compose.yaml" |
        sed 's/=echo:/=127.0.0.1:/')
    ((${#environment[@]} == 8)) || fail "not the proxies' environment: ${environment[*]}"
}

check_rules() {
    env "${environment[@]}" "$AGENT" check "$demo/rules.yaml" -c "$demo/agent.yaml" \
        --spoe "$root/haproxy/spoe-ratelimit.conf" --strict
}

check_haproxy() {
    local said
    said=$(env "${environment[@]}" haproxy -c -f "$root/haproxy/haproxy.cfg" 2>&1) || fail "proxies: $said"
    said=$(haproxy -c -f "$demo/echo.cfg" 2>&1) || fail "echo: $said"
}

# The bases that stack.sh knows how to make are all there are.
check_images() {
    diff <(sed -n 's/^base_images=(\(.*\))$/\1/p' "$demo/stack.sh" | tr ' ' '\n' | sort) \
        <(sed -n 's/^ *image: //p; s/^FROM \([^ ]*\).*/\1/p' "$demo/compose.yaml" "$demo/Dockerfile" | sort -u) ||
        fail "other images are made (<) than used (>)"
}

# Each library that the agent is linked with is installed in its image, by the package's name
# in the Debian of the image.
check_libraries() {
    local library package files=()
    # shellcheck source=/dev/null
    [[ $(. /etc/os-release && echo "$ID$VERSION_ID") == debian12 ]] || return 0
    for library in $(objdump -p "$AGENT" | awk '$1 == "NEEDED" { print $2 }'); do
        files+=("*$(ldd "$AGENT" | awk -v library="$library" '$1 == library { sub("^/usr", "", $3); print $3 }')")
    done
    for package in $(dpkg -S "${files[@]}" | sed 's/:.*//' | sort -u); do
        case $package in
        libc6 | libasan* | libubsan* | libtsan*) ;;
        *) grep -qwF -- "$package" "$demo/Dockerfile" || fail "Dockerfile does not install $package, which the agent needs" ;;
        esac
    done
}

check_compose() {
    if command -v docker-compose >/dev/null; then
        docker-compose -f "$demo/compose.yaml" --profile load config --quiet
    else
        echo "docker-compose is not there: compose.yaml is not read"
    fi
}

read_environment
check_rules
check_haproxy
check_images
check_libraries
check_compose
