#!/usr/bin/env bash
# Runs GPU tests under compute-sanitizer's four tools, side by side. Usage: gpu_sanitize.sh path/to/fa2_gpu_tests ['test case,pattern*,...']
set -uo pipefail
tests=$1
cases=${2:-'any layout*,every configuration computes bf16*,every configuration computes misaligned*,scales*,with one key*,without a key*,forward_sm90 and more tiles*,forward_sm90 and scores*'}
logs=$(mktemp -d); trap 'rm -rf "$logs"' EXIT

check() {  # check TOOL
  local log=$logs/$1 status=0
  # Errors of the API are what some of the tests provoke, and check.
  timeout 280 compute-sanitizer --tool "$1" --report-api-errors no --error-exitcode 9 --print-limit 5 "$tests" -tc="$cases" >"$log" 2>&1 || status=$?
  echo "$1: exit status $status; $(grep -E 'ERROR SUMMARY|RACECHECK SUMMARY' "$log" | tail -1 | sed 's/=* *//'); $(grep 'test cases:' "$log" | tail -1)"
  [ $status = 0 ] || head -40 "$log"
  return $status
}

checks=()
for tool in memcheck racecheck initcheck synccheck; do check "$tool" & checks+=($!); done
failed=0
for check in "${checks[@]}"; do wait "$check" || failed=1; done
exit $failed
