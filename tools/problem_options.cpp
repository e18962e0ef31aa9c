// The flags that several verbs share.
#include <api/validate.h>
#include <fmt/format.h>
#include <tools/problem_options.h>

#include <algorithm>
#include <charconv>
#include <initializer_list>

namespace fa2::tools {
namespace {

template <class Enum>
Enum enum_of(const std::string& word, std::initializer_list<Enum> values) {
  for (const Enum value : values) {
    if (to_string(value) == word) return value;
  }
  throw CLI::ValidationError(fmt::format("\"{}\" is not understood", word));
}

constexpr std::string_view kCuda = "cuda:";

int ordinal_of(const std::string& text) {
  if (text == "auto") return current_device();
  if (text == "interpreter") return kInterpreterDevice;
  int ordinal = -1;
  const std::string_view digits = std::string_view(text).substr(std::min(kCuda.size(), text.size()));
  const auto [stop, error] = std::from_chars(digits.data(), digits.data() + digits.size(), ordinal);
  const bool is_number = error == std::errc() && stop == digits.data() + digits.size() && ordinal >= 0;
  if (!text.starts_with(kCuda) || !is_number) {
    throw CLI::ValidationError("--device", fmt::format("\"{}\" is none of auto, interpreter, cuda:N", text));
  }
  return ordinal;
}

}  // namespace

CLI::IsMember dtype_words() {
  return CLI::IsMember({"f16", "bf16"});
}
DType dtype_of(const std::string& word) {
  return enum_of(word, {DType::f16, DType::bf16});
}

CLI::IsMember alignment_words() {
  return CLI::IsMember({"bytes16", "element", "bytes16_any_order"});
}
RowAlignment alignment_of(const std::string& word) {
  return enum_of(word, {RowAlignment::bytes16, RowAlignment::element, RowAlignment::bytes16_any_order});
}

CLI::IsMember mask_words() {
  return CLI::IsMember({"none", "causal_bottom_right", "causal_top_left"});
}
MaskKind mask_of(const std::string& word) {
  return enum_of(word, {MaskKind::none, MaskKind::causal_bottom_right, MaskKind::causal_top_left});
}

CLI::IsMember causal_words() {
  return CLI::IsMember({"yes", "no", "both"});
}
std::vector<MaskKind> masks_of_causal(const std::string& word) {
  if (word == "no") return {MaskKind::none};
  if (word == "yes") return {MaskKind::causal_bottom_right};
  return {MaskKind::none, MaskKind::causal_bottom_right};
}

CLI::IsMember tune_words() {
  return CLI::IsMember({"off", "stored", "search"});
}
TuneMode tune_mode_of(const std::string& word) {
  if (word == "off") return TuneMode::off;
  return word == "stored" ? TuneMode::stored : TuneMode::search;
}

void MaskOptions::add_to(CLI::App& verb) {
  auto* flag =
      verb.add_flag("--causal", causal, "Causal mask, bottom-right aligned: the last query sees every key");
  verb.add_option("--mask", word, "Any mask by name")
      ->check(mask_words())
      ->capture_default_str()
      ->excludes(flag);
}

void require_valid_flags(const AttentionProblem& problem) {
  const std::vector<Violation> found = violations_of(problem);
  if (!found.empty()) throw CLI::ValidationError(InvalidProblem(found).what());
}

void ProblemOptions::add_to(CLI::App& verb) {
  const auto option = [&](const char* name, auto& value, const char* description) {
    return verb.add_option(name, value, description)->capture_default_str();
  };
  option("--dtype", dtype, "Element type")->check(dtype_words());
  option("--head-dim", head_dim, "Head dimension of Q and K, a multiple of 8 in 8..256");
  option("--head-dim-v", head_dim_v, "Head dimension of V and O; 0: that of Q");
  mask.add_to(verb);
  option("--batch", batch, "Batch size");
  option("--heads", heads, "Query heads");
  option("--heads-kv", heads_kv, "Key/value heads, dividing --heads; 0: as many");
  option("--seqlen", seqlen, "Queries and keys");
  verb.add_option("--seqlen-q", seqlen_q, "Queries, if not --seqlen");
  verb.add_option("--seqlen-k", seqlen_k, "Keys, if not --seqlen");
  option("--alignment", alignment, "What every row is aligned to")->check(alignment_words());
}

AttentionProblem ProblemOptions::problem() const {
  AttentionProblem problem;
  problem.dtype = dtype_of(dtype);
  problem.mask = mask.mask();
  problem.row_alignment = alignment_of(alignment);
  problem.head_dim = head_dim;
  problem.head_dim_v = head_dim_v;
  problem.batch = batch;
  problem.heads_q = heads;
  problem.heads_kv = heads_kv;
  problem.seqlen_q = seqlen_q.value_or(seqlen);
  problem.seqlen_k = seqlen_k.value_or(seqlen);
  require_valid_flags(problem);
  return problem.normalized();
}

void MatrixOptions::add_to(CLI::App& verb) {
  add_list(verb, "--head-dim", head_dims, "Head dimensions");
  add_list(verb, "--seqlen", seqlens, "Sequence lengths")->check(CLI::PositiveNumber);
  add_list(verb, "--dtype", dtypes, "Element types")->check(dtype_words());
  verb.add_option("--causal", causal, "With the causal mask, without, both")
      ->check(causal_words())
      ->capture_default_str();
  verb.add_option("--tokens", tokens, "batch * seqlen")->check(CLI::PositiveNumber)->capture_default_str();
  verb.add_option("--hidden", hidden, "heads * head_dim")->check(CLI::PositiveNumber)->capture_default_str();
}

std::vector<AttentionProblem> MatrixOptions::problems() const {
  std::vector<AttentionProblem> problems;
  for (const std::string& word : dtypes) {
    for (const std::int32_t head_dim : head_dims) {
      for (const MaskKind mask : masks_of_causal(causal)) {
        for (const std::int64_t seqlen : seqlens) {
          AttentionProblem problem;
          problem.dtype = dtype_of(word);
          problem.mask = mask;
          problem.head_dim = head_dim;
          problem.heads_q = std::max<std::int64_t>(1, hidden / std::max(head_dim, 1));
          problem.batch = std::max<std::int64_t>(1, tokens / seqlen);
          problem.seqlen_q = problem.seqlen_k = seqlen;
          require_valid_flags(problem);
          problems.push_back(problem.normalized());
        }
      }
    }
  }
  return problems;
}

void DeviceOption::add_to(CLI::App& verb) {
  verb.add_option(
          "--device", text,
          "cuda:N, interpreter (the CPU, thread by thread), or auto: the current GPU, else the interpreter")
      ->capture_default_str();
}

const Device& DeviceOption::device() const {
  return fa2::device(ordinal_of(text));
}

void GpuOption::add_to(CLI::App& verb) {
  verb.add_option("--device", text, "cuda:N, or auto: the first GPU")->capture_default_str();
}

const Device& GpuOption::gpu() const {
  if (text == "interpreter")
    throw Unavailable("this measures a GPU: the time that a kernel takes on the interpreter says nothing");
  try {
    return fa2::device(text == "auto" ? 0 : ordinal_of(text));
  } catch (const Unavailable& error) {
    if (device_count() > 0) throw;
    throw Unavailable(
        fmt::format("no GPU was found: {}\nWithout one, `fa2 precompile` fills a kernel cache, `fa2 run` "
                    "interprets kernels on the CPU, and `fa2 explain` and `fa2 dump` show them.",
                    error.what()));
  }
}

void TargetOptions::add_to(CLI::App& verb) {
  auto* option =
      verb.add_option("--arch", arch, "GPU architecture, as in sm_90a, instead of a GPU of this machine");
  device.add_to(verb);
  verb.get_option("--device")->excludes(option);
}

const Arch& arch_of(const std::string& name) {
  const Arch* arch = find_arch(name);
  if (arch == nullptr) {
    throw CLI::ValidationError("--arch",
                               fmt::format("\"{}\" is not known; there are {}", name, known_arch_names()));
  }
  return *arch;
}

}  // namespace fa2::tools
