// Implements fa2/c_context_parallel.h on the C++ interface.
#include <api/c_context.h>
#include <api/c_guard.h>
#include <api/c_read_struct.h>
#include <api/c_structs.h>
#include <api/explanation.h>
#include <fa2/c_context_parallel.h>
#include <fa2/context_parallel.h>
#include <fa2/nccl_communicator.h>
#include <fmt/format.h>
#include <parallel/scheme_words.h>

#include <chrono>
#include <cstring>
#include <memory>
#include <utility>

struct fa2_shard_layout {
  fa2::ShardLayout layout;
  std::vector<std::vector<std::int64_t>> borders;  ///< of each rank
};

struct fa2_communicator {
  std::unique_ptr<fa2::Communicator> communicator;
};

struct fa2_context_parallel_plan {
  fa2::ContextParallelPlan plan;
};

struct fa2_context_parallel_decode_plan {
  fa2::ContextParallelDecodePlan plan;
};

namespace {

using namespace fa2;

/// A communicator of the caller's functions.
class CallerCommunicator final : public Communicator {
 public:
  explicit CallerCommunicator(const fa2_communicator_functions& functions) : functions_(functions) {}

  int rank() const noexcept override { return functions_.rank; }
  int size() const noexcept override { return functions_.size; }
  bool allows_peer_memory() const noexcept override { return functions_.peer_memory != 0; }

  std::uint64_t exchange(const Transfer* transfers, std::size_t count, Stream stream) override {
    group_.clear();
    for (std::size_t i = 0; i < count; ++i)
      group_.push_back(
          {transfers[i].sends() ? 0 : 1, transfers[i].peer, transfers[i].data, transfers[i].bytes});
    std::uint64_t number = 0;
    require("exchange", functions_.exchange(functions_.data, group_.data(), count, stream, &number));
    return number;
  }

  void wait(std::uint64_t number) override {
    if (functions_.wait != nullptr) require("wait", functions_.wait(functions_.data, number));
  }

  void all_gather(const void* mine, std::size_t bytes, void* all) override {
    if (functions_.all_gather == nullptr) return Communicator::all_gather(mine, bytes, all);
    require("all_gather", functions_.all_gather(functions_.data, mine, bytes, all));
  }

  void check() override {
    if (failure_ != 0) require(failed_, failure_);
  }

 private:
  void require(const char* function, std::int32_t result) {
    if (result == 0) return;
    failed_ = function, failure_ = result;
    throw CommunicationError(
        fmt::format("{} of the caller's functions returned {}, must be 0", function, result), functions_.rank,
        result);
  }

  fa2_communicator_functions functions_;
  std::vector<fa2_transfer> group_;
  const char* failed_ = "";
  std::int32_t failure_ = 0;
};

void put_layout(fa2_shard_layout** to, ShardLayout layout) {
  auto made = std::make_unique<fa2_shard_layout>();
  for (const std::vector<Slice>& slices : layout.ranks) {
    auto& borders = made->borders.emplace_back();
    for (const Slice& slice : slices) borders.insert(borders.end(), {slice.begin, slice.end});
  }
  made->layout = std::move(layout);
  *to = made.release();
}

std::vector<std::int64_t> documents_of(const int64_t* cu_seqlens, size_t documents) {
  if (documents == 0) return {};
  const int64_t* const first = &required(cu_seqlens, "cu_seqlens");
  return {first, first + documents + 1};
}

NcclOptions options_of(const fa2_nccl_options* pointer, Found& found) {
  NcclOptions options;
  if (pointer == nullptr) return options;
  const auto from = read_struct(pointer, "options", found);
  if (!from) return options;
  options.max_blocks = from->max_blocks;
  if (from->max_blocks < 0)
    found.push_back({"max_blocks", fmt::format("{}", from->max_blocks), "must be at least 0"});
  if (from->timeout_ms < 0)
    found.push_back({"timeout_ms", fmt::format("{}", from->timeout_ms), "must be at least 0"});
  check_reserved(from->reserved, "reserved", found);
  options.peer_memory = !flag_of(from->no_peer_memory, "no_peer_memory", found);
  if (from->timeout_ms > 0) options.timeout = std::chrono::milliseconds(from->timeout_ms);
  return options;
}

ContextParallelOptions options_of(const fa2_context_parallel_options* pointer, Found& found) {
  ContextParallelOptions options;
  if (pointer == nullptr) return options;
  const auto from = read_struct(pointer, "options", found);
  if (!from) return options;
  options.scheme = enum_of<ContextParallelScheme>(from->scheme, "scheme", found);
  options.groups = from->groups;
  if (from->gradients != 0) options.gradients = gradients_of(from->gradients, found);
  options.plan.row_alignment = enum_of<RowAlignment>(from->row_alignment, "row_alignment", found);
  return options;
}

/// Converts the arguments of a run, of which `plan` is one. @throws InvalidRequest with everything that is wrong.
template <class CArgs, class Plan>
auto args_of_run(const CArgs* args, const Plan* plan) {
  Found found;
  auto with = args_of(args, found);
  is_given(plan, "plan", found);
  require_none(found);
  return *std::move(with);
}

template <class Make>
fa2_status make_communicator(const fa2_nccl_options* options, fa2_communicator** communicator,
                             const Make& make) {
  return guarded([&] {
    required(communicator, "communicator") = nullptr;
    Found found;
    const NcclOptions with = options_of(options, found);
    require_none(found);
    *communicator = new fa2_communicator{make(with)};
  });
}

}  // namespace

fa2_status fa2_shard_layout_create(int32_t kind, int64_t tokens, const int64_t* cu_seqlens, size_t documents,
                                   int32_t ranks, int64_t granule, fa2_shard_layout** layout) {
  return guarded([&] {
    required(layout, "layout") = nullptr;
    if (kind != FA2_LAYOUT_CONTIGUOUS && kind != FA2_LAYOUT_ZIGZAG)
      throw InvalidRequest(
          {{"kind", fmt::format("{}", kind), "must be FA2_LAYOUT_CONTIGUOUS or FA2_LAYOUT_ZIGZAG"}});
    const std::vector<std::int64_t> borders = documents_of(cu_seqlens, documents);
    if (kind == FA2_LAYOUT_CONTIGUOUS)
      return put_layout(layout, ShardLayout::contiguous(tokens, ranks, granule));
    put_layout(layout, borders.empty() ? ShardLayout::zigzag(tokens, ranks, granule)
                                       : ShardLayout::zigzag_documents(borders, ranks, granule));
  });
}

fa2_status fa2_shard_layout_of_slices(int64_t tokens, int32_t ranks, const size_t* slice_counts,
                                      const int64_t* borders, fa2_shard_layout** layout) {
  return guarded([&] {
    required(layout, "layout") = nullptr;
    if (ranks < 1) throw InvalidRequest({{"ranks", fmt::format("{}", ranks), "must be at least 1"}});
    const size_t* const counts = &required(slice_counts, "slice_counts");
    const int64_t* next = &required(borders, "borders");
    ShardLayout made{tokens, std::vector<std::vector<Slice>>(static_cast<std::size_t>(ranks))};
    for (std::size_t rank = 0; rank < made.ranks.size(); ++rank)
      for (std::size_t i = 0; i < counts[rank]; ++i, next += 2)
        made.ranks[rank].push_back({next[0], next[1]});
    if (auto found = violations(made); !found.empty()) throw InvalidRequest(std::move(found));
    put_layout(layout, std::move(made));
  });
}

fa2_status fa2_shard_layout_slices(const fa2_shard_layout* layout, int32_t rank, const int64_t** borders,
                                   size_t* slice_count) {
  return guarded([&] {
    const fa2_shard_layout& of = required(layout, "layout");
    const auto ranks = static_cast<int32_t>(of.borders.size());
    if (rank < 0 || rank >= ranks)
      throw InvalidRequest({{"rank", fmt::format("{}", rank), fmt::format("must be in 0..{}", ranks - 1)}});
    const auto& slices = of.borders[static_cast<std::size_t>(rank)];
    required(borders, "borders") = slices.data();
    required(slice_count, "slice_count") = slices.size() / 2;
  });
}

fa2_status fa2_shard_layout_destroy(fa2_shard_layout* layout) {
  return guarded([&] { delete layout; });
}

fa2_status fa2_communicator_create(const fa2_communicator_functions* functions,
                                   fa2_communicator** communicator) {
  return guarded([&] {
    required(communicator, "communicator") = nullptr;
    Found found;
    const auto from = read_struct(functions, "functions", found);
    require_none(found);
    flag_of(from->peer_memory, "peer_memory", found);
    if (from->exchange == nullptr) found.push_back({"exchange", "NULL", "must be a function"});
    if (from->size < 1) found.push_back({"size", fmt::format("{}", from->size), "must be at least 1"});
    if (from->rank < 0 || from->rank >= from->size)
      found.push_back(
          {"rank", fmt::format("{}", from->rank), fmt::format("must be in 0..{}", from->size - 1)});
    require_none(found);
    *communicator = new fa2_communicator{std::make_unique<CallerCommunicator>(*from)};
  });
}

fa2_status fa2_nccl_id_make(fa2_nccl_id* id) {
  return guarded([&] {
    const NcclId made = make_nccl_id();
    std::memcpy(required(id, "id").bytes, made.data(), made.size());
  });
}

fa2_status fa2_nccl_init(const fa2_nccl_id* id, int32_t ranks, int32_t rank, const fa2_nccl_options* options,
                         fa2_communicator** communicator) {
  return make_communicator(options, communicator, [&](const NcclOptions& with) {
    NcclId of;
    std::memcpy(of.data(), required(id, "id").bytes, of.size());
    return init_nccl(of, ranks, rank, with);
  });
}

fa2_status fa2_nccl_split(void* comm, const fa2_nccl_options* options, fa2_communicator** communicator) {
  return make_communicator(options, communicator, [&](const NcclOptions& with) {
    return split_nccl(static_cast<ncclComm_t>(comm), with);
  });
}

fa2_status fa2_nccl_borrow(void* comm, const fa2_nccl_options* options, fa2_communicator** communicator) {
  return make_communicator(options, communicator, [&](const NcclOptions& with) {
    return borrow_nccl(static_cast<ncclComm_t>(comm), with);
  });
}

fa2_status fa2_communicator_check(fa2_communicator* communicator) {
  return guarded([&] { required(communicator, "communicator").communicator->check(); });
}

fa2_status fa2_communicator_destroy(fa2_communicator* communicator) {
  return guarded([&] { delete communicator; });
}

fa2_status fa2_context_parallel_plan_create(fa2_context* context, const fa2_problem* problem,
                                            const fa2_shard_layout* layout, const int64_t* cu_seqlens,
                                            size_t documents, fa2_communicator* communicator,
                                            const fa2_context_parallel_options* options, int32_t device,
                                            fa2_context_parallel_plan** plan) {
  return guarded([&] {
    required(plan, "plan") = nullptr;
    Found found;
    const auto what = problem_of(problem, found);
    const ContextParallelOptions with = options_of(options, found);
    is_given(layout, "layout", found);
    is_given(communicator, "communicator", found);
    require_none(found);
    *plan = new fa2_context_parallel_plan{
        context_of(context).context_parallel_plan(*what, layout->layout, *communicator->communicator, with,
                                                  documents_of(cu_seqlens, documents), device)};
  });
}

fa2_status fa2_context_parallel_plan_run(fa2_context_parallel_plan* plan, const fa2_args* args,
                                         void* stream) {
  return guarded([&] {
    const auto with = args_of_run(args, plan);
    plan->plan.run(with, static_cast<Stream>(stream));
  });
}

fa2_status fa2_context_parallel_plan_run_backward(fa2_context_parallel_plan* plan,
                                                  const fa2_backward_args* args, void* stream) {
  return guarded([&] {
    const auto with = args_of_run(args, plan);
    plan->plan.run_backward(with, static_cast<Stream>(stream));
  });
}

fa2_status fa2_context_parallel_plan_workspace_bytes(const fa2_context_parallel_plan* plan, size_t* bytes) {
  return guarded([&] { required(bytes, "bytes") = required(plan, "plan").plan.workspace_bytes(); });
}

fa2_status fa2_context_parallel_plan_explain(const fa2_context_parallel_plan* plan, char** json) {
  return guarded([&] {
    required(json, "json") = nullptr;
    *json = allocate_copy(to_json(required(plan, "plan").plan.explain()));
  });
}

fa2_status fa2_context_parallel_plan_destroy(fa2_context_parallel_plan* plan) {
  return guarded([&] { delete plan; });
}

fa2_status fa2_context_parallel_decode_plan_create(fa2_context* context, const fa2_problem* problem,
                                                   fa2_communicator* communicator,
                                                   const fa2_plan_options* options, int32_t device,
                                                   fa2_context_parallel_decode_plan** plan) {
  return guarded([&] {
    required(plan, "plan") = nullptr;
    Found found;
    const PlanOptions with = options_of(options, found);
    is_given(communicator, "communicator", found);
    const AttentionProblem what = problem_on(problem, device, std::move(found));
    *plan = new fa2_context_parallel_decode_plan{
        context_of(context).context_parallel_decode_plan(what, *communicator->communicator, with, device)};
  });
}

fa2_status fa2_context_parallel_decode_plan_run(fa2_context_parallel_decode_plan* plan, const fa2_args* args,
                                                void* stream) {
  return guarded([&] {
    const auto with = args_of_run(args, plan);
    plan->plan.run(with, static_cast<Stream>(stream));
  });
}

fa2_status fa2_context_parallel_decode_plan_workspace_bytes(const fa2_context_parallel_decode_plan* plan,
                                                            size_t* bytes) {
  return guarded([&] { required(bytes, "bytes") = required(plan, "plan").plan.workspace_bytes(); });
}

fa2_status fa2_context_parallel_decode_plan_explain(const fa2_context_parallel_decode_plan* plan,
                                                    char** json) {
  return guarded([&] {
    required(json, "json") = nullptr;
    *json = allocate_copy(to_json(required(plan, "plan").plan.explain()));
  });
}

fa2_status fa2_context_parallel_decode_plan_destroy(fa2_context_parallel_decode_plan* plan) {
  return guarded([&] { delete plan; });
}
