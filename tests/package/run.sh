#!/usr/bin/env bash
# The library as its users meet it: installed and found, or added as a subdirectory. Usage: run.sh SOURCE_DIR BUILD_DIR
set -euo pipefail
source_dir=$1 build_dir=$2
work=$(mktemp -d); trap 'rm -rf "$work"' EXIT
consumer=$source_dir/tests/package/consumer.cpp

fail() { echo "package: $1" >&2; exit 1; }

# 1. What the shared library asks of a machine, and what it shows.
library=$build_dir/libfa2.so
needed=$(readelf -d "$library" | sed -n 's/.*(NEEDED).*\[\(.*\)\]/\1/p')
if grep -E 'cuda|nvrtc|spdlog|fmt' <<<"$needed"; then fail "libfa2.so must not need the libraries above"; fi
python3 "$source_dir/tests/package/full_static_tls.py" "$library" "$work" || fail "libfa2.so cannot be loaded after much else has been"
foreign=$(nm -D --defined-only "$library" | awk '{print $3}' | c++filt | grep -vE '^(fa2_|(typeinfo|typeinfo name|vtable) for fa2::|fa2::)' || true)
[ -z "$foreign" ] || fail "libfa2.so exports symbols that are not fa2's: $foreign"
strip -o "$work/stripped.so" "$library"
bytes=$(stat -c %s "$work/stripped.so")
[ "$bytes" -le 4194304 ] || fail "libfa2.so is $bytes bytes stripped, at most 4 MiB are allowed"
echo "package: libfa2.so needs $(tr '\n' ' ' <<<"$needed")and is $bytes bytes stripped"

cached() { sed -n "s/^$1:[A-Z]*=//p" "$build_dir/CMakeCache.txt"; }
if [ "$(cached FA2_HARDENING) $(cached CMAKE_BUILD_TYPE)$(cached FA2_SANITIZE)" = "ON Release" ]; then
  hardened=("$library")
  [ ! -f "$build_dir/tools/fa2" ] || hardened+=("$build_dir/tools/fa2")
  bash "$source_dir/tests/package/hardened.sh" "$source_dir" "${hardened[@]}"
  echo "package: hardened: ${hardened[*]#"$build_dir/"}"
else
  echo "package: hardening is not checked: this is no Release with FA2_HARDENING"
fi

for carried in fmt spdlog nlohmann-json xxHash Boost.Context CLI11; do
  grep -q "^$carried " "$source_dir/NOTICE" || fail "NOTICE must name $carried, which binaries contain"
done

# docs/architecture.md: before 1.0 the SONAME has the minor version, from then on the major one alone.
version=$(sed -n 's/^#define FA2_VERSION_[A-Z]* //p' "$source_dir/include/fa2/version.h" | paste -sd.)
[ "$(cached CMAKE_PROJECT_VERSION)" = "$version" ] || fail "CMake's version is $(cached CMAKE_PROJECT_VERSION), must be $version"
grep -q "^version = \"$version\"" "$source_dir/pyproject.toml" || fail "pyproject.toml must have version $version"
case $version in 0.*) expected=libfa2.so.${version%.*} ;; *) expected=libfa2.so.${version%%.*} ;; esac
soname=$(readelf -d "$library" | sed -n 's/.*(SONAME).*\[\(.*\)\]/\1/p')
[ "$soname" = "$expected" ] || fail "the SONAME of version $version is $soname, must be $expected"

# 2. The public headers; find_package after an install, in C++17.
bash "$source_dir/tests/package/headers.sh" "$source_dir"
cmake --install "$build_dir" --prefix "$work/prefix" >/dev/null
cp "$consumer" "$source_dir/tests/package/find_package/CMakeLists.txt" "$work/"
cmake -S "$work" -B "$work/build" -DCMAKE_PREFIX_PATH="$work/prefix" >/dev/null
cmake --build "$work/build" >/dev/null
"$work/build/consumer"


# 3. add_subdirectory, at -O0, which the parent says and is obeyed. One room, with what is embedded, is compiled: the
# other rooms are compiled by the same lines, and a whole library more would take two minutes.
commands() { sed -n 's/^ *"command": "\(.*\)",*$/\1/p' "$1/compile_commands.json"; }
mkdir "$work/sub"
cp "$consumer" "$source_dir/tests/package/add_subdirectory/CMakeLists.txt" "$work/sub/"
cmake -S "$work/sub" -B "$work/sub/build" -DFA2_SOURCE="$source_dir" -DCMAKE_DISABLE_PRECOMPILE_HEADERS=ON \
  -DCMAKE_BUILD_TYPE=None -DCMAKE_CXX_FLAGS=-O0 >/dev/null
if commands "$work/sub/build" | grep -- ' -O2 '; then fail "add_subdirectory overrides its parent's -O0"; fi
cmake --build "$work/sub/build" -j"$(nproc)" --target fa2_generator >/dev/null

# 4. Where the parent has no build type, fa2 is optimised, and the parent is left as it is.
cmake -S "$work/sub" -B "$work/sub/untyped" -DFA2_SOURCE="$source_dir" >/dev/null
[ -n "$(commands "$work/sub/untyped")" ] || fail "there is no list of the subdirectory's commands"
unoptimised=$(commands "$work/sub/untyped" | grep -v -- ' -O2 ' || true)
[ -z "$unoptimised" ] || fail "add_subdirectory compiles without -O2: $unoptimised"
grep -q '^CMAKE_BUILD_TYPE:STRING=$' "$work/sub/untyped/CMakeCache.txt" || fail "add_subdirectory sets its parent's build type"
echo "package: find_package and add_subdirectory work"
