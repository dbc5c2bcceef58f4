#!/bin/bash
# Builds and tests everything, from a bare Debian 12 on; --help says how.
set -euo pipefail

root=$(cd "$(dirname "$0")/.." && pwd)
jobs=$(nproc)
tests_at_once=$((jobs * 2 + 1)) # most of them wait for most of their time
summary=()
failed=0

print_help() {
    cat <<'EOF'
usage: tests/run.sh [--long]

Installs what is missing (as root, or with sudo), builds under build/ and runs all tests:
  release   unit, property, golden and end-to-end tests on what is shipped
  asan      all that needs no HAProxy, under AddressSanitizer and UBSan
With --long also:
  tsan      all that needs no HAProxy, under ThreadSanitizer
  slow      what is labelled long, then a tenth of it under AddressSanitizer and UBSan
  e2e-asan  the end-to-end tests with the agent under AddressSanitizer and UBSan
  demo      haproxy/demo.sh
  e2e-loop  the end-to-end tests five times over
  coverage  tests/coverage.sh
  fuzz      tests/fuzz/run.sh, 20 s for each target
  soak      tests/soak/soak.sh, one minute
  restart   tests/soak/restart.sh
HAPROXY=/path/to/haproxy runs the end-to-end tests on that HAProxy.
Exit code: 0 all passed, 1 something failed, 2 usage.
EOF
}

build() { # PRESET
    echo "== build $1"
    cmake --preset "$1" >"build/$1.log" 2>&1 || { cat "build/$1.log"; return 1; }
    cmake --build --preset "$1" --parallel "$jobs" >"build/$1.log" 2>&1 || { cat "build/$1.log"; return 1; }
}

# Runs a stage of tests and keeps for the summary what ctest says at its end.
run_tests() { # NAME COMMAND...
    local name=$1 log=build/$1-tests.log
    shift
    echo "== test $name"
    if ! "$@" 2>&1 | tee "$log"; then
        failed=1
    fi
    summary+=("-- $name" "$(sed -n '/tests passed/,$p' "$log" | grep . || echo "no result: see $log")")
}

stage() { # PRESET CTEST-ARGUMENT...
    local preset=$1
    shift
    if build "$preset"; then
        run_tests "$preset" ctest --preset "$preset" --parallel "$tests_at_once" "$@"
    else
        summary+=("-- $preset" "did not build: see build/$preset.log")
        failed=1
    fi
}

# Runs a stage that is a script; with KEEP its last KEEP lines go into the summary.
run_script() { # NAME KEEP COMMAND...
    local name=$1 keep=$2 log=build/$1-script.log verdict=passed
    shift 2
    echo "== $name"
    if ! "$@" 2>&1 | tee "$log"; then
        verdict=failed
        failed=1
    fi
    summary+=("-- $name" "$verdict")
    if ((keep > 0)); then
        summary+=("$(tail -n "$keep" "$log")")
    fi
}

run_long() {
    # TSan needs the memory layout that setarch -R gives it.
    if build tsan; then
        run_tests tsan setarch -R ctest --preset tsan --parallel "$tests_at_once" --label-exclude 'e2e|long'
    else
        summary+=("-- tsan" "did not build: see build/tsan.log")
        failed=1
    fi
    bash tests/install.sh service
    export SEED=${SEED:-$(date +%s)}
    echo "== SEED=$SEED from here on"
    run_tests slow ctest --preset release --label-regex long
    run_tests slow-asan env SCALE=0.1 ctest --preset asan --label-regex long --label-exclude e2e
    run_tests e2e-asan ctest --preset asan --parallel "$tests_at_once" --label-regex e2e --label-exclude long
    run_script demo 0 haproxy/demo.sh
    run_tests e2e-loop ctest --preset release --parallel "$tests_at_once" --label-regex e2e --label-exclude long \
        --repeat until-fail:5
    run_script coverage 8 tests/coverage.sh
    run_script fuzz 20 tests/fuzz/run.sh 20
    run_script soak 3 tests/soak/soak.sh --seconds 60
    run_script restart 5 tests/soak/restart.sh
}

long=no
for argument in "$@"; do
    case $argument in
    --long) long=yes ;;
    --help) print_help; exit 0 ;;
    *) print_help >&2; exit 2 ;;
    esac
done

cd "$root"
sets=(build test)
if [[ $long == yes ]]; then
    sets+=(fuzz coverage load)
fi
bash tests/install.sh "${sets[@]}"
mkdir -p build
stage release --label-exclude long
stage asan --label-exclude 'e2e|long'
if [[ $long == yes ]]; then
    run_long
fi

echo "== summary"
printf '%s\n' "${summary[@]}"
exit "$failed"
