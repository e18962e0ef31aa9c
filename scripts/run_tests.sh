#!/usr/bin/env bash
# Runs every suite of a build folder, as many jobs at once as there are cores, and ends with "N passed, N skipped, N failed". A job
# is a suite, or one case of a suite whose cases take seconds. A case that this machine cannot run is skipped, and says why once.
# Compiled kernels are shared. Of the jobs that interpret or compile kernels a 16th run, of those with late copies a 32nd, and of the
# faults a part; part.sh chooses. `all` runs every one of them, `gpu` only the cases of the suite gpu. A job fails after TEST_TIMEOUT
# seconds (600), as one does whose kernel waits for ever.
# Usage: run_tests.sh BUILD [all|gpu]
set -uo pipefail
build=$(realpath "$1") tier=${2:-}
source_dir=$(realpath "$(dirname "$0")/..")
work=$(mktemp -d); trap 'rm -rf "$work"' EXIT
export TEST_KERNEL_CACHE=$work/kernels
mkdir -m 700 "$TEST_KERNEL_CACHE"

# A line a job: title, FA2_INTERPRETER, test case (none: all of them), command.
suite() { echo "$1|early||$build/tests/fa2_$1_tests"; }
cases() {  # cases SUITE MODE [FILTER]
  local number=0 binary=$build/tests/fa2_$1_tests
  while read -r name; do
    echo "$1 $2 $((number += 1))|$2|${name//,/?}|$binary"  # a comma would separate names
  done < <("$binary" --list-test-cases --no-colors "${@:3}" | grep -vE '^(\[doctest\]|=====)')
}
example() {  # example TITLE [ARGUMENTS]: the program that the title's first word names, on the interpreter
  echo "$1|early||env FA2_DEVICE=interpreter FA2_CACHE_DIR=$TEST_KERNEL_CACHE $build/examples/fa2_${1%% *} --tiny --check ${*:2}"
}
part() { bash "$source_dir/scripts/part.sh" "$1" $tier; }
jobs() {
  if [ "$tier" = gpu ]; then cases gpu early; return; fi
  echo "package|early||bash $source_dir/tests/package/run.sh $source_dir $build"
  echo "rust|early||bash $source_dir/scripts/test_rust.sh $build"
  suite unit; suite golden; suite gpu
  echo "faults|early||env FA2_FAULTS=${tier:-part} $build/tests/fa2_faults_tests"
  example train --text "$source_dir/README.md"
  # Ranks are always compared with one, so that few steps without --check do.
  echo "train on ranks|early||env FA2_DEVICE=interpreter FA2_CACHE_DIR=$TEST_KERNEL_CACHE $build/examples/fa2_train --tiny --ranks 2 --steps 4 --text $source_dir/README.md"
  example generate --text "$source_dir/README.md"
  for model in llama-3-8b gemma-2-9b; do example "engine $model" --model $model; done
  example scores --backward
  # The kernels that it contains are all that it needs.
  echo "engine alone|early||env FA2_DEVICE=interpreter FA2_JIT=off FA2_CACHE_DIR=$work/none $build/examples/fa2_engine --tiny --model gemma-2-9b"
  cases compile early | part 16
  # tests/interpreter runs its kernels in every mode by itself.
  cases interpreter early | part 16
  cases interpreter late,seed=1 '--source-file-exclude=*/tests/interpreter/*' | part 32
}

run_job() {
  IFS='|' read -r title mode name command <<<"$1"
  local log="$work/$title.log" started=$SECONDS status=0
  FA2_INTERPRETER=$mode timeout "${TEST_TIMEOUT:-600}" $command ${name:+"--test-case=$name"} >"$log" 2>&1 || status=$?
  # A job without doctest's totals, or that ended before they were printed, is one test. doctest has skipped ones passed.
  local totals passed skipped failed
  totals=$(sed 's/\x1b\[[0-9;]*m//g' "$log" | sed -n 's/.*test cases: *[0-9]* | *\([0-9]*\) passed | *\([0-9]*\) failed.*/\1 \2/p')
  read -r passed failed <<<"${totals:-$((status == 0)) $((status != 0))}"
  [ $((status == 0 && passed > 0)) = 1 ] || [ "$failed" != 0 ] || failed=1
  skipped=${totals:+$(sed -n 's/^skipped here: //p' "$log")}
  passed=$((passed - ${skipped:=0}))
  echo "$passed $skipped $failed" >"$work/$title.totals"
  [ "$failed" = 0 ] || { echo "== $title failed:"; cat "$log"; echo "failed: $title${name:+: $name}" >"$work/$title.failed"; }
  grep '^package:' "$log"
  sed -n '/^fault  /,/^all  /p' "$log"
  printf '%4d s  %3d passed, %d skipped, %d failed  %s%s\n' $((SECONDS - started)) "$passed" "$skipped" "$failed" "$title" "${name:+: $name}"
}
export -f run_job
export work

[ -n "$tier" ] || echo "a 16th of the jobs that interpret kernels or compile them, a 32nd of late copies; make test-long runs all of them"
jobs | xargs -P "$(nproc)" -d '\n' -n 1 bash -c 'run_job "$1"' _
sed -n 's/\x1b\[[0-9;]*m//g; s/.*MESSAGE: \(.*skipped: \)/\1/p' "$work"/*.log | sort -u
read -r passed skipped failed <<<"$(cat "$work"/*.totals | awk '{p += $1; s += $2; f += $3} END {print p, s, f}')"
cat "$work"/*.failed 2>/dev/null
echo "$passed passed, $skipped skipped, $failed failed"
[ "$failed" = 0 ]
