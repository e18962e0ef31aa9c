// The attention of a Hugging Face model, by its config.json.
#pragma once

#include <fa2/types.h>
#include <tools/table.h>

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <string_view>

namespace fa2::tools {

struct HfModel {
  std::int32_t head_dim = 0;
  std::optional<DType> dtype;  ///< nullopt: the file names none
  std::string window = "no";   ///< layers with a sliding window: "yes", "no", "both"
  std::string softcap = "no";
  std::string sinks = "no";
  Lines taken;  ///< what was read, its value, and the key that has it
};

/// Reads a config.json, or the one of a folder. @throws InvalidRequest listing every key that it cannot read; CacheError if there is no file.
HfModel read_hf_model(const std::filesystem::path& file);

/// Reads its text; messages call it `origin`.
HfModel parse_hf_model(std::string_view text, const std::string& origin);

}  // namespace fa2::tools
