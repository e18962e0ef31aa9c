// The words of the enumerations.
#include <core/enum_words.h>
#include <doctest/doctest.h>
#include <runtime/env.h>

#include <algorithm>

using namespace fa2;

namespace {

template <class Enum>
void check_words() {
  for (const EnumWord<Enum>& named : kWords<Enum>) {
    CAPTURE(std::string(named.word));
    CHECK(word_of(named.value) == named.word);
    CHECK(enumerator_of<Enum>(named.word) == named.value);
    CHECK(is_enumerator(named.value));
  }
  const Enum beyond = static_cast<Enum>(kEnumerators<Enum>);
  CHECK_FALSE(is_enumerator(beyond));
  CHECK(word_of(beyond) == "invalid");
  CHECK_FALSE(enumerator_of<Enum>("").has_value());
  CHECK(words_of<Enum>().size() == kEnumerators<Enum>);
}

std::string_view values_of(std::string_view name) {
  return std::ranges::find(environment(), name, &EnvVariable::name)->values;
}

}  // namespace

TEST_CASE("words: every enumerator has a word, and no other value does") {
  check_words<DType>();
  check_words<MaskKind>();
  check_words<RowAlignment>();
  check_words<EmptyRowLse>();
  check_words<RotaryStyle>();
  check_words<KernelOrigin>();
  check_words<ConfigOrigin>();
  check_words<TuneMode>();
  check_words<JitMode>();
}

TEST_CASE("words: rules list them") {
  CHECK(rule_of<DType>() == "must be f16 (0) or bf16 (1)");
  CHECK(rule_of<MaskKind>() == "must be none (0), causal_bottom_right (1) or causal_top_left (2)");
}

TEST_CASE("words: variables are parsed from them") {
  CHECK(values_of("FA2_TUNE") == "off, stored, learn, adaptive, now");
  CHECK(values_of("FA2_JIT") == "on, off, lazy");
}
