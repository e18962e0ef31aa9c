#!/usr/bin/env bash
# The Rust crate with the library of a build folder: formatting and lints where cargo has them, tests, and the example on the
# sample, whose output must have the bits of `fa2 run`. CARGO names another cargo. Usage: test_rust.sh [BUILD]
set -euo pipefail
cd "$(dirname "$0")/.."
build=$(realpath "${1:-build}") cargo=${CARGO:-cargo}
if ! command -v "$cargo" >/dev/null; then
  # In doctest's words, which run_tests.sh counts.
  printf '%s\n' "MESSAGE: skipped: the Rust crate, because $cargo is not on this machine" "skipped here: 1" "test cases: 1 | 1 passed | 0 failed"
  exit
fi
work=$(mktemp -d); trap 'rm -rf "$work"' EXIT
export FA2_LIB_DIR=$build CARGO_TARGET_DIR=$build/rust FA2_CACHE_DIR=${TEST_KERNEL_CACHE:-$work/kernels} RUSTFLAGS="-D warnings"
cd bindings/rust
has() { "$cargo" "$1" --version >/dev/null 2>&1 || { echo "skipped: $cargo has no $1"; return 1; }; }

! has fmt || "$cargo" fmt --check
! has clippy || "$cargo" clippy --offline --locked --quiet --all-targets
"$cargo" test --offline --locked --no-fail-fast 2>&1 | tee "$work/tests"

inputs=(--q ../../samples/q.npy --k ../../samples/k.npy --v ../../samples/v.npy)
"$cargo" run --offline --locked --quiet --example npy -- "${inputs[@]}" --interpreter --out "$work/rust.npy"
"$build/tools/fa2" run --device interpreter "${inputs[@]}" --out "$work/command.npy"
cmp "$work/rust.npy" "$work/command.npy"

passed=$(awk '/^test result: ok/ { sum += $4 } END { print sum + 1 }' "$work/tests")
echo "test cases: $passed | $passed passed | 0 failed"
