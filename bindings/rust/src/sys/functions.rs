//! The functions of the C interface.

use super::*;

/// Declares the functions, and lists their names, argument types and result types as text.
macro_rules! functions {
    ($(fn $name:ident($($argument:ident: $type:ty),*) $(-> $result:ty)?;)*) => {
        extern "C" {
            $(pub fn $name($($argument: $type),*) $(-> $result)?;)*
        }

        /// The functions of this module: name, types of the arguments, type of the result.
        pub const FUNCTIONS: &[(&str, &[&str], &str)] =
            &[$((stringify!($name), &[$(stringify!($type)),*], concat!($(stringify!($result))?)),)*];
    };
}

pub type fa2_body = Option<unsafe extern "C" fn(*mut c_void) -> fa2_status>;

#[rustfmt::skip]
functions! {
    fn fa2_last_error() -> *const c_char;
    fn fa2_version() -> *const c_char;
    fn fa2_string_free(text: *mut c_char);
    fn fa2_context_create(options: *const fa2_context_options, context: *mut *mut fa2_context) -> fa2_status;
    fn fa2_context_destroy(context: *mut fa2_context) -> fa2_status;
    fn fa2_attention(context: *mut fa2_context, problem: *const fa2_problem, args: *const fa2_args,
                     stream: *mut c_void) -> fa2_status;
    fn fa2_plan_create(context: *mut fa2_context, problem: *const fa2_problem, device: i32,
                       options: *const fa2_plan_options, plan: *mut *mut fa2_plan) -> fa2_status;
    fn fa2_plan_run(plan: *const fa2_plan, args: *const fa2_args, stream: *mut c_void) -> fa2_status;
    fn fa2_plan_workspace_bytes(plan: *const fa2_plan, bytes: *mut usize) -> fa2_status;
    fn fa2_plan_workspace_zeros(plan: *const fa2_plan, bytes: *mut usize) -> fa2_status;
    fn fa2_plan_explain(plan: *const fa2_plan, json: *mut *mut c_char) -> fa2_status;
    fn fa2_plan_destroy(plan: *mut fa2_plan) -> fa2_status;
    fn fa2_precompile(context: *mut fa2_context, problems: *const fa2_problem, problem_count: usize,
                      archs: *const *const c_char, arch_count: usize, options: *const fa2_precompile_options,
                      report: *mut *mut c_char) -> fa2_status;
    fn fa2_tune(context: *mut fa2_context, problem: *const fa2_problem, device: i32,
                options: *const fa2_tune_options, report: *mut *mut c_char) -> fa2_status;
    fn fa2_append(context: *mut fa2_context, problem: *const fa2_append_problem, args: *const fa2_append_args,
                  stream: *mut c_void) -> fa2_status;
    fn fa2_attention_backward(context: *mut fa2_context, problem: *const fa2_problem,
                              args: *const fa2_backward_args, stream: *mut c_void) -> fa2_status;
    fn fa2_backward_plan_create(context: *mut fa2_context, problem: *const fa2_problem, device: i32, gradients: i32,
                                options: *const fa2_plan_options, plan: *mut *mut fa2_backward_plan) -> fa2_status;
    fn fa2_backward_plan_run(plan: *const fa2_backward_plan, args: *const fa2_backward_args,
                             stream: *mut c_void) -> fa2_status;
    fn fa2_backward_plan_workspace_bytes(plan: *const fa2_backward_plan, bytes: *mut usize) -> fa2_status;
    fn fa2_backward_plan_explain(plan: *const fa2_backward_plan, json: *mut *mut c_char) -> fa2_status;
    fn fa2_backward_plan_destroy(plan: *mut fa2_backward_plan) -> fa2_status;
    fn fa2_cache_list(directory: *const c_char, verify: i32, json: *mut *mut c_char) -> fa2_status;
    fn fa2_cache_prune(directory: *const c_char, max_bytes: i64, json: *mut *mut c_char) -> fa2_status;
    fn fa2_dropout_mask(context: *mut fa2_context, problem: *const fa2_problem, args: *const fa2_args,
                        mask: *mut u8, stream: *mut c_void) -> fa2_status;
    fn fa2_launch_attention(problem: *const fa2_problem, args: *const fa2_args,
                            launch: *const fa2_launch) -> fa2_status;
    fn fa2_launch_backward(problem: *const fa2_problem, args: *const fa2_backward_args,
                           launch: *const fa2_launch) -> fa2_status;
    fn fa2_fill_zeros(data: *mut c_void, bytes: usize, launch: *const fa2_launch) -> fa2_status;
    fn fa2_on_device(device: i32, body: fa2_body, data: *mut c_void) -> fa2_status;
    fn fa2_make_score_text(texts: *const fa2_score_texts, number: *mut i64) -> fa2_status;
    fn fa2_fits_per_score(problem: *const fa2_problem, dtype: i32, capture: *const fa2_capture, fits: *mut i32)
                          -> fa2_status;
    fn fa2_check_score_text(problem: *const fa2_problem, captures: *const fa2_capture,
                            capture_count: i64) -> fa2_status;
    fn fa2_block_map_create(version: u64, map: *mut *mut fa2_block_map) -> fa2_status;
    fn fa2_map_blocks(context: *mut fa2_context, problem: *const fa2_problem, args: *const fa2_args,
                      map: *mut fa2_block_map, stream: *mut c_void) -> fa2_status;
    fn fa2_map_blocks_of_backward(context: *mut fa2_context, problem: *const fa2_problem, args: *const fa2_backward_args,
                                  map: *mut fa2_block_map, stream: *mut c_void) -> fa2_status;
    fn fa2_block_map_destroy(map: *mut fa2_block_map) -> fa2_status;
    fn fa2_shard_layout_create(kind: i32, tokens: i64, cu_seqlens: *const i64, documents: usize, ranks: i32, granule: i64,
                               layout: *mut *mut fa2_shard_layout) -> fa2_status;
    fn fa2_shard_layout_of_slices(tokens: i64, ranks: i32, slice_counts: *const usize, borders: *const i64,
                                  layout: *mut *mut fa2_shard_layout) -> fa2_status;
    fn fa2_shard_layout_slices(layout: *const fa2_shard_layout, rank: i32, borders: *mut *const i64,
                               slice_count: *mut usize) -> fa2_status;
    fn fa2_shard_layout_destroy(layout: *mut fa2_shard_layout) -> fa2_status;
    fn fa2_communicator_create(functions: *const fa2_communicator_functions,
                               communicator: *mut *mut fa2_communicator) -> fa2_status;
    fn fa2_nccl_id_make(id: *mut fa2_nccl_id) -> fa2_status;
    fn fa2_nccl_init(id: *const fa2_nccl_id, ranks: i32, rank: i32, options: *const fa2_nccl_options,
                     communicator: *mut *mut fa2_communicator) -> fa2_status;
    fn fa2_nccl_split(comm: *mut c_void, options: *const fa2_nccl_options,
                      communicator: *mut *mut fa2_communicator) -> fa2_status;
    fn fa2_nccl_borrow(comm: *mut c_void, options: *const fa2_nccl_options,
                       communicator: *mut *mut fa2_communicator) -> fa2_status;
    fn fa2_communicator_check(communicator: *mut fa2_communicator) -> fa2_status;
    fn fa2_communicator_destroy(communicator: *mut fa2_communicator) -> fa2_status;
    fn fa2_context_parallel_plan_create(context: *mut fa2_context, problem: *const fa2_problem,
                                        layout: *const fa2_shard_layout, cu_seqlens: *const i64, documents: usize,
                                        communicator: *mut fa2_communicator,
                                        options: *const fa2_context_parallel_options, device: i32,
                                        plan: *mut *mut fa2_context_parallel_plan) -> fa2_status;
    fn fa2_context_parallel_plan_run(plan: *mut fa2_context_parallel_plan, args: *const fa2_args,
                                     stream: *mut c_void) -> fa2_status;
    fn fa2_context_parallel_plan_run_backward(plan: *mut fa2_context_parallel_plan, args: *const fa2_backward_args,
                                              stream: *mut c_void) -> fa2_status;
    fn fa2_context_parallel_plan_workspace_bytes(plan: *const fa2_context_parallel_plan, bytes: *mut usize) -> fa2_status;
    fn fa2_context_parallel_plan_explain(plan: *const fa2_context_parallel_plan, json: *mut *mut c_char) -> fa2_status;
    fn fa2_context_parallel_plan_destroy(plan: *mut fa2_context_parallel_plan) -> fa2_status;
    fn fa2_context_parallel_decode_plan_create(context: *mut fa2_context, problem: *const fa2_problem,
                                               communicator: *mut fa2_communicator,
                                               options: *const fa2_plan_options, device: i32,
                                               plan: *mut *mut fa2_context_parallel_decode_plan) -> fa2_status;
    fn fa2_context_parallel_decode_plan_run(plan: *mut fa2_context_parallel_decode_plan, args: *const fa2_args,
                                            stream: *mut c_void) -> fa2_status;
    fn fa2_context_parallel_decode_plan_workspace_bytes(plan: *const fa2_context_parallel_decode_plan,
                                                        bytes: *mut usize) -> fa2_status;
    fn fa2_context_parallel_decode_plan_explain(plan: *const fa2_context_parallel_decode_plan,
                                                json: *mut *mut c_char) -> fa2_status;
    fn fa2_context_parallel_decode_plan_destroy(plan: *mut fa2_context_parallel_decode_plan) -> fa2_status;
    fn fa2_set_log(callback: fa2_log_callback, data: *mut c_void) -> fa2_status;
    fn fa2_set_log_level(level: i32) -> fa2_status;
    fn fa2_log_level() -> i32;
    fn fa2_set_nvrtc_search(directories: *const *const c_char, count: usize) -> fa2_status;
    fn fa2_set_interrupt(poll: fa2_poll, data: *mut c_void) -> fa2_status;
    fn fa2_stream_is_capturing(stream: *mut c_void, capturing: *mut i32) -> fa2_status;
    fn fa2_machine(json: *mut *mut c_char) -> fa2_status;
    fn fa2_merge(context: *mut fa2_context, problem: *const fa2_merge_problem, args: *const fa2_merge_args,
                 stream: *mut c_void) -> fa2_status;
    fn fa2_pack_add(name: *const c_char, data: *const c_void, bytes: usize) -> fa2_status;
    fn fa2_bind_attention(tensors: *const *const fa2_array, count: usize, problem: *mut fa2_problem,
                          args: *mut fa2_args, place: *mut fa2_placement) -> fa2_status;
    fn fa2_bind_backward(tensors: *const *const fa2_array, count: usize, problem: *mut fa2_problem,
                         forward: *mut fa2_args, args: *mut fa2_backward_args,
                         place: *mut fa2_placement) -> fa2_status;
    fn fa2_bind_append(tensors: *const *const fa2_array, count: usize, problem: *mut fa2_append_problem,
                       args: *mut fa2_append_args, place: *mut fa2_placement) -> fa2_status;
    fn fa2_bind_merge(tensors: *const *const fa2_array, count: usize, problem: *mut fa2_merge_problem,
                      args: *mut fa2_merge_args, place: *mut fa2_placement) -> fa2_status;
    fn fa2_bind_dropout_mask(tensors: *const *const fa2_array, count: usize, problem: *mut fa2_problem,
                             args: *mut fa2_args, place: *mut fa2_placement) -> fa2_status;
}
