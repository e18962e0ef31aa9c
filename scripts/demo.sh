#!/usr/bin/env bash
# The main job on real input: one attention layer of a sentence-embedding model on a page of text. Usage: demo.sh BUILD
set -euo pipefail
cd "$(dirname "$0")/.."
fa2=$1/tools/fa2
if "$fa2" info --json | python3 -c 'import json, sys; sys.exit(not json.load(sys.stdin)["gpus"])'; then
  out=$(mktemp --suffix=.npy); trap 'rm -f "$out"' EXIT
  "$fa2" run --q samples/q.npy --k samples/k.npy --v samples/v.npy --out "$out" --check
  python3 scripts/npy_error.py "$out" samples/o.npy
else
  echo "No GPU was found: nothing is executed. Precompiling the sample's kernels for an A100 and an H100 instead:"
  "$fa2" precompile --arch sm_80,sm_90a --head-dim 32 --dtype f16 --causal no --out "$1/demo-cache"
  echo "Done. Copy $1/demo-cache to a machine with a GPU and set FA2_CACHE_PATH to it: no NVRTC is needed there."
fi
