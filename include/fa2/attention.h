// fa2: fused attention kernels, rendered, compiled (NVRTC), cached and tuned at run time.
//
//   fa2::AttentionProblem problem;
//   problem.dtype = fa2::DType::bf16;
//   problem.mask = fa2::MaskKind::causal_bottom_right;
//   problem.head_dim = 128;
//   problem.batch = 2, problem.heads_q = 32, problem.heads_kv = 8;
//   problem.seqlen_q = problem.seqlen_k = 4096;
//   fa2::attention(problem, fa2::bshd_args(problem, q, k, v, out), stream);
#pragma once

#include <fa2/args.h>
#include <fa2/config.h>
#include <fa2/context.h>
#include <fa2/errors.h>
#include <fa2/plan_options.h>
#include <fa2/problem.h>
#include <fa2/report.h>
#include <fa2/tuning.h>
