// Keys and defaults in the configurations of transformers.
#include <core/text.h>
#include <fa2/errors.h>
#include <fmt/format.h>
#include <runtime/file.h>
#include <runtime/json_field.h>
#include <tools/hf_config.h>

#include <algorithm>
#include <cerrno>
#include <nlohmann/json.hpp>
#include <utility>
#include <vector>

namespace fa2::tools {
namespace {

using nlohmann::json;

/// The defaults of transformers for missing keys, and properties without a key.
struct Family {
  std::string_view model_type;
  std::int32_t head_dim = 0;        ///< 0: hidden_size / num_attention_heads
  std::int64_t sliding_window = 0;  ///< 0: none
  bool all_layers_slide = false;    ///< without layer_types; false: only some do
  bool opts_in = false;             ///< a window counts only with use_sliding_window
  double softcap = 0;               ///< 0: none
  bool sinks = false;
  std::int64_t chunk = 0;  ///< attention_chunk_size, of some layers; 0: none
  bool latents = false;
};

constexpr Family kFamilies[] = {
    {"llama", 0, 0, false},
    {.model_type = "llama4_text", .head_dim = 128, .chunk = 8192},
    {"mistral", 0, 4096, true},
    {"mixtral", 0, 0, true},
    {"qwen2", 0, 4096, false, true},
    {"qwen2_moe", 0, 4096, false, true},
    {"qwen3", 128, 4096, false, true},
    {"qwen3_moe", 0, 4096, false, true},
    {"gemma", 256, 0, false},
    {"gemma2", 256, 4096, false, false, 50},
    {"gemma3", 256, 4096, false},
    {"gemma3_text", 256, 4096, false},
    {"phi3", 0, 0, true},
    {"gpt_oss", 64, 128, false, false, 0, true},
    {.model_type = "deepseek_v2", .latents = true},
    {.model_type = "deepseek_v3", .latents = true},
    {.model_type = "kimi_k2", .latents = true},
};

const Family* family_of(std::string_view model_type) {
  const auto* found = std::ranges::find(kFamilies, model_type, &Family::model_type);
  return found == std::end(kFamilies) ? nullptr : found;
}

std::string family_names() {
  std::string names;
  for (const Family& family : kFamilies)
    names += fmt::format("{}{}", names.empty() ? "" : ", ", family.model_type);
  return names;
}

/// Reads one model. It records what is wrong with a key, and goes on.
class Reader {
 public:
  Reader(const json& root, std::string origin) : root_(root), text_(root), origin_(std::move(origin)) {
    if (const auto nested = root.find("text_config"); nested != root.end() && nested->is_object()) {
      text_ = *nested;
      prefix_ = "text_config.";
    }
  }

  HfModel read() {
    read_family();
    require_none();
    family_->latents ? read_latents() : read_head_dim();
    read_heads();
    read_dtype();
    read_local_layers();
    read_softcap();
    if (family_->sinks) take("sinks", "yes", std::string(family_->model_type) + " has them in every layer");
    model_.sinks = family_->sinks ? "yes" : "no";
    if (flag("use_bidirectional_attention"))
      refuse("use_bidirectional_attention", "must be false: give flags instead of --hf");
    require_none();
    return std::move(model_);
  }

 private:
  /// Returns a key's value; nullptr if it is missing or null.
  const json* find(const std::string& key) const {
    const auto found = text_.find(key);
    return found == text_.end() || found->is_null() ? nullptr : &*found;
  }
  bool has_null(const std::string& key) const { return text_.contains(key) && find(key) == nullptr; }

  bool flag(const std::string& key) {
    const json* value = find(key);
    if (value != nullptr && !value->is_boolean()) refuse(key, "must be true or false");
    return value != nullptr && value->is_boolean() && value->get<bool>();
  }

  std::optional<std::int64_t> integer(const std::string& key) {
    const json* value = find(key);
    if (value == nullptr) return std::nullopt;
    constexpr std::int64_t kMost = std::int64_t{1} << 40;
    if (value->is_number_integer() && *value > 0 && *value < kMost) return value->get<std::int64_t>();
    refuse(key, "must be a whole number above 0");
    return std::nullopt;
  }

  void take(const std::string& what, const std::string& value, const std::string& from) {
    model_.taken.emplace_back(what, fmt::format("{} ({})", value, from));
  }
  std::string from(const std::string& key) const { return prefix_ + key; }
  std::string by_default(const std::string& key) const {
    return fmt::format("{}'s default: no {}", family_->model_type, from(key));
  }

  void refuse(const std::string& key, std::string rule) {
    const json* value = find(key);
    found_.push_back({fmt::format("{}: {}", origin_, from(key)),
                      value != nullptr ? printable(value->dump(), 80) : "missing", std::move(rule)});
  }
  void require_none() {
    if (!found_.empty()) throw InvalidRequest(std::move(found_));
  }

  void read_family() {
    const json* type = find("model_type");
    if (type == nullptr) type = root_.contains("model_type") ? &root_["model_type"] : nullptr;
    family_ = type != nullptr && type->is_string() ? family_of(type->get<std::string>()) : nullptr;
    if (family_ == nullptr)
      return refuse("model_type",
                    fmt::format("must be one of {}: give flags instead of --hf", family_names()));
    take("model", std::string(family_->model_type), from("model_type"));
  }

  void read_head_dim() {
    const auto head_dim = integer("head_dim"), hidden = integer("hidden_size"),
               heads = integer("num_attention_heads");
    if (head_dim) {
      model_.head_dim = static_cast<std::int32_t>(std::min<std::int64_t>(*head_dim, 1 << 20));
      return take("head dim", fmt::format("{}", *head_dim), from("head_dim"));
    }
    if (family_->head_dim > 0) {
      model_.head_dim = family_->head_dim;
      return take("head dim", fmt::format("{}", model_.head_dim), by_default("head_dim"));
    }
    if (!hidden) return refuse("hidden_size", "must be given, or head_dim");
    if (!heads) return refuse("num_attention_heads", "must be given, or head_dim");
    if (*hidden % *heads != 0)
      return refuse("hidden_size",
                    fmt::format("must be a multiple of num_attention_heads, {}, or head_dim given", *heads));
    model_.head_dim = static_cast<std::int32_t>(std::min<std::int64_t>(*hidden / *heads, 1 << 20));
    take("head dim", fmt::format("{}", model_.head_dim),
         fmt::format("{} / {}", from("hidden_size"), from("num_attention_heads")));
  }

  /// Reads the head dims of calls over latents: all heads share rows of kv_lora_rank columns that are key and value, and of
  /// qk_rope_head_dim that are key alone.
  void read_latents() {
    const std::int64_t rank = integer("kv_lora_rank").value_or(512);
    const std::int64_t rotated = integer("qk_rope_head_dim").value_or(64);
    model_.head_dim = static_cast<std::int32_t>(std::min<std::int64_t>(rank + rotated, 1 << 20));
    model_.head_dim_v = static_cast<std::int32_t>(std::min<std::int64_t>(rank, 1 << 20));
    model_.latents = "yes";
    const auto given = [&](const std::string& key) {
      return find(key) != nullptr ? from(key) : by_default(key);
    };
    take("head dim", fmt::format("{} + {}", rank, rotated),
         given("kv_lora_rank") + ", " + given("qk_rope_head_dim"));
    take("head dim of V", fmt::format("{}", rank), given("kv_lora_rank"));
  }

  /// Reads the numbers of heads for display only, because kernels serve any.
  void read_heads() {
    const auto heads = integer("num_attention_heads"), heads_kv = integer("num_key_value_heads");
    if (heads) take("heads", fmt::format("{}", *heads), from("num_attention_heads"));
    if (heads_kv) take("key/value heads", fmt::format("{}", *heads_kv), from("num_key_value_heads"));
  }

  void read_dtype() {
    for (const json* config : {&std::as_const(text_), &root_}) {
      for (const std::string key : {"dtype", "torch_dtype"}) {
        const auto value = config->find(key);
        if (value == config->end() || value->is_null()) continue;
        if (*value == "float16") model_.dtype = DType::f16;
        if (*value == "bfloat16") model_.dtype = DType::bf16;
        const std::string name = (config == &root_ ? "" : prefix_) + key;
        take("dtype", value->is_string() ? value->get<std::string>() : value->dump(), name);
        return;
      }
    }
  }

  /// What layers have that do not see all keys: windows or, in some families, chunks.
  struct Local {
    std::string name, key, layer_type;
    std::int64_t by_default;
    std::string HfModel::*answer;
  };
  Local local() const {
    if (family_->chunk > 0)
      return {"chunk", "attention_chunk_size", "chunked_attention", family_->chunk, &HfModel::chunk};
    return {"window", "sliding_window", "sliding_attention", family_->sliding_window, &HfModel::window};
  }

  /// Returns the size of the windows or chunks; 0 if no layer has one.
  std::int64_t size_of(const Local& local) {
    if (family_->opts_in && !flag("use_sliding_window")) {
      if (find(local.key) != nullptr) take(local.name, "no", from("use_sliding_window") + " is not true");
      return 0;
    }
    if (has_null(local.key)) return 0;
    return integer(local.key).value_or(local.by_default);
  }

  void read_local_layers() {
    const Local local = this->local();
    const std::int64_t size = size_of(local);
    const json* types = find("layer_types");
    if (types != nullptr) return read_layer_types(*types, local, size);
    if (size == 0) return;
    model_.*local.answer = family_->all_layers_slide ? "yes" : "both";
    take(local.name, fmt::format("{} in {} layers", size, family_->all_layers_slide ? "all" : "some"),
         find(local.key) != nullptr ? from(local.key) : by_default(local.key));
  }

  void read_layer_types(const json& types, const Local& local, std::int64_t size) {
    std::size_t limited = 0, full = 0;
    for (const json& type : types) {
      limited += type == local.layer_type;
      full += type == "full_attention";
    }
    if (!types.is_array() || types.empty() || limited + full != types.size())
      return refuse("layer_types",
                    fmt::format("must be a list of {} and full_attention: give flags instead of --hf",
                                local.layer_type));
    if (limited > 0 && size == 0)
      return refuse(local.key, fmt::format("must be given: layer_types has {}", local.layer_type));
    model_.*local.answer = limited == 0 ? "no" : full == 0 ? "yes" : "both";
    take(local.name, limited == 0 ? "no" : fmt::format("{} in {} of {} layers", size, limited, types.size()),
         fmt::format("{}, {}", from("layer_types"), from(local.key)));
  }

  void read_softcap() {
    const std::string key = "attn_logit_softcapping";
    const json* value = find(key);
    if (value != nullptr && !(value->is_number() && *value > 0))
      return refuse(key, "must be a number above 0, or null");
    const bool is_default = value == nullptr && family_->softcap > 0 && !has_null(key);
    if (value == nullptr && !is_default) return;
    model_.softcap = "yes";
    take("softcap", value != nullptr ? value->dump() : fmt::format("{}", family_->softcap),
         value != nullptr ? from(key) : by_default(key));
  }

  const json& root_;
  json text_;  ///< the language model's part
  std::string origin_, prefix_;
  const Family* family_ = nullptr;
  HfModel model_;
  std::vector<Violation> found_;
};

}  // namespace

HfModel parse_hf_model(std::string_view text, const std::string& origin) {
  const json root = parse_json(text);
  if (!root.is_object())
    throw InvalidRequest(
        {{origin, in_quotes(text), "must be the JSON object of a Hugging Face model's config.json"}});
  return Reader(root, origin).read();
}

HfModel read_hf_model(const std::filesystem::path& file) {
  std::error_code error;
  const std::filesystem::path path = std::filesystem::is_directory(file, error) ? file / "config.json" : file;
  const auto bytes = read_file(path);
  if (!bytes) throw_file_error("cannot read", path, ENOENT);
  return parse_hf_model({reinterpret_cast<const char*>(bytes->data()), bytes->size()}, path.native());
}

}  // namespace fa2::tools
