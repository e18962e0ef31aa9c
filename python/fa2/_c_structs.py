"""The structs of include/fa2/c_call.h for ctypes. Written by fa2_write_files: do not edit."""

from __future__ import annotations

import ctypes as C


class Tensor(C.Structure):
    _fields_ = [("data", C.c_void_p), ("strides", C.c_int64 * 3)]


class Problem(C.Structure):
    _fields_ = [
        ("struct_size", C.c_uint32),
        ("dtype", C.c_int32),
        ("head_dim", C.c_int32),
        ("head_dim_v", C.c_int32),
        ("mask", C.c_int32),
        ("has_window_left", C.c_int32),
        ("has_window_right", C.c_int32),
        ("has_attention_chunk", C.c_int32),
        ("softcap", C.c_int32),
        ("alibi", C.c_int32),
        ("sinks", C.c_int32),
        ("dropout", C.c_int32),
        ("query_pieces", C.c_int32),
        ("varlen", C.c_int32),
        ("page_size", C.c_int32),
        ("missing_pages", C.c_int32),
        ("kv_type", C.c_int32),
        ("values_in_keys", C.c_int32),
        ("batch_invariant", C.c_int32),
        ("lse_base", C.c_int32),
        ("max_logits", C.c_int32),
        ("float32_dk_dv", C.c_int32),
        ("float32_dq", C.c_int32),
        ("float32_out", C.c_int32),
        ("sm_margin", C.c_int32),
        ("reserved", C.c_int32),
        ("window_left", C.c_int64),
        ("window_right", C.c_int64),
        ("attention_chunk", C.c_int64),
        ("score_text", C.c_int64),
        ("batch", C.c_int64),
        ("heads_q", C.c_int64),
        ("heads_kv", C.c_int64),
        ("seqlen_q", C.c_int64),
        ("seqlen_k", C.c_int64),
        ("total_q", C.c_int64),
        ("total_k", C.c_int64),
        ("page_count", C.c_int64),
    ]

    @classmethod
    def new(cls) -> Problem:
        return cls(struct_size=C.sizeof(cls), batch=1, heads_q=1)


class Args(C.Structure):
    _fields_ = [
        ("struct_size", C.c_uint32),
        ("softcap", C.c_float),
        ("alibi_slopes_per_batch", C.c_int32),
        ("has_softmax_scale", C.c_int32),
        ("softmax_scale", C.c_float),
        ("dropout_probability", C.c_float),
        ("empty_row_lse", C.c_int32),
        ("reserved", C.c_int32),
        ("q", Tensor),
        ("k", Tensor),
        ("v", Tensor),
        ("out", Tensor),
        ("lse", C.c_void_p),
        ("max_logits", C.c_void_p),
        ("alibi_slopes", C.c_void_p),
        ("sinks", C.c_void_p),
        ("captures", C.c_void_p),
        ("capture_count", C.c_int64),
        ("block_map", C.c_void_p),
        ("block_map_version", C.c_uint64),
        ("dropout_state", C.c_void_p),
        ("query_pieces_table", C.c_void_p),
        ("cu_seqlens_q", C.c_void_p),
        ("cu_seqlens_k", C.c_void_p),
        ("seqused_q", C.c_void_p),
        ("seqused_k", C.c_void_p),
        ("page_table", C.c_void_p),
        ("page_table_stride", C.c_int64),
        ("k_descale", Tensor),
        ("v_descale", Tensor),
        ("workspace", C.c_void_p),
        ("dropout_seed", C.c_uint64),
        ("dropout_offset", C.c_uint64),
        ("query_pieces_split", C.c_int64),
        ("query_pieces_first", C.c_int64),
        ("query_pieces_second", C.c_int64),
    ]

    @classmethod
    def new(cls) -> Args:
        return cls(struct_size=C.sizeof(cls))


class BackwardArgs(C.Structure):
    _fields_ = [
        ("struct_size", C.c_uint32),
        ("determinism", C.c_int32),
        ("forward", C.POINTER(Args)),
        ("d_out", Tensor),
        ("d_lse", C.c_void_p),
        ("dq", Tensor),
        ("dk", Tensor),
        ("dv", Tensor),
        ("d_sinks", C.c_void_p),
        ("d_captures", C.c_void_p),
        ("workspace", C.c_void_p),
    ]

    @classmethod
    def new(cls) -> BackwardArgs:
        return cls(struct_size=C.sizeof(cls))


class AppendProblem(C.Structure):
    _fields_ = [
        ("struct_size", C.c_uint32),
        ("dtype", C.c_int32),
        ("head_dim", C.c_int32),
        ("head_dim_v", C.c_int32),
        ("rotary_dim", C.c_int32),
        ("rotary_style", C.c_int32),
        ("float32_tables", C.c_int32),
        ("causal_positions", C.c_int32),
        ("kv_type", C.c_int32),
        ("reserved", C.c_int32),
        ("table_rows", C.c_int64),
        ("batch", C.c_int64),
        ("heads_q", C.c_int64),
        ("heads_kv", C.c_int64),
        ("seqlen_q", C.c_int64),
        ("seqlen_new", C.c_int64),
        ("total_q", C.c_int64),
        ("total_new", C.c_int64),
        ("page_size", C.c_int64),
        ("cache_entries", C.c_int64),
        ("cache_rows", C.c_int64),
        ("max_pages", C.c_int64),
    ]

    @classmethod
    def new(cls) -> AppendProblem:
        return cls(struct_size=C.sizeof(cls), head_dim=128, causal_positions=1, batch=1, heads_kv=1, seqlen_q=1, seqlen_new=1, cache_entries=1)


class AppendArgs(C.Structure):
    _fields_ = [
        ("struct_size", C.c_uint32),
        ("reserved", C.c_int32),
        ("k_new", Tensor),
        ("v_new", Tensor),
        ("k_cache", Tensor),
        ("v_cache", Tensor),
        ("k_descale", Tensor),
        ("v_descale", Tensor),
        ("seqlens", C.c_void_p),
        ("cache_batch_idx", C.c_void_p),
        ("page_table", C.c_void_p),
        ("page_table_stride", C.c_int64),
        ("cu_seqlens_new", C.c_void_p),
        ("cu_seqlens_q", C.c_void_p),
        ("cos", C.c_void_p),
        ("sin", C.c_void_p),
        ("table_stride", C.c_int64),
        ("rotary_seqlens", C.c_void_p),
        ("q", Tensor),
        ("q_out", Tensor),
    ]

    @classmethod
    def new(cls) -> AppendArgs:
        return cls(struct_size=C.sizeof(cls))


class MergeProblem(C.Structure):
    _fields_ = [
        ("struct_size", C.c_uint32),
        ("dtype", C.c_int32),
        ("float32_parts", C.c_int32),
        ("float32_output", C.c_int32),
        ("lse_base", C.c_int32),
        ("head_dim", C.c_int32),
        ("parts", C.c_int64),
        ("batch", C.c_int64),
        ("heads", C.c_int64),
        ("seqlen", C.c_int64),
    ]

    @classmethod
    def new(cls) -> MergeProblem:
        return cls(struct_size=C.sizeof(cls), head_dim=128, parts=1, batch=1, heads=1, seqlen=1)


class MergeArgs(C.Structure):
    _fields_ = [
        ("struct_size", C.c_uint32),
        ("empty_row_lse", C.c_int32),
        ("parts", Tensor),
        ("part_stride", C.c_int64),
        ("lse_parts", Tensor),
        ("lse_part_stride", C.c_int64),
        ("out", Tensor),
        ("lse", C.c_void_p),
    ]

    @classmethod
    def new(cls) -> MergeArgs:
        return cls(struct_size=C.sizeof(cls))
