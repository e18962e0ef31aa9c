// The attention parameters of a Hugging Face model, from its config.json.
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
  std::int32_t head_dim = 0, head_dim_v = 0;  ///< head_dim_v 0: head_dim
  std::optional<DType> dtype;                 ///< nullopt: the file names none
  std::string window = "no";                  ///< whether layers have a sliding window: "yes", "no", "both"
  std::string chunk = "no";                   ///< the same of chunks
  std::string softcap = "no";
  std::string sinks = "no";
  std::string latents = "no";  ///< V is the first head_dim_v columns of K
  Lines taken;                 ///< each parameter with its value and the key that holds it
};

/// Reads a config.json, or the one in a folder. @throws InvalidRequest listing every key that it cannot read;
/// CacheError if there is no file.
HfModel read_hf_model(const std::filesystem::path& file);

/// Parses the text of a config.json. Messages name it `origin`.
HfModel parse_hf_model(std::string_view text, const std::string& origin);

}  // namespace fa2::tools
