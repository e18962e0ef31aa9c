#!/usr/bin/env bash
# Builds with clang and runs the unit tests under sanitizers. Usage: sanitize.sh [address,undefined] [thread]; default: both.
set -euo pipefail
cd "$(dirname "$0")/.."
[ $# -gt 0 ] || set -- address,undefined thread
for sanitizers in "$@"; do
  echo "== unit tests under $sanitizers"
  build=build-${sanitizers%%,*}
  # -O0: the tests run for seconds, compiling them takes minutes.
  CC=clang CXX=clang++ cmake -G Ninja -S . -B "$build" -DFA2_SANITIZE="$sanitizers" -DCMAKE_BUILD_TYPE=None \
    -DCMAKE_CXX_FLAGS='-O0 -gline-tables-only' -DFA2_BUILD_EXAMPLES=OFF >/dev/null
  cmake --build "$build" --target fa2_unit_tests -- --quiet
  UBSAN_OPTIONS=halt_on_error=1 "$build/tests/fa2_unit_tests" 2>&1 | grep -vE '^\[.* fa2 warning' | tail -30
done
