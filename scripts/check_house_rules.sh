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
# Every room is looked at; tests, which try out what is forbidden, only for the size of files.
sources() { git ls-files '*.h' '*.cpp' '*.c' '*.cuh' '*.cu' | grep -v '^tests/'; }
all_but() { sources | grep -vE "^($1)"; }
offenders() { xargs grep -nE "$1" || true; }
long_functions() {  # long_functions MOST: bodies of more lines, by the formatter's indents
  xargs awk -v most="$1" '
    FNR == 1 { opening = ""; begin = 0 }
    !begin && opening == "" && /^(  )?[A-Za-z_~].*\(/ && !/^ *(if|for|while|switch|return|do|else|using|namespace)[ (]/ {
      match($0, /^ */); indent = RLENGTH; opening = $0
    }
    begin && match($0, /^ */) && RLENGTH == indent && /^ *}/ {
      if (FNR - begin - 1 > most) print FILENAME ":" begin ": " FNR - begin - 1 " lines: " opening
      begin = 0; opening = ""; next
    }
    !begin && opening != "" && /{$/ { begin = FNR; next }
    !begin && opening != "" && /[;}]$/ { opening = "" }'
}
lengths() { git ls-files '*.h' '*.cpp' '*.c' '*.cuh' '*.cu' '*.py' '*.rs' '*.sh' | xargs wc -l | grep -v ' total$'; }

rule "asm belongs in templates/ptx, or is rendered by wgmma_shapes.cpp and, to keep time, clocked_source.h; or nvcc compiles it: emulated_peer.cu" \
  "$(all_but 'templates/ptx/|generator/wgmma_shapes\.cpp|bench/clocked_source\.h|bench/emulated_peer\.cu' | offenders '\basm\b *(volatile)? *\(')"
rule "getenv belongs in runtime/env.cpp" "$(all_but 'runtime/env\.cpp' | offenders '\bgetenv *\(')"
rule "driver and NVRTC calls belong in runtime" \
  "$(all_but 'runtime/' | offenders '\b(cu[A-Z][A-Za-z]*|nvrtc[A-Z][A-Za-z]*) *\(')"
rule "toolkit headers belong in runtime" "$(all_but 'runtime/|bench/emulated_peer\.cu' | offenders '#include *[<"](cu[a-z_]*|nvrtc|vector_types|nv/[^>]*)(\.h)?[>"]')"
rule "templates include no system header" "$(sources | grep '^templates/' | offenders '#include *<')"
rule "the library neither prints nor exits: it throws, or logs by runtime/log.h" \
  "$(all_but 'tools/|bench/|examples/|samples/' | offenders 'std::(cout|cerr|exit)\b|fmt::print\b|\b(printf|exit|_exit|abort) *\(')"
rule "reference/ includes nothing that it checks" \
  "$(git ls-files reference | offenders '#include *<(generator|runtime|interpreter|autotune|operation|planning|parallel|api|tools)/')"
rule "rows say what a call takes: bindings name no tensor of it" \
  "$(sources | grep -E '^(api|python/src)/' | offenders '\b(alibi_slopes|dropout_state|cu_seqlens_[qk]|seqused_[qk]|page_table)\b')"
rule "a name says what a thing is, not that it helps" \
  "$(sources | offenders '\b(class|struct) [A-Za-z]*(Manager|Helper|Utils?|Info)\b')"
rule "a host function has fewer than 40 lines, but for lists of rows" \
  "$(sources | grep -E '\.(h|cpp)$' | long_functions 39 | grep -v 'static constexpr auto rows(' )"
rule "a device function has fewer than 60 lines" "$(sources | grep -E '\.cuh?$' | long_functions 59)"
rule "a file fits in a head: at most 400 lines" "$(lengths | awk '$1 > 400')"
rule "half of the files have fewer than 150 lines" \
  "$(lengths | sort -n | awk '{ n[NR] = $1 } END { if (n[int((NR + 1) / 2)] >= 150) print "the median is " n[int((NR + 1) / 2)] }')"
rule "a relative link leads to a file, and to one of its headings" "$(git ls-files '*.md' | xargs python3 scripts/check_links.py)"
exit $broken
