#!/usr/bin/env bash
# The house rules that a grep can check (docs/architecture.md). Prints every offender; exit 1 if there is one.
set -uo pipefail
cd "$(dirname "$0")/.."
broken=0
rule() {  # rule "sentence" OFFENDERS
  [ -z "$2" ] && return
  printf '%s:\n%s\n' "$1" "$2" >&2
  broken=1
}
sources() { git ls-files "$@"; }
rule "asm belongs in templates/ptx" "$(sources templates | grep -v '^templates/ptx/' | xargs grep -nE '\basm\b *(volatile)? *\(' || true)"
rule "getenv belongs in runtime/env.cpp" "$(sources '*.cpp' '*.h' | grep -vE '^(runtime/env.cpp|tests/)' | xargs grep -nE '\bgetenv *\(' || true)"
rule "driver and NVRTC calls belong in runtime" "$(sources generator autotune api tools reference | grep -E '\.(h|cpp)$' | xargs grep -nE '\b(cu[A-Z][A-Za-z]*|nvrtc[A-Z][A-Za-z]*) *\(' || true)"
rule "templates include no toolkit header" "$(sources templates | xargs grep -nE '#include *<' || true)"
rule "a file fits in a head: at most 400 lines" "$(sources '*.h' '*.cpp' '*.c' '*.cuh' '*.cu' '*.py' '*.sh' | while read -r f; do n=$(wc -l <"$f"); [ "$n" -gt 400 ] && echo "$f: $n lines"; done || true)"
exit $broken
