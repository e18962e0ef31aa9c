#!/usr/bin/env bash
# Compiles the C++ and C of README.md and docs/*.md, each block as the body of a function. Usage: documents.sh SOURCE_DIR
set -euo pipefail
cd "$1"
work=$(mktemp -d); trap 'rm -rf "$work"' EXIT

# What the pages assume: tensors on a device, tables, a stream.
cat >"$work/cpp.h" <<'NAMES'
#include <fa2/attention.h>
#include <fa2/backward.h>
#include <fa2/context_parallel.h>
#include <fa2/nccl_communicator.h>
#include <atomic>
#include <cstdio>
extern fa2::AttentionProblem problem;
extern fa2::AttentionArgs args;
extern const fa2::AttentionPlan plan;
extern void *q, *k, *v, *out, *d_out, *dq, *dk, *dv, *k_cache, *v_cache, *workspace;
extern float* lse;
extern const int *cu_seqlens, *seqlens, *seqused_k, *page_table, sequences, longest, total, pages, max_pages, gpus, chunk, rank, ranks;
extern std::atomic<bool> stop;
extern fa2::Stream stream;
extern fa2::Context context;
extern const fa2::BackwardArgs backward;
extern ncclComm_t comm;
extern const std::int64_t tokens;
NAMES
cat >"$work/c.h" <<'NAMES'
#include <stdio.h>
extern void *q, *k, *v, *out, *stream;
NAMES

compile() {  # compile LANGUAGE COMPILER...: a file per page, with #includes before its functions
  local language=$1 page blocks=0
  for page in README.md docs/*.md; do
    awk -v language="$language" -v page="$page" '
      FNR == 1 { headers = body = "" }
      /^```/ { inside = !inside && $0 == "```" language; if (inside) body = body "void block_" FNR "(void) {\n"; else if (open) body = body "}\n"; open = inside; next }
      inside && /^#include/ { headers = headers $0 "\n"; next }
      inside { body = body "#line " FNR " \"" page "\"\n" $0 "\n" }
      END { printf "%s%s", headers, body }' "$page" >"$work/page.$language"
    grep -q block_ "$work/page.$language" || continue
    blocks=$((blocks + $(grep -c '^void block_' "$work/page.$language")))
    "${@:2}" -Iinclude -include "$work/$language.h" -fsyntax-only "$work/page.$language" || { echo "package: $page has $language that does not compile" >&2; exit 1; }
  done
  [ "$blocks" -gt 0 ] || { echo "package: no page has a block of $language" >&2; exit 1; }
  echo "package: $blocks blocks of $language in the documents compile"
}
compile cpp c++ -std=c++17 -x c++
compile c cc -std=c99 -pedantic
