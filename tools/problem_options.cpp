// The flags that several verbs share.
#include <core/gpu_names.h>
#include <fmt/format.h>
#include <generator/problem_text.h>
#include <generator/sequences.h>
#include <operation/rules/validate.h>
#include <tools/problem_options.h>

#include <algorithm>
#include <cctype>
#include <charconv>
#include <limits>
#include <string_view>
#include <type_traits>
#include <utility>

namespace fa2::tools {
namespace {

/// Descriptions that replace a row's, because they name other flags.
constexpr std::pair<std::string_view, const char*> kDescriptions[] = {
    {"heads_kv", "Key and value heads, dividing --heads; 0: as many"},
    {"seqlen_q", "Queries, if not --seqlen"},
    {"seqlen_k", "Keys, if not --seqlen"},
    {"page_size", "With --varlen: rows per page of K and V; 0: they are not paged"},
    {"total_q", "With --varlen: queries of all sequences, packed; 0: batched, each at most --seqlen"},
    {"total_k", "With --varlen: keys of all sequences, packed; 0: batched, each at most --seqlen"},
    {"page_count", "With --page-size: pages that K and V have; 0: those that the longest sequences fill"},
};

/// Adds the option that sets a field of a problem, or for score_text an option per text.
template <class Value>
void add_field(CLI::App& verb, std::string_view field, Value& value) {
  if constexpr (std::is_same_v<Value, std::int64_t>)
    if (field == "score_text") {
      add_score_texts(verb, value);
      return;
    }
  const std::string flag = flag_of(field), description = description_of(field);
  if constexpr (std::is_enum_v<Value>) {
    add_word(verb, flag, value, description);
  } else if constexpr (std::is_same_v<Value, bool>) {
    verb.add_flag(flag, value, description);
  } else if constexpr (kIsOptional<Value>) {
    verb.add_option(flag, value, description);
  } else {
    verb.add_option(flag, value, description)->capture_default_str();
  }
}

/// Returns the pages of `batch` sequences of the greatest length that share no page; at most the largest number allowed.
std::int64_t most_pages(const AttentionProblem& p) {
  const double pages = static_cast<double>(p.batch) * static_cast<double>(pages_of_sequence(p));
  return static_cast<std::int64_t>(std::clamp<double>(pages, 1, std::numeric_limits<std::int32_t>::max()));
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

std::string description_of(std::string_view field) {
  for (const auto& [name, description] : kDescriptions) {
    if (name == field) return description;
  }
  std::string described(field);
  const auto take = [&](const auto& row) {
    if (field == row.text.name && *row.text.help != 0) described = row.text.help;
  };
  each_row<AttentionProblem>(take);
  each_row<PlanOptions>(take);
  described.front() = static_cast<char>(std::toupper(static_cast<unsigned char>(described.front())));
  return described;
}

CLI::IsMember causal_words() {
  return CLI::IsMember({"yes", "no", "both"});
}
std::vector<MaskKind> masks_of_causal(const std::string& word) {
  if (word == "no") return {MaskKind::none};
  if (word == "yes") return {MaskKind::causal_bottom_right};
  return {MaskKind::none, MaskKind::causal_bottom_right};
}

void MaskOptions::add_to(CLI::App& verb) {
  auto* flag =
      verb.add_flag("--causal", causal, "Causal mask, bottom-right aligned: the last query sees every key");
  add_word(verb, "--mask", named, "Any mask by name")->excludes(flag);
}

void require_valid_flags(const AttentionProblem& problem) {
  const std::vector<Violation> found = violations_of(problem);
  if (!found.empty()) throw CLI::ValidationError(InvalidRequest(found).what());
}

void ProblemOptions::add_to(CLI::App& verb) {
  PlannedProblem::visit(
      [&](const std::string_view name, FieldRole, auto& value) {
        if (name == "mask") return mask.add_to(verb);
        if (name == "seqlen_k") return add_field(verb, name, seqlen_k);
        if (name != "seqlen_q") return add_field(verb, name, value);
        verb.add_option("--seqlen", seqlen, "Queries and keys")->capture_default_str();
        add_field(verb, name, seqlen_q);
      },
      fields);
}

PlannedProblem ProblemOptions::problem() const {
  PlannedProblem problem = fields;
  problem.mask = mask.mask();
  problem.seqlen_q = seqlen_q.value_or(seqlen);
  problem.seqlen_k = seqlen_k.value_or(seqlen);
  if (problem.page_size > 0 && problem.page_count == 0) problem.page_count = most_pages(problem);
  require_valid_flags(problem);
  return problem.normalized();
}

void add_variants(CLI::App& verb, AttentionProblem& problem) {
  AttentionProblem::visit(
      [&](const char* name, FieldRole, auto& value) {
        using Value = std::decay_t<decltype(value)>;
        const bool is_variant =
            kIsVariant<Value> || kIsChoice<Value> || std::string_view(name) == "sm_margin";
        if (is_variant && verb.get_option_no_throw(flag_of(name)) == nullptr) add_field(verb, name, value);
      },
      problem);
}

void add_missing_traits(CLI::App& verb, AttentionProblem& problem) {
  AttentionProblem::visit(
      [&](const char* name, FieldRole role, auto& value) {
        const bool is_trait = role == FieldRole::specialises || kIsOptional<std::decay_t<decltype(value)>>;
        if (is_trait && verb.get_option_no_throw(flag_of(name)) == nullptr) add_field(verb, name, value);
      },
      problem);
}

void MatrixOptions::add_to(CLI::App& verb) {
  add_list(verb, "--head-dim", head_dims, "Head dimensions");
  add_list(verb, "--seqlen", seqlens, "Sequence lengths")->check(CLI::PositiveNumber);
  add_list(verb, "--dtype", dtypes, "Element types")->check(word_check<DType>());
  verb.add_option("--causal", causal, "With the causal mask, without, both")
      ->check(causal_words())
      ->capture_default_str();
  add_variants(verb, variants);
  captures = add_score_texts(verb, variants.score_text, CaptureValues::required);
  verb.add_option("--tokens", tokens, "batch * seqlen")->check(CLI::PositiveNumber)->capture_default_str();
  verb.add_option("--hidden", hidden, "heads * head_dim")->check(CLI::PositiveNumber)->capture_default_str();
}

std::vector<AttentionProblem> MatrixOptions::problems() const {
  std::vector<AttentionProblem> problems;
  for (const std::string& word : dtypes) {
    for (const std::int32_t head_dim : head_dims) {
      for (const MaskKind mask : masks_of_causal(causal)) {
        for (const std::int64_t seqlen : seqlens) {
          AttentionProblem problem = variants;
          problem.dtype = *enumerator_of<DType>(word);
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
  auto* option = verb.add_option(
      "--arch", arch, "GPU architecture or GPU, as in sm_90a or h100, instead of a GPU of this machine");
  device.add_to(verb);
  verb.get_option("--device")->excludes(option);
}

const Arch& arch_of(const std::string& name) {
  const Arch* arch = find_arch(name);
  if (arch == nullptr) {
    throw CLI::ValidationError(
        "--arch", fmt::format("\"{}\" is not known; there are {}, and by the names of GPUs {}", name,
                              known_arch_names(), known_gpu_names()));
  }
  return *arch;
}

}  // namespace fa2::tools
