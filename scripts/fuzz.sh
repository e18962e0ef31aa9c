#!/usr/bin/env bash
# Fuzzes what parses bytes from disk or from a user (tests/fuzz), under ASan and UBSan, and prints a table. The seeds are the
# programs' own, and the random numbers are the same in every run. Inputs that fail stay in FUZZ_BUILD/failures, and
# `FUZZ_BUILD/tests/fa2_fuzz_TARGET FILE` runs one again.
# Usage: fuzz.sh [EXECUTIONS] [TARGET]    (default: 1000000 executions of each target)
# Example: fuzz.sh 20000 cache_entry
# FUZZ_BUILD: folder of a build with clang and -DFA2_SANITIZE=address,undefined,fuzzer-no-link (default: build-fuzz, which is made)
set -euo pipefail
cd "$(dirname "$0")/.."
case ${1:-} in -h | --help) sed -n '2,/^set/s/^# //p' "$0"; exit ;; esac
executions=${1:-1000000} only=${2:-}
build=${FUZZ_BUILD:-build-fuzz}
# Clang 14 guesses where thread-local memory of libraries begins, and its search for leaks crashes where it guesses wrong.
export ASAN_OPTIONS=intercept_tls_get_addr=0 UBSAN_OPTIONS=halt_on_error=1:print_stacktrace=1

if [ ! -f "$build/build.ninja" ]; then
  CC=clang CXX=clang++ cmake -G Ninja -S . -B "$build" -DFA2_SANITIZE=address,undefined,fuzzer-no-link -DCMAKE_BUILD_TYPE=None \
    -DCMAKE_CXX_FLAGS='-O1 -gline-tables-only' -DFA2_BUILD_EXAMPLES=OFF >/dev/null
fi
cmake --build "$build" --target "fa2_fuzz${only:+_$only}" -- --quiet
mkdir -p "$build/failures"

fuzz() {  # fuzz TARGET: prints its row; fails if an input does
  local target=$1 corpus log=$build/failures/$1.log status=0 started=$SECONDS
  corpus=$(mktemp -d)
  FA2_FUZZ_SEEDS=$corpus "$build/tests/fa2_fuzz_$target"
  local seeds; seeds=$(find "$corpus" -type f | wc -l)
  "$build/tests/fa2_fuzz_$target" -runs="$executions" -seed=1 -max_len=4096 -timeout=20 -rss_limit_mb=2048 -print_final_stats=1 \
    -artifact_prefix="$build/failures/$target-" "$corpus" >"$log" 2>&1 || status=$?
  local done covered
  done=$(sed -n 's/^stat::number_of_executed_units: *//p' "$log")
  covered=$(sed -n 's/.* cov: \([0-9]*\) .*/\1/p' "$log" | tail -1)
  printf '%-18s %6d %11s %8s %6d %6d  %s\n' "$target" "$seeds" "${done:-?}" "${covered:-?}" "$(find "$corpus" -type f | wc -l)" \
    $((SECONDS - started)) "$([ $status = 0 ] && echo ok || echo "failed: $log")"
  rm -rf "$corpus"
  return $status
}
export -f fuzz; export build executions

printf '%-18s %6s %11s %8s %6s %6s\n' target seeds executions covered corpus s
for source in tests/fuzz/${only:-*}.cpp; do basename "$source" .cpp; done | xargs -P "${FUZZ_JOBS:-$(nproc)}" -I{} bash -c "fuzz {}"
