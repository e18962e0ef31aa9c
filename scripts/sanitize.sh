#!/usr/bin/env bash
# Builds and runs the unit tests under AddressSanitizer with UndefinedBehaviorSanitizer, then under ThreadSanitizer.
set -euo pipefail
cd "$(dirname "$0")/.."
for sanitizers in address,undefined thread; do
  echo "== unit tests under $sanitizers"
  build=build-${sanitizers%%,*}
  cmake -G Ninja -S . -B "$build" -DFA2_SANITIZE="$sanitizers" -DCMAKE_BUILD_TYPE=None -DCMAKE_CXX_FLAGS=-O1 -DFA2_BUILD_EXAMPLES=OFF >/dev/null
  cmake --build "$build" --target fa2_unit_tests >/dev/null
  UBSAN_OPTIONS=halt_on_error=1 "$build/tests/fa2_unit_tests" | tail -3
done
