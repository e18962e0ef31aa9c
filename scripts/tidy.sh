#!/usr/bin/env bash
# clang-tidy over the library's sources. Usage: tidy.sh BUILD (a folder with compile_commands.json)
set -euo pipefail
cd "$(dirname "$0")/.."
# Without precompiled headers, which have every file read what only some include.
commands=$(mktemp -d); trap 'rm -rf "$commands"' EXIT
sed -E 's/-Winvalid-pch( -Xclang [^ ]+)+//' "$1/compile_commands.json" >"$commands/compile_commands.json"
# -Wreserved-identifier is clang's own bugprone-reserved-identifier, which takes a sixth of the time.
git ls-files 'generator/*.cpp' 'runtime/*.cpp' 'interpreter/*.cpp' 'autotune/*.cpp' 'operation/*.cpp' 'api/*.cpp' |
  xargs -P "$(nproc)" -n 4 clang-tidy --quiet --checks=-bugprone-reserved-identifier \
    --extra-arg=-Wno-unknown-warning-option --extra-arg=-Wreserved-identifier -p "$commands" 2>/dev/null
