#!/usr/bin/env bash
# The main job on real input: one attention layer of a sentence-embedding model on a page of text, on the GPU, or
# without one on the interpreter. Usage: demo.sh BUILD
set -euo pipefail
cd "$(dirname "$0")/.."
out=$(mktemp --suffix=.npy); trap 'rm -f "$out"' EXIT
"$1/tools/fa2" run --q samples/q.npy --k samples/k.npy --v samples/v.npy --out "$out" --check
python3 scripts/npy_error.py "$out" samples/o.npy
