#!/usr/bin/env bash
# Runs every suite of a build folder, prints doctest's totals and ends with "N passed, N failed". Usage: run_tests.sh BUILD
set -uo pipefail
build=$1
log=$(mktemp); trap 'rm -f "$log"' EXIT
failed_suites=0
for suite in unit golden compile gpu; do
  test -x "$build/tests/fa2_${suite}_tests" || continue
  echo "== $suite"
  "$build/tests/fa2_${suite}_tests" 2>&1 | tee -a "$log" | grep -vE '^$'
  [ "${PIPESTATUS[0]}" = 0 ] || failed_suites=$((failed_suites + 1))
done
echo "== package"
package_failed=0
bash "$(dirname "$0")/../tests/package/run.sh" "$(realpath "$(dirname "$0")/..")" "$(realpath "$build")" || package_failed=1
totals=$(sed 's/\x1b\[[0-9;]*m//g' "$log" | sed -n 's/.*test cases: *[0-9]* | *\([0-9]*\) passed | *\([0-9]*\) failed.*/\1 \2/p' |
  awk -v package="$package_failed" '{p += $1; f += $2} END {print p + 1 - package, f + package}')
read -r passed failed <<<"$totals"
[ "$failed_suites" = 0 ] || [ "$failed" != 0 ] || failed=$failed_suites
echo "$passed passed, $failed failed"
[ "$failed" = 0 ]
