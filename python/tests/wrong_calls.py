"""Calls that type checkers must report, one per line, and calls that they must accept. test_types.py reads this file;
nothing runs it."""

import fa2
import numpy as np

q = np.zeros((1, 8, 4, 64), np.float16)

fa2.attention(q, q, q, causal="yes")  # wrong
fa2.attention(q, q, q, causal=None)  # wrong
fa2.attention(q, q, q, window_size=128)  # wrong
fa2.attention(q, q, q, window_size=(1, 2, 3))  # wrong
fa2.attention(q, q, q, is_causal=True)  # wrong
fa2.attention(q, q, q, layout="sbhd")  # wrong
fa2.attention(q, q, q, softmax_scale="1")  # wrong
fa2.attention(q, q, q, max_seqlen_q=1.5)  # wrong
fa2.attention(q, q, q, bias=q)
fa2.attention(q, q, q, bias=[q])  # wrong
fa2.attention(q, q, q, mask_mod=lambda h, q, k: True)  # wrong
fa2.attention(q, None, q)  # wrong
fa2.attention(q, [q], q)  # wrong
fa2.attention(q, q)  # wrong
out, lse = fa2.attention(q, q, q)[0, 0]  # one row of an array
both: tuple[int, int] = fa2.attention(q, q, q, return_lse=True)  # wrong
fa2.attention(q, q, q, return_lse=True).shape  # wrong
fa2.explain(q, q, q, causal="yes")  # wrong
fa2.tune(q, q, q, casual=True)  # wrong
fa2.precompile("sm_80", head_dims="64")  # wrong
fa2.precompile(["sm_80"], head_dims=64, causal="yes")  # wrong
fa2.precompile(80, head_dims=64)  # wrong
fa2.precompile("sm_80", head_dims=64, dtypes="float32")  # wrong
fa2.precompile("sm_80", head_dims=64, kv_type="fp8")  # wrong
fa2.pad_head_dim(None)  # wrong
fa2.pad_head_dim(q, "16")  # wrong

fa2.attention(q, q, q, causal="top_left", window_size=(16, -1), layout="bhsd").astype(np.float32)
fa2.attention(q, q, q, score_mod=lambda s, b, h, q, k: s * 2, mask_mod=fa2.ScoreText("return true;"))
array, sums = fa2.attention(q, q, q, return_lse=True)
array.astype(np.float32), sums.shape
fa2.attention(q, q, q, return_lse=bool(array.size))
fa2.explain(q, q, q, causal=True, backward=True)["kernels"]
fa2.precompile("sm_80", head_dims=64, dtypes="float16", causal=True, kv_type="e4m3")
fa2.precompile(["sm_80", "sm_90a"], head_dims=(64, 128), causal=(True, "top_left"))
