#!/usr/bin/env bash
# clang-tidy over the library's sources: those that the commit changes, and a sixth of the others, which part.sh chooses; with `all`
# over all. Without precompiled headers and unity builds, so that each file must include what it uses. Usage: tidy.sh [all]
set -euo pipefail
cd "$(dirname "$0")/.."
tier=${1:-}
CC=clang CXX=clang++ cmake -G Ninja -S . -B build-tidy -DCMAKE_DISABLE_PRECOMPILE_HEADERS=ON -DCMAKE_UNITY_BUILD=OFF -DFA2_BUILD_TESTS=OFF \
  -DFA2_BUILD_EXAMPLES=OFF -DFA2_BUILD_TOOLS=OFF >/dev/null
sources() { git ls-files {core,generator,runtime,interpreter,autotune,operation,planning,parallel,api}/'*.cpp'; }
changed() { git diff --name-only HEAD~1 2>/dev/null | grep -Fxf <(sources) || true; }
# -Wreserved-identifier is clang's own bugprone-reserved-identifier, which takes a sixth of the time.
{ changed; sources | bash scripts/part.sh 6 $tier; } | sort -u |
  xargs -P "$(nproc)" -n 4 clang-tidy --quiet --checks=-bugprone-reserved-identifier \
    --extra-arg=-Wno-unknown-warning-option --extra-arg=-Wreserved-identifier -p build-tidy 2>/dev/null
