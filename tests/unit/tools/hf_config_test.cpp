// The attention of Hugging Face models, from configurations like the published ones.
#include <doctest/doctest.h>
#include <fa2/errors.h>
#include <tools/hf_config.h>
#include <tools/trait_options.h>

#include <algorithm>
#include <string>
#include <utility>
#include <vector>

using namespace fa2;
using tools::HfModel;
using tools::parse_hf_model;

namespace {

HfModel model_of(const std::string& name) {
  return tools::read_hf_model(std::filesystem::path(FA2_SOURCE_DIR "/tests/hf_configs") / (name + ".json"));
}

std::string flags_of(const HfModel& model) {
  tools::TraitOptions options;
  options.take(model);
  return options.flags();
}

/// Returns where the model's `label` was taken from; "" if it was not taken.
std::string taken(const HfModel& model, const std::string& label) {
  const auto line = std::ranges::find(model.taken, label, [](const auto& pair) { return pair.first; });
  return line == model.taken.end() ? "" : line->second;
}

std::string error_of(const std::string& text) {
  try {
    parse_hf_model(text, "config.json");
  } catch (const InvalidRequest& error) {
    return error.what();
  }
  return "";
}

}  // namespace

TEST_CASE("hf: each family becomes the traits that its kernels need") {
  const std::string bf16 = " --dtype bf16 --causal yes";
  const std::vector<std::pair<std::string, std::string>> expected = {
      {"llama", "--head-dim 128" + bf16},
      {"mistral", "--head-dim 128" + bf16 + " --window-left yes"},
      {"qwen2", "--head-dim 128" + bf16},
      {"qwen3", "--head-dim 128" + bf16},
      {"gemma2", "--head-dim 256 --dtype f16,bf16 --causal yes --softcap yes --window-left both"},
      {"gemma3", "--head-dim 256" + bf16 + " --window-left both"},
      {"phi3", "--head-dim 96" + bf16 + " --window-left yes"},
      {"gpt_oss", "--head-dim 64" + bf16 + " --sinks yes --window-left both"},
      {"llama4", "--head-dim 128" + bf16 + " --attention-chunk both"},
      {"deepseek_v3", "--head-dim 576 --head-dim-v 512" + bf16 + " --values-in-keys yes"},
  };
  for (const auto& model : expected) {
    CAPTURE(model.first);
    CHECK(flags_of(model_of(model.first)) == model.second);
  }
}

TEST_CASE("hf: every value that was taken names its key, or the default") {
  const HfModel llama = model_of("llama");
  CHECK(taken(llama, "model") == "llama (model_type)");
  CHECK(taken(llama, "head dim") == "128 (hidden_size / num_attention_heads)");
  CHECK(taken(llama, "key/value heads") == "8 (num_key_value_heads)");
  CHECK(taken(llama, "dtype") == "bfloat16 (torch_dtype)");
  CHECK(taken(llama, "window").empty());
  CHECK(taken(model_of("mistral"), "window") == "4096 in all layers (sliding_window)");
  CHECK(taken(model_of("qwen2"), "window") == "no (use_sliding_window is not true)");
  const HfModel gemma3 = model_of("gemma3");
  CHECK(taken(gemma3, "model") == "gemma3_text (text_config.model_type)");
  CHECK(taken(gemma3, "head dim") == "256 (gemma3_text's default: no text_config.head_dim)");
  CHECK(taken(gemma3, "window") == "1024 in some layers (text_config.sliding_window)");
  CHECK(taken(gemma3, "dtype") == "bfloat16 (torch_dtype)");
  CHECK(taken(model_of("gemma2"), "softcap") == "50.0 (attn_logit_softcapping)");
  CHECK(taken(model_of("llama4"), "chunk") == "8192 in some layers (text_config.attention_chunk_size)");
  const HfModel deepseek = model_of("deepseek_v3");
  CHECK(taken(deepseek, "head dim") == "512 + 64 (kv_lora_rank, qk_rope_head_dim)");
  CHECK(taken(deepseek, "head dim of V") == "512 (kv_lora_rank)");
  CHECK(taken(parse_hf_model(R"({"model_type": "kimi_k2", "qk_rope_head_dim": 32})", "x"), "head dim") ==
        "512 + 32 (kimi_k2's default: no kv_lora_rank, qk_rope_head_dim)");
  const HfModel gpt_oss = model_of("gpt_oss");
  CHECK(taken(gpt_oss, "window") == "128 in 2 of 4 layers (layer_types, sliding_window)");
  CHECK(taken(gpt_oss, "sinks") == "yes (gpt_oss has them in every layer)");
}

TEST_CASE("hf: layer types decide which layers have a window; null means none has") {
  const auto window = [](const std::string& keys) {
    return parse_hf_model(R"({"model_type": "gemma3_text", )" + keys + "}", "x").window;
  };
  CHECK(window(R"("layer_types": ["full_attention"], "sliding_window": 512)") == "no");
  CHECK(window(R"("layer_types": ["sliding_attention"], "sliding_window": 512)") == "yes");
  CHECK(window(R"("sliding_window": null)") == "no");
  CHECK(window(R"("sliding_window": 512)") == "both");
  CHECK(window(R"("head_dim": 128)") == "both");
  CHECK(parse_hf_model(R"({"model_type": "gemma2"})", "x").softcap == "yes");
  CHECK(parse_hf_model(R"({"model_type": "gemma2", "attn_logit_softcapping": null})", "x").softcap == "no");
  CHECK(
      parse_hf_model(R"({"model_type": "qwen2", "head_dim": 64, "use_sliding_window": true})", "x").window ==
      "both");
  CHECK_FALSE(parse_hf_model(R"({"model_type": "llama", "head_dim": 64})", "x").dtype.has_value());
}

TEST_CASE("hf: layer types decide which layers have chunks") {
  const auto chunk = [](const std::string& keys) {
    return parse_hf_model(R"({"model_type": "llama4_text", )" + keys + "}", "x").chunk;
  };
  CHECK(chunk(R"("layer_types": ["full_attention"])") == "no");
  CHECK(chunk(R"("layer_types": ["chunked_attention", "full_attention"])") == "both");
  CHECK(chunk(R"("layer_types": ["chunked_attention"])") == "yes");
  CHECK(chunk(R"("attention_chunk_size": null)") == "no");
  CHECK(
      error_of(
          R"({"model_type": "llama4_text", "attention_chunk_size": null, "layer_types": ["chunked_attention"]})")
          .find("attention_chunk_size = missing, must be given: layer_types has chunked_attention") !=
      std::string::npos);
}

TEST_CASE("hf: keys that cannot be read are listed by name, all at once") {
  CHECK(error_of("[1]").find("config.json = \"[1]\", must be the JSON object of a Hugging Face model's") !=
        std::string::npos);
  CHECK(error_of("{").find("must be the JSON object") != std::string::npos);
  CHECK(error_of(R"({"model_type": "bert"})")
            .find("config.json: model_type = \"bert\", must be one of llama, llama4_text, mistral") !=
        std::string::npos);
  CHECK(error_of("{}").find("config.json: model_type = missing, must be one of") != std::string::npos);
  CHECK(error_of(R"({"model_type": "llama"})").find("hidden_size = missing, must be given, or head_dim") !=
        std::string::npos);
  CHECK(error_of(R"({"model_type": "llama", "hidden_size": 100, "num_attention_heads": 3})")
            .find("hidden_size = 100, must be a multiple of num_attention_heads, 3, or head_dim given") !=
        std::string::npos);
  const std::string both = error_of(
      R"({"model_type": "gemma2", "head_dim": "wide", "layer_types": ["chunked_attention"], "attn_logit_softcapping": -1})");
  CHECK(both.find("head_dim = \"wide\", must be a whole number above 0") != std::string::npos);
  CHECK(
      both.find(
          "layer_types = [\"chunked_attention\"], must be a list of sliding_attention and full_attention") !=
      std::string::npos);
  CHECK(both.find("attn_logit_softcapping = -1, must be a number above 0, or null") != std::string::npos);
  CHECK(error_of(R"({"model_type": "gemma3_text", "use_bidirectional_attention": true})")
            .find("use_bidirectional_attention = true, must be false") != std::string::npos);
  CHECK(error_of(R"({"model_type": "llama", "head_dim": 64, "layer_types": ["sliding_attention"]})")
            .find("sliding_window = missing, must be given: layer_types has sliding_attention") !=
        std::string::npos);
  CHECK_THROWS_AS(tools::read_hf_model("/nowhere/config.json"), CacheError);
}
