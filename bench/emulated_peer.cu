// Times both ranks of two on one GPU, beside the same attention of all tokens. What the other rank would send is copied by a kernel of a few
// blocks, at the speed of a link and after its latency, so it shows what hides an exchange and what that costs, not what a real link does.
//
//   nvcc -std=c++17 -O2 -arch=native -Iinclude bench/emulated_peer.cu -Lbuild -lfa2 -Xlinker -rpath,$PWD/build -o emulated_peer
//   ./emulated_peer --tokens 32768 --backward gather:1 gather:2 staged
//   ./emulated_peer --tokens 131072 --documents --gb-per-s 50 --json gather:1 gather:4
#include <cuda_bf16.h>
#include <cuda_runtime.h>
#include <fa2/context.h>
#include <fa2/context_parallel.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <list>
#include <memory>
#include <random>
#include <string>
#include <vector>

namespace {

constexpr const char* kHelp =
    "emulated_peer [OPTIONS] SCHEME[:GROUPS]...   SCHEME: automatic, gather, staged\n"
    "  --tokens N        of both ranks; default 32768\n"
    "  --heads N, --heads-kv N   default 32 and 8\n"
    "  --documents       packed documents of log-normal lengths around 4096\n"
    "  --backward        time the backward too\n"
    "  --gb-per-s X      of the link; default 260\n"
    "  --latency-us X    of an exchange; default 90\n"
    "  --blocks N        of the copying kernel; default 16\n"
    "  --rounds N        in an order that is shuffled every round; default 9\n"
    "  --json            print one JSON document\n"
    "Example: emulated_peer --tokens 8192 gather:1 staged\n";

struct Options {
  std::int64_t tokens = 32768, heads = 32, heads_kv = 8;
  bool documents = false, backward = false, json = false;
  double gb_per_s = 260, latency_us = 90;
  int blocks = 16, rounds = 9;
  std::vector<std::string> contenders;
};

[[noreturn]] void fail(const std::string& why) {
  std::fprintf(stderr, "%s\n%s", why.c_str(), kHelp);
  std::exit(1);
}

void check(cudaError_t error) {
  if (error != cudaSuccess) fail(std::string("CUDA: ") + cudaGetErrorString(error));
}

Options parse(int count, char** words) {
  Options o;
  for (int i = 1; i < count; ++i) {
    const std::string word = words[i];
    const auto number = [&] {
      char* end = nullptr;
      const double value = i + 1 < count ? std::strtod(words[++i], &end) : 0;
      if (end == nullptr || *end != 0 || value < 0) fail(word + " must be followed by a number from 0 on");
      return value;
    };
    if (word == "--help" || word == "-h") std::printf("%s", kHelp), std::exit(0);
    if (word == "--tokens")
      o.tokens = std::llround(number());
    else if (word == "--heads")
      o.heads = std::llround(number());
    else if (word == "--heads-kv")
      o.heads_kv = std::llround(number());
    else if (word == "--gb-per-s")
      o.gb_per_s = number();
    else if (word == "--latency-us")
      o.latency_us = number();
    else if (word == "--blocks")
      o.blocks = static_cast<int>(number());
    else if (word == "--rounds")
      o.rounds = static_cast<int>(number());
    else if (word == "--documents")
      o.documents = true;
    else if (word == "--backward")
      o.backward = true;
    else if (word == "--json")
      o.json = true;
    else if (word[0] == '-')
      fail(word + " is no option");
    else
      o.contenders.push_back(word);
  }
  if (o.contenders.empty()) fail("no SCHEME is given");
  return o;
}

/// Up to so many messages are received at once.
constexpr int kMostMessages = 200;
struct Messages {
  uint4* to[kMostMessages];
  std::int64_t chunks[kMostMessages];  ///< of 16 bytes
  int count;
};

/// Copies `from`, again and again, to all messages, not faster than the link.
__global__ void deliver(Messages messages, const uint4* from, std::int64_t from_chunks, double bytes_per_ns,
                        double latency_ns) {
  unsigned long long start, now;
  asm volatile("mov.u64 %0, %globaltimer;" : "=l"(start));
  const std::int64_t step = std::int64_t{gridDim.x} * blockDim.x;
  double done = 0;
  for (int m = 0; m < messages.count; ++m) {
    for (std::int64_t first = 0; first < messages.chunks[m]; first += step) {
      const std::int64_t i = first + std::int64_t{blockIdx.x} * blockDim.x + threadIdx.x;
      if (i < messages.chunks[m]) messages.to[m][i] = from[i % from_chunks];
      done += 16.0 * static_cast<double>(step);
      do asm volatile("mov.u64 %0, %globaltimer;" : "=l"(now));
      while (static_cast<double>(now - start) < latency_ns + done / bytes_per_ns);
    }
  }
}

/// Writes numbers whose sum of four uniform ones is nearly normal.
__global__ void fill(__nv_bfloat16* x, std::int64_t count, unsigned seed) {
  for (std::int64_t i = blockIdx.x * std::int64_t{blockDim.x} + threadIdx.x; i < count;
       i += std::int64_t{gridDim.x} * blockDim.x) {
    unsigned hash = static_cast<unsigned>(i) * 2654435761u + seed;
    float sum = 0;
    for (int k = 0; k < 4; ++k) {
      hash ^= hash >> 16, hash *= 0x7feb352du, hash ^= hash >> 15, hash *= 0x846ca68bu, hash ^= hash >> 16;
      sum += static_cast<float>(hash & 0xffffff) / 16777216.0f - 0.5f;
    }
    x[i] = __float2bfloat16(1.732f * sum);
  }
}

class Memory {
 public:
  explicit Memory(std::size_t bytes) { check(cudaMalloc(&data_, bytes)); }
  ~Memory() { cudaFree(data_); }
  Memory(const Memory&) = delete;
  Memory& operator=(const Memory&) = delete;
  void* get() const { return data_; }

 private:
  void* data_ = nullptr;
};

/// A rank's end of two, whose peer says and sends what the rank itself would.
class EmulatedPeer final : public fa2::Communicator {
 public:
  EmulatedPeer(int rank, const Options& options) : rank_(rank), options_(options), memory_(kBytes) {
    fill<<<256, 256>>>(static_cast<__nv_bfloat16*>(memory_.get()), kBytes / 2, 9);
  }
  int rank() const noexcept override { return rank_; }
  int size() const noexcept override { return 2; }
  std::uint64_t exchange(const fa2::Transfer* transfers, std::size_t count, fa2::Stream stream) override {
    Messages messages{};
    for (std::size_t i = 0; i < count; ++i) {
      if (transfers[i].sends()) continue;
      if (messages.count == kMostMessages) fail("a rank receives too many messages: take fewer documents");
      messages.to[messages.count] = static_cast<uint4*>(transfers[i].data);
      messages.chunks[messages.count++] = static_cast<std::int64_t>(transfers[i].bytes / 16);
    }
    if (count > 0)
      deliver<<<options_.blocks, 512, 0, stream>>>(messages, static_cast<const uint4*>(memory_.get()),
                                                   kBytes / 16, options_.gb_per_s,
                                                   1000 * options_.latency_us);
    return number_++;
  }
  void all_gather(const void* mine, std::size_t bytes, void* all) override {
    for (int rank = 0; rank < 2; ++rank) std::memcpy(static_cast<char*>(all) + rank * bytes, mine, bytes);
  }
  void check() override {}

 private:
  static constexpr std::int64_t kBytes = 16 << 20;
  int rank_;
  const Options& options_;
  Memory memory_;
  std::uint64_t number_ = 0;
};

constexpr std::int64_t kDim = 128;

/// Tensors of some tokens, (1, tokens, heads, kDim), and the arguments that name them.
struct Tensors {
  std::list<Memory> memory;
  fa2::BackwardArgs args;

  Tensors(std::int64_t tokens, const Options& o) {
    const auto tensor = [&](std::int64_t heads) {
      const std::int64_t count = tokens * heads * kDim;
      memory.emplace_back(2 * count);
      fill<<<512, 256>>>(static_cast<__nv_bfloat16*>(memory.back().get()), count,
                         static_cast<unsigned>(memory.size()));
      return memory.back().get();
    };
    const auto strides = [&](std::int64_t heads) { return fa2::TensorStrides::bshd(tokens, heads, kDim); };
    fa2::AttentionArgs& f = args.forward;
    f.q = tensor(o.heads), f.k = tensor(o.heads_kv), f.v = tensor(o.heads_kv), f.out = tensor(o.heads);
    args.d_out = tensor(o.heads), args.dq = tensor(o.heads), args.dk = tensor(o.heads_kv),
    args.dv = tensor(o.heads_kv);
    memory.emplace_back(4 * tokens * o.heads);
    f.lse = static_cast<float*>(memory.back().get());
    f.q_strides = f.out_strides = args.d_out_strides = args.dq_strides = strides(o.heads);
    f.k_strides = f.v_strides = args.dk_strides = args.dv_strides = strides(o.heads_kv);
  }
};

struct Call {
  std::string name;  ///< of the contender; empty: one GPU
  bool backward;
  std::function<void()> run;
  std::vector<float> ms = {};
};

float time_of(const std::function<void()>& run) {
  static cudaEvent_t begin = nullptr, end = nullptr;
  if (begin == nullptr) check(cudaEventCreate(&begin)), check(cudaEventCreate(&end));
  check(cudaDeviceSynchronize());
  check(cudaEventRecord(begin));
  run();
  check(cudaEventRecord(end));
  check(cudaEventSynchronize(end));
  float ms = 0;
  check(cudaEventElapsedTime(&ms, begin, end));
  return ms;
}

float median(std::vector<float> of) {
  std::sort(of.begin(), of.end());
  return of[of.size() / 2];
}

fa2::ContextParallelOptions options_of(const std::string& contender, bool backward) {
  const std::size_t colon = contender.find(':');
  const std::string scheme = contender.substr(0, colon);
  fa2::ContextParallelOptions made;
  if (scheme == "gather")
    made.scheme = fa2::ContextParallelScheme::gather_heads;
  else if (scheme == "staged")
    made.scheme = fa2::ContextParallelScheme::staged;
  else if (scheme != "automatic")
    fail(contender + " is no SCHEME[:GROUPS]");
  if (colon != std::string::npos) made.groups = std::atoi(contender.c_str() + colon + 1);
  if (backward) made.gradients = fa2::Gradients{};
  return made;
}

std::vector<std::int64_t> documents_of(std::int64_t tokens) {
  std::mt19937 random(3);
  std::lognormal_distribution<double> length(std::log(4096.0), 1.0);
  std::vector<std::int64_t> borders{0};
  while (borders.back() < tokens)
    borders.push_back(
        std::min(tokens, borders.back() + std::max<std::int64_t>(16, std::llround(length(random)))));
  return borders;
}

void print(const Options& o, const std::vector<Call>& calls) {
  if (o.json)
    std::printf("{\"tokens\": %lld, \"results\": [", static_cast<long long>(o.tokens));
  else
    std::printf("%-14s %-8s %10s %10s\n", "", "", "ms", "efficiency");
  bool is_first = true;
  for (const bool backward : {false, true}) {
    float half = 0;
    for (std::size_t i = 0; i < calls.size(); ++i) {
      if (calls[i].backward != backward) continue;
      const bool is_one = calls[i].name.empty();
      // The ranks of a contender follow each other.
      const float ms = is_one ? median(calls[i].ms) : std::max(median(calls[i].ms), median(calls[i + 1].ms));
      if (is_one)
        half = ms / 2;
      else
        ++i;
      const char *name = is_one ? "one GPU" : calls[i].name.c_str(),
                 *direction = backward ? "backward" : "forward";
      if (o.json)
        std::printf("%s{\"name\": \"%s\", \"direction\": \"%s\", \"ms\": %.4f, \"efficiency\": %.4f}",
                    is_first ? "" : ", ", name, direction, ms, half / ms);
      else
        std::printf("%-14s %-8s %10.3f %10.3f\n", name, direction, ms, half / ms);
      is_first = false;
    }
  }
  if (o.json) std::printf("]}\n");
}

/// All that calls need, and the calls.
class Bench {
 public:
  explicit Bench(const Options& options) : o(options), whole(o.tokens, o), table(4 * (o.tokens / 16 + 2)) {
    problem.dtype = fa2::DType::bf16;
    problem.head_dim = kDim;
    problem.mask = fa2::MaskKind::causal_bottom_right;
    problem.heads_q = o.heads, problem.heads_kv = o.heads_kv;
    problem.seqlen_q = problem.seqlen_k = o.tokens;
    if (o.documents) pack();
    add_one_gpu();
    for (int rank = 0; rank < 2; ++rank) shards.emplace_back(layout.tokens_of(rank), o);
    for (const std::string& name : o.contenders) add(name);
  }

  void run() {
    for (Call& call : calls) call.run(), call.run();
    std::vector<Call*> order;
    for (Call& call : calls) order.push_back(&call);
    std::mt19937 random(1);
    for (int round = 0; round < o.rounds; ++round) {
      std::shuffle(order.begin(), order.end(), random);
      for (Call* call : order) call->ms.push_back(time_of(call->run));
    }
    print(o, calls);
  }

 private:
  void pack() {
    borders = documents_of(o.tokens);
    layout = fa2::ShardLayout::zigzag_documents(borders, 2, 128);
    problem.varlen = true;
    problem.batch = static_cast<std::int64_t>(borders.size()) - 1;
    problem.total_q = problem.total_k = o.tokens;
    const std::vector<int> words(borders.begin(), borders.end());
    check(cudaMemcpy(table.get(), words.data(), 4 * words.size(), cudaMemcpyHostToDevice));
    fa2::AttentionArgs& args = whole.args.forward;
    args.cu_seqlens_q = args.cu_seqlens_k = static_cast<const std::int32_t*>(table.get());
  }

  void add_one_gpu() {
    const auto forward = context.plan(problem, 0);
    calls.push_back({"", false, [this, forward] { forward.run(whole.args.forward); }});
    if (!o.backward) return;
    const auto backward = context.backward_plan(problem, 0, fa2::Gradients{});
    calls.push_back({"", true, [this, backward] { backward.run(whole.args); }});
  }

  void add(const std::string& name) {
    std::vector<Call> backwards;
    for (int rank = 0; rank < 2; ++rank) {
      const auto plan = context.context_parallel_plan(problem, layout, peers.emplace_back(rank, o),
                                                      options_of(name, o.backward), borders);
      fa2::BackwardArgs args = (rank == 0 ? shards.front() : shards.back()).args;
      workspaces.emplace_back(plan.workspace_bytes() + 256);
      args.workspace = args.forward.workspace = workspaces.back().get();
      calls.push_back({name, false, [plan, args] { plan.run(args.forward); }});
      if (o.backward) backwards.push_back({name, true, [plan, args] { plan.run_backward(args); }});
    }
    calls.insert(calls.end(), backwards.begin(), backwards.end());
  }

  const Options& o;
  fa2::Context& context = fa2::Context::default_context();
  fa2::AttentionProblem problem;
  fa2::ShardLayout layout = fa2::ShardLayout::zigzag(o.tokens, 2, 128);
  std::vector<std::int64_t> borders;
  Tensors whole;
  Memory table;
  std::list<Tensors> shards;
  std::list<EmulatedPeer> peers;  // plans refer to them
  std::list<Memory> workspaces;
  std::vector<Call> calls;
};

}  // namespace

int main(int count, char** words) try {
  const Options options = parse(count, words);
  Bench(options).run();
} catch (const std::exception& error) {
  std::fprintf(stderr, "%s\n", error.what());
  return 1;
}
