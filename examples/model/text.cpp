// Reads files and draws batches.
#include "text.h"

#include <fstream>
#include <iterator>
#include <stdexcept>

namespace example {

std::vector<std::uint8_t> read_text(const std::vector<std::string>& files, const Shape& shape) {
  std::vector<std::uint8_t> text;
  for (const std::string& name : files) {
    std::ifstream file(name, std::ios::binary);
    text.insert(text.end(), std::istreambuf_iterator<char>(file), {});
    if (!file) throw std::runtime_error("cannot read " + name);
  }
  if (static_cast<std::int64_t>(text.size()) <= shape.context)
    throw std::runtime_error("--text has " + std::to_string(text.size()) + " bytes, a sequence " +
                             std::to_string(shape.context) + ": give more");
  return text;
}

Batch random_batch(const std::vector<std::uint8_t>& text, const Shape& shape, Random& random) {
  Batch batch;
  for (std::int64_t i = 0; i < shape.batch; ++i) {
    const auto begin = text.begin() + static_cast<std::int64_t>(
                                          random() % (text.size() - static_cast<std::size_t>(shape.context)));
    batch.tokens.insert(batch.tokens.end(), begin, begin + shape.context);
    batch.targets.insert(batch.targets.end(), begin + 1, begin + 1 + shape.context);
  }
  return batch;
}

}  // namespace example
