#!/usr/bin/env bash
# Tests the library as users meet it: installed and found, or added as a subdirectory. Usage: run.sh SOURCE_DIR
# BUILD_DIR
set -euo pipefail
source_dir=$1 build_dir=$2
work=$(mktemp -d); trap 'rm -rf "$work"' EXIT
consumer=$source_dir/tests/package/consumer.cpp

fail() { echo "package: $1" >&2; exit 1; }

# 1. The shared library's dependencies and exported symbols.
library=$build_dir/libfa2.so
needed=$(readelf -d "$library" | sed -n 's/.*(NEEDED).*\[\(.*\)\]/\1/p')
if grep -E 'cuda|nvrtc|spdlog|fmt' <<<"$needed"; then fail "libfa2.so must not need the libraries above"; fi
python3 "$source_dir/tests/package/full_static_tls.py" "$library" "$work" || fail "libfa2.so cannot be loaded after much else has been"
foreign=$(nm -D --defined-only "$library" | awk '{print $3}' | c++filt | grep -vE '^(fa2_|(typeinfo|typeinfo name|vtable) for fa2::|fa2::)' || true)
[ -z "$foreign" ] || fail "libfa2.so exports symbols that are not fa2's: $foreign"
strip -o "$work/stripped.so" "$library"
bytes=$(stat -c %s "$work/stripped.so")
# Communicators, layouts, peer memory and NCCL, without kernels, are some 80,000 of them.
[ "$bytes" -le 3390000 ] || fail "libfa2.so is $bytes bytes stripped, must be at most 3,390,000"
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

for carried in fmt spdlog nlohmann-json xxHash Boost.Context libdeflate CLI11; do
  grep -q "^$carried " "$source_dir/NOTICE" || fail "NOTICE must name $carried, which binaries contain"
done

# docs/cpp.md: before 1.0 the SONAME has the minor version, afterwards only the major one.
version=$(sed -n 's/^#define FA2_VERSION_[A-Z]* //p' "$source_dir/include/fa2/version.h" | paste -sd.)
[ "$(cached CMAKE_PROJECT_VERSION)" = "$version" ] || fail "CMake's version is $(cached CMAKE_PROJECT_VERSION), must be $version"
grep -q "^version = \"$version\"" "$source_dir/pyproject.toml" || fail "pyproject.toml must have version $version"
case $version in 0.*) expected=libfa2.so.${version%.*} ;; *) expected=libfa2.so.${version%%.*} ;; esac
soname=$(readelf -d "$library" | sed -n 's/.*(SONAME).*\[\(.*\)\]/\1/p')
[ "$soname" = "$expected" ] || fail "the SONAME of version $version is $soname, must be $expected"

# 2. The public headers; find_package after an install, in C++17; pkg-config after the install was moved.
bash "$source_dir/tests/package/headers.sh" "$source_dir"
bash "$source_dir/tests/package/documents.sh" "$source_dir"
cmake --install "$build_dir" --prefix "$work/prefix" >/dev/null
cp "$consumer" "$source_dir"/tests/package/find_package/* "$work/"
cmake -S "$work" -B "$work/build" -DCMAKE_PREFIX_PATH="$work/prefix" >/dev/null
cmake --build "$work/build" >/dev/null
"$work/build/consumer"
FA2_DEVICE=interpreter FA2_JIT=off FA2_CACHE_DIR=$work/empty "$work/build/packed"
[ ! -e "$work/empty" ] || fail "a program with all its kernels must not make a cache directory"

mv "$work/prefix" "$work/moved"
if command -v pkg-config >/dev/null; then
  PKG_CONFIG_PATH=$(dirname "$(find "$work/moved" -name fa2.pc)")
  export PKG_CONFIG_PATH
  [ "$(pkg-config --modversion fa2)" = "$version" ] || fail "fa2.pc has version $(pkg-config --modversion fa2), must be $version"
  read -ra flags <<<"$(pkg-config --cflags --libs fa2)"
  c++ -std=c++17 "$consumer" "${flags[@]}" -o "$work/consumer"
  LD_LIBRARY_PATH=$(pkg-config --variable=libdir fa2) "$work/consumer"
else
  echo "package: fa2.pc is not checked: pkg-config is not installed"
fi

# 3. add_subdirectory at -O0, which the parent sets and fa2 respects. Only one room and the embedded files are compiled:
# the other rooms have the same rules, and a second whole library would take two minutes.
commands() { sed -n 's/^ *"command": "\(.*\)",*$/\1/p' "$1/compile_commands.json"; }
configure() { cmake -S "$work/sub" -B "$1" -DFA2_SOURCE="$source_dir" -DCMAKE_EXPORT_COMPILE_COMMANDS=ON "${@:2}" >/dev/null; }
mkdir "$work/sub"
cp "$consumer" "$source_dir/tests/package/add_subdirectory/CMakeLists.txt" "$work/sub/"
configure "$work/sub/build" -DCMAKE_DISABLE_PRECOMPILE_HEADERS=ON -DCMAKE_BUILD_TYPE=None -DCMAKE_CXX_FLAGS=-O0
if commands "$work/sub/build" | grep -E -- ' -O2 |_FORTIFY_SOURCE'; then fail "add_subdirectory overrides its parent's -O0"; fi
cmake --build "$work/sub/build" -j"$(nproc)" --target fa2_generator >/dev/null

# 4. FetchContent. If the parent sets no build type, fa2 is optimised and the parent stays as it is. Only the library is
# compiled, and nothing is installed.
configure "$work/sub/untyped" -DFETCH=ON
own=$(commands "$work/sub/untyped" | grep -F " $work/sub/consumer.cpp") fa2=$(commands "$work/sub/untyped" | grep -vF " $work/sub/consumer.cpp")
[ -n "$fa2" ] || fail "there is no list of the subdirectory's commands"
if grep -v -- ' -O2 ' <<<"$fa2"; then fail "add_subdirectory compiles the files above without -O2"; fi
if grep -E -- " -c $source_dir/(reference|tools|bench|examples|tests|python)/" <<<"$fa2"; then fail "add_subdirectory compiles more than the library"; fi
if grep -E -- '-O2|-Wall|c\+\+20|-fstack-protector' <<<"$own"; then fail "add_subdirectory changes its parent's flags"; fi
grep -q '^CMAKE_BUILD_TYPE:STRING=$' "$work/sub/untyped/CMakeCache.txt" || fail "add_subdirectory sets its parent's build type"
cmake --install "$work/sub/untyped" --prefix "$work/none" >/dev/null
[ ! -e "$work/none" ] || fail "add_subdirectory adds to its parent's install: $(find "$work/none" -type f)"
cmake -S "$work/sub" -B "$work/sub/silent" -DFA2_SOURCE="$source_dir" >/dev/null
[ ! -e "$work/sub/silent/compile_commands.json" ] || fail "add_subdirectory exports compile commands that its parent has not asked for"
echo "package: find_package, pkg-config, add_subdirectory and FetchContent work"
