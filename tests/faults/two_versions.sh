#!/usr/bin/env bash
# Lets the fa2 commands of an older commit and of a build share one cache directory: each precompiles into it, verifies and prunes
# it, and neither may change or remove a file of the other. Builds the older command first, which takes minutes. Needs NVRTC.
# Usage: two_versions.sh COMMIT BUILD [SCRATCH]    SCRATCH keeps the older build for the next run
# Example: tests/faults/two_versions.sh HEAD~100 build /tmp/older
set -euo pipefail
source_dir=$(realpath "$(dirname "$0")/../..")
commit=$1 new=$(realpath "$2")/tools/fa2
scratch=${3:-$(mktemp -d)}
[ $# -ge 3 ] || trap 'rm -rf "$scratch"' EXIT
mkdir -p "$scratch/source"

git -C "$source_dir" archive "$commit" | tar -x -C "$scratch/source"
cmake -G Ninja -S "$scratch/source" -B "$scratch/build" -DFA2_BUILD_TESTS=OFF -DFA2_BUILD_EXAMPLES=OFF >/dev/null
cmake --build "$scratch/build" --target fa2_command -- --quiet
old=$scratch/build/tools/fa2 shared=$scratch/shared
rm -rf "$shared"

sums() { find "$shared" -name '*.fa2k' -exec sha256sum {} + | sort; }
fail() { echo "two versions: $1" >&2; exit 1; }
steps=0
step() {  # step SUMS COMMAND...: runs it; every file that was there must still be there, unchanged
  local before=$1; shift
  "$@" >/dev/null || fail "failed: $*"
  [ -z "$(comm -23 <(echo "$before") <(sums))" ] || fail "files changed or disappeared: $*"
  steps=$((steps + 1))
}
mkdir -m 700 "$shared"
for round in 1 2; do
  for fa2 in "$old" "$new"; do
    # Round 2 finds everything there, but for the head dim, which is another.
    step "$(sums)" "$fa2" precompile --arch sm_80 --head-dim $((32 * round)) --dtype f16 --causal no --out "$shared"
    for other in "$old" "$new"; do
      step "$(sums)" "$other" cache verify --dir "$shared"
      step "$(sums)" "$other" cache prune --dir "$shared" --max-mb 4000
    done
  done
done
echo "two versions: $steps steps, $(sums | wc -l) kernels in one directory, none changed or lost"
