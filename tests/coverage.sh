#!/bin/bash
# Says which lines the tests run, and fails where they run too few; --help says how.
set -euo pipefail

root=$(cd "$(dirname "$0")/.." && pwd)
build=$root/build/coverage
lines_min=95
gated=(spop rules agent/limit)
reported=(agent/store agent/decide agent/observe agent/net agent/control)

print_help() {
    cat <<EOT
usage: tests/coverage.sh [--missing]

Builds the preset coverage, runs unit, property, golden and corpus tests, and prints line coverage
by folder (needs gcovr). Fails under $lines_min % in one of: ${gated[*]}.
With --missing it names the lines that were not run.
Exit code: 0 enough, 1 too few or a test failed, 2 usage.
EOT
}

fail() {
    echo "coverage.sh: $1" >&2
    tail -n 50 "$2" >&2
    exit 1
}

build_and_test() {
    cd "$root"
    mkdir -p build
    cmake --preset coverage >build/coverage.log 2>&1 || fail "cmake failed:" build/coverage.log
    cmake --build --preset coverage >build/coverage.log 2>&1 || fail "the build failed:" build/coverage.log
    find "$build" -name '*.gcda' -delete
    ctest --preset coverage --parallel "$(nproc)" --label-exclude 'e2e|long' \
        >build/coverage.log 2>&1 || fail "tests failed:" build/coverage.log
}

collect() {
    gcovr --root . --object-directory "$build" --filter spop/ --filter rules/ --filter agent/ \
        --json "$build/all.json" >build/coverage.log 2>&1 || fail "gcovr failed:" build/coverage.log
}

# Prints a folder's share of lines that were run; false when it is under the least.
report() { # FOLDER LEAST
    local summary rc=0
    summary=$(gcovr --root . --add-tracefile "$build/all.json" --filter "$1/" --print-summary \
        --fail-under-line "$2" --output /dev/null 2>/dev/null) || rc=$?
    printf '%-14s %s\n' "$1" "$(sed -n 's/^lines: //p' <<<"$summary")"
    ((rc == 0)) || echo "    under $2 %: tests/coverage.sh --missing names the lines"
    return "$rc"
}

list_missing() {
    gcovr --root . --add-tracefile "$build/all.json" | sed -n '/^File/,$p'
}

missing=no
case ${1:-} in
'') ;;
--missing) missing=yes ;;
--help) print_help; exit 0 ;;
*) print_help >&2; exit 2 ;;
esac

build_and_test
collect
failed=0
for folder in "${gated[@]}"; do
    report "$folder" "$lines_min" || failed=1
done
for folder in "${reported[@]}"; do
    report "$folder" 0
done
if [[ $missing == yes ]]; then
    list_missing
fi
exit "$failed"
