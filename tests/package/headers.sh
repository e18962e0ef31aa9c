#!/usr/bin/env bash
# Compiles each public header alone and without warnings: C++ headers as C++17 and C++20, C headers as C99 and C++17.
# Usage: headers.sh SOURCE_DIR
set -euo pipefail
include=$1/include

compile() {  # compile COMPILER LANGUAGE STANDARD HEADER
  printf '#include <fa2/%s>\nextern int used;\n' "$4" | "$1" -x "$2" -std="$3" -I"$include" -Wall -Wextra -Wpedantic -pedantic -Werror -fsyntax-only - ||
    { echo "package: $4 does not compile on its own by $1 -std=$3" >&2; return 255; }
}
export -f compile
export include

compilations() {
  local header pair
  for pair in "gcc g++" "clang clang++"; do
    read -r c cxx <<<"$pair"
    if ! command -v "$c" "$cxx" >/dev/null; then
      echo "package: $c compiles no header: it is not installed" >&2
      continue
    fi
    for header in "$include"/fa2/*.h; do
      header=$(basename "$header")
      case $header in
        c_*|version.h) echo "$c c c99 $header"; echo "$cxx c++ c++17 $header" ;;
        *) echo "$cxx c++ c++17 $header"; echo "$cxx c++ c++20 $header" ;;
      esac
    done
  done
}
compilations | xargs -P "$(nproc)" -L 1 bash -c 'compile "$@"' _
