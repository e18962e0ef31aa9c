// Names of the public enumerations.
#include <core/enum_words.h>

namespace fa2 {

std::string_view to_string(DType dtype) {
  return word_of(dtype);
}

std::string_view to_string(KvType type) {
  return word_of(type);
}

std::string_view to_string(LseBase base) {
  return word_of(base);
}

std::string_view to_string(MaskKind mask) {
  return word_of(mask);
}

std::string_view to_string(RowAlignment alignment) {
  return word_of(alignment);
}

std::string_view to_string(KernelId kernel) {
  return word_of(kernel);
}

std::string_view to_string(KernelOrigin origin) {
  return word_of(origin);
}

std::string_view to_string(ConfigOrigin origin) {
  return word_of(origin);
}

}  // namespace fa2
