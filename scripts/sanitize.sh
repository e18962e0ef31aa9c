#!/usr/bin/env bash
# Builds with clang and runs the unit tests under sanitizers, in parts side by side. Prints the logs of parts that fail. Under ASan runs
# the tests of a quarter of the rooms, which the commit's hash chooses, and under TSan those of the rooms that have threads; with `all` those of
# every room, under TSan but the tools.
# Usage: sanitize.sh address,undefined|thread [all]
set -euo pipefail
cd "$(dirname "$0")/.."
sanitizers=$1 tier=${2:-}
work=$(mktemp -d); trap 'rm -rf "$work"' EXIT
export UBSAN_OPTIONS=halt_on_error=1 work tests
# Clang 14 guesses where thread-local memory of libraries begins, and its search for leaks crashes where it guesses wrong.
export ASAN_OPTIONS=intercept_tls_get_addr=0

run_part() {  # run_part FIRST LAST: cases in random order, so that every part has a few of the long ones
  local log=$work/$1 status=0
  $tests --order-by=rand --rand-seed=1 --first="$1" --last="$2" >"$log" 2>&1 || status=$?
  [ $status = 0 ] || { grep -vE '^\[.* fa2 warning' "$log"; return 1; }
}
export -f run_part

build=build-${sanitizers%%,*} instrumented=$sanitizers
[ "$sanitizers" = thread ] || instrumented+=,fuzzer-no-link  # scripts/fuzz.sh links the same objects
tools=ON tests=$build/tests/fa2_unit_tests
quarters=("api|reference" "autotune|interpreter|parallel|planning" "core|tools" "examples|generator|operation|runtime|tests")  # as long
rooms=""
[ "$tier" = all ] || rooms=$(printf '%s\n' "${quarters[@]}" | bash scripts/part.sh 4)
# These search configs of so many problems that they take minutes, and touch no memory that others do not.
tests+=" --test-case-exclude=deployment:?the?kernels?precompiled*,coverage:?a?pack?for?any?size*,cli?pack:?two?runs?and?two?shards*"
if [ "$sanitizers" = thread ]; then  # without the tools, and without what starts no threads and takes most of the time
  tools=OFF
  [ "$tier" = all ] || rooms="api|autotune|interpreter|parallel|reference|runtime"
  tests+=" --source-file-exclude=*heuristic_test.cpp,*config_space_test.cpp,*trial_tensors_test.cpp,*reference_gradients_test.cpp"
fi
# -O0: the tests run for seconds, compiling them takes minutes. A room is one file to the compiler, which saves it a third of the work.
CC=clang CXX=clang++ cmake -G Ninja -S . -B "$build" -DFA2_SANITIZE="$instrumented" -DCMAKE_BUILD_TYPE=None \
  -DCMAKE_CXX_FLAGS='-O0 -gline-tables-only' -DCMAKE_UNITY_BUILD_BATCH_SIZE=64 -DFA2_BUILD_EXAMPLES=OFF -DFA2_BUILD_TOOLS=$tools \
  -DFA2_UNIT_ROOMS="$rooms" >/dev/null
cmake --build "$build" --target fa2_unit_tests -- --quiet
cases=$($tests --count --no-colors | sed -n 's/.*filters: //p')
part=$(((cases + 7) / 8))
seq 1 "$part" "$cases" | xargs -P "$(nproc)" -I{} bash -c "run_part {} \$(({} + $part - 1))"
echo "none of $cases test cases failed under $sanitizers"
