#!/bin/bash
# Searches with the fuzz targets, one after the other; --help says how.
set -euo pipefail

here=$(cd "$(dirname "$0")" && pwd)
root=$(cd "$here/../.." && pwd)
build=$root/build/fuzz
jobs=1
failed=0

print_help() {
    cat <<'EOT'
usage: tests/fuzz/run.sh [--jobs N] SECONDS [TARGET...]

Builds the preset fuzz (needs clang) and runs each target, or the named ones, for SECONDS, in N
processes (default 1). Starts from tests/fuzz/corpus/TARGET and what earlier runs left in
build/fuzz/found/TARGET. Prints executions and findings; a finding is a file in
build/fuzz/findings, named after its target, and belongs into the corpus once it is mended.
Exit code: 0 no finding, 1 a finding or a target that did not run, 2 usage.
EOT
}

list_targets() {
    local source
    for source in "$here"/fuzz_*.c; do
        source=${source##*/fuzz_}
        echo "${source%.c}"
    done
}

build_targets() {
    cd "$root"
    mkdir -p build
    if ! { cmake --preset fuzz && cmake --build --preset fuzz; } >build/fuzz.log 2>&1; then
        tail -n 50 build/fuzz.log
        exit 1
    fi
}

# libFuzzer says "Done N runs" when it ran alone, else a line "#N: ..." a second.
executions() { # LOG
    sed -n -e 's/^Done \([0-9]*\) runs.*/\1/p' -e 's/^#\([0-9]*\): .*/\1/p' "$1" | tail -n 1
}

count_findings() { # TARGET
    find "$build/findings" -name "$1-*" | wc -l
}

search() { # TARGET
    local target=$1 found=$build/found/$1 log=$build/$1.log rc=0 n_before n
    local prefix=$build/findings/$1- options=(-max_total_time="$seconds" -timeout=10)
    mkdir -p "$found" "$build/findings"
    if ((jobs > 1)); then
        options+=(-fork="$jobs" -ignore_crashes=0)
    fi
    n_before=$(count_findings "$target")
    "$build/tests/fuzz/fuzz_$target" "${options[@]}" -artifact_prefix="$prefix" \
        "$found" "$here/corpus/$target" >"$log" 2>&1 || rc=$?
    n=$(($(count_findings "$target") - n_before))
    printf '%-10s %6s s %12s executions %3s findings\n' "$target" "$seconds" "$(executions "$log")" "$n"
    if ((rc != 0 || n > 0)); then
        failed=1
        tail -n 30 "$log"
    fi
}

while [[ ${1:-} == --* ]]; do
    case $1 in
    --jobs) jobs=${2:?"--jobs N"}; shift 2 ;;
    --help) print_help; exit 0 ;;
    *) print_help >&2; exit 2 ;;
    esac
done
seconds=${1:-}
if [[ ! $seconds =~ ^[1-9][0-9]*$ || ! $jobs =~ ^[1-9][0-9]*$ ]]; then
    print_help >&2
    exit 2
fi
shift
targets=("$@")
if ((${#targets[@]} == 0)); then
    mapfile -t targets < <(list_targets)
fi
for target in "${targets[@]}"; do
    if [[ ! -e $here/fuzz_$target.c ]]; then
        echo "run.sh: there is no target $target; there are: $(list_targets | tr '\n' ' ')" >&2
        exit 2
    fi
done
build_targets
for target in "${targets[@]}"; do
    search "$target"
done
exit "$failed"
