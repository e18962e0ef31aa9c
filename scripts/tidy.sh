#!/usr/bin/env bash
# clang-tidy over the library's sources. Usage: tidy.sh BUILD (a folder with compile_commands.json)
set -euo pipefail
cd "$(dirname "$0")/.."
git ls-files 'generator/*.cpp' 'runtime/*.cpp' 'interpreter/*.cpp' 'autotune/*.cpp' 'api/*.cpp' |
  xargs -P "$(nproc)" -n 4 clang-tidy --quiet --extra-arg=-Wno-unknown-warning-option -p "$1" 2>/dev/null
