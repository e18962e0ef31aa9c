#!/usr/bin/env bash
# Runs every suite of a build folder, prints doctest's totals and ends with "N passed, N failed". Usage: run_tests.sh BUILD
set -uo pipefail
build=$1
log=$(mktemp); trap 'rm -f "$log"' EXIT
failed_suites=0
run() {  # run SUITE TITLE
  test -x "$build/tests/fa2_$1_tests" || return
  echo "== $2"
  "$build/tests/fa2_$1_tests" 2>&1 | tee -a "$log" | grep -vE '^$'
  [ "${PIPESTATUS[0]}" = 0 ] || failed_suites=$((failed_suites + 1))
}
for suite in unit golden compile gpu; do run "$suite" "$suite"; done
for options in early late,seed=1; do FA2_INTERPRETER=$options run interpreter "interpreter, $options"; done
echo "== package"
package_failed=0
bash "$(dirname "$0")/../tests/package/run.sh" "$(realpath "$(dirname "$0")/..")" "$(realpath "$build")" || package_failed=1
totals=$(sed 's/\x1b\[[0-9;]*m//g' "$log" | sed -n 's/.*test cases: *[0-9]* | *\([0-9]*\) passed | *\([0-9]*\) failed.*/\1 \2/p' |
  awk -v package="$package_failed" '{p += $1; f += $2} END {print p + 1 - package, f + package}')
read -r passed failed <<<"$totals"
[ "$failed_suites" = 0 ] || [ "$failed" != 0 ] || failed=$failed_suites
echo "$passed passed, $failed failed"
[ "$failed" = 0 ]
