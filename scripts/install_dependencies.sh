#!/usr/bin/env bash
# Installs what building and testing fa2 needs and this machine lacks: Debian packages, and CUDA's headers with NVRTC from
# NVIDIA's wheels (into .deps/cuda) where no CUDA Toolkit is found. Quick when everything is there. `--ci` adds the linters, gdb and Rust.
set -euo pipefail
cd "$(dirname "$0")/.."

packages=(g++ cmake ninja-build make pkg-config python3 python3-dev python3-venv unzip
  libspdlog-dev libfmt-dev libboost-context-dev nlohmann-json3-dev libxxhash-dev libdeflate-dev libcli11-dev doctest-dev)
[ "${1:-}" != --ci ] || packages+=(clang clang-format clang-tidy gdb rustc cargo)

missing=()
for package in "${packages[@]}"; do
  dpkg -s "$package" >/dev/null 2>&1 || missing+=("$package")
done
if [ ${#missing[@]} -gt 0 ]; then
  echo "installing: ${missing[*]}"
  sudo=(); [ "$(id -u)" = 0 ] || sudo=(sudo)
  "${sudo[@]}" apt-get update -qq
  DEBIAN_FRONTEND=noninteractive "${sudo[@]}" apt-get install -y -qq "${missing[@]}" >/dev/null
fi

for toolkit in "${CUDA_HOME:-}" "${CUDA_PATH:-}" /usr/local/cuda .deps/cuda; do
  if [ -n "$toolkit" ] && [ -f "$toolkit/include/cuda.h" ] && [ -f "$toolkit/include/nvrtc.h" ]; then exit 0; fi
done
echo "installing: CUDA 13.0 headers and NVRTC from PyPI into .deps/cuda"
mkdir -p .deps
python3 -m venv .deps/venv
.deps/venv/bin/pip -q download --no-deps --only-binary=:all: -d .deps/wheels \
  'nvidia-cuda-runtime==13.0.*' 'nvidia-cuda-nvrtc==13.0.*' 'nvidia-cuda-crt==13.0.*'
for wheel in .deps/wheels/*.whl; do unzip -qo "$wheel" -d .deps/unpacked; done
mkdir -p .deps/cuda/include .deps/cuda/lib64
find .deps/unpacked -type d -name include -exec cp -r {}/. .deps/cuda/include/ \;
find .deps/unpacked -name 'libnvrtc*.so*' -exec cp {} .deps/cuda/lib64/ \;
rm -rf .deps/unpacked .deps/wheels
test -f .deps/cuda/include/cuda.h && test -f .deps/cuda/include/nvrtc.h
