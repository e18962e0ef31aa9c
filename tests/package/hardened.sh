#!/usr/bin/env bash
# Checks that binaries have the properties that cmake/hardening.cmake sets. Usage: hardened.sh SOURCE_DIR BINARY...
set -euo pipefail
source_dir=$1
shift
for binary in "$@"; do
  fail() { echo "package: $binary $1" >&2; exit 1; }
  dynamic=$(readelf -dW "$binary") segments=$(readelf -lW "$binary") symbols=$(nm -D "$binary") text=$(strings -a "$binary")
  grep -qE 'BIND_NOW|Flags:.* NOW' <<<"$dynamic" || fail "must bind its symbols when it is loaded: -z now"
  grep -q GNU_RELRO <<<"$segments" || fail "must make its relocations read-only: -z relro"
  grep -qE 'GNU_STACK .* RW ' <<<"$segments" || fail "must not have an executable stack: -z noexecstack"
  # Zig links the function that a broken guard calls. Then the guards themselves are visible as reads from thread-local
  # memory.
  grep -q ' U __stack_chk_fail' <<<"$symbols" || objdump -d "$binary" | grep '%fs:0x28' >/dev/null || fail "must guard its stack: -fstack-protector-strong"
  case $binary in *_core*) ;; *) # _core calls no function that could be checked
    grep -qE ' U __(memcpy|v?snprintf|v?fprintf)_chk' <<<"$symbols" || fail "must check the buffers of C's functions: _FORTIFY_SOURCE" ;;
  esac
  if grep -F "$source_dir/" <<<"$text"; then fail "must not contain the paths above: -ffile-prefix-map"; fi
done
