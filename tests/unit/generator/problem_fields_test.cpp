// The list of a problem's fields and what follows from it: each test iterates PlannedProblem::visit.
#include <api/explanation.h>
#include <autotune/bucket.h>
#include <core/enum_words.h>
#include <doctest/doctest.h>
#include <fa2/problem.h>
#include <fa2/score_text.h>
#include <generator/kernel_source.h>
#include <generator/kernel_spec.h>
#include <generator/problem_text.h>

#include <optional>
#include <string>
#include <type_traits>
#include <vector>

using namespace fa2;

namespace {

PlannedProblem example() {
  return {{.head_dim = 64,
           .head_dim_v = 128,
           .varlen = true,
           .batch = 2,
           .heads_q = 32,
           .heads_kv = 8,
           .seqlen_q = 1024,
           .seqlen_k = 4096},
          {}};
}

/// Returns another valid value, different enough for another tuning bucket.
template <class Value>
Value other(const Value& value) {
  if constexpr (std::is_enum_v<Value>) {
    return static_cast<Value>((static_cast<std::size_t>(value) + 1) % kEnumerators<Value>);
  } else if constexpr (std::is_same_v<Value, bool>) {
    return !value;
  } else if constexpr (std::is_same_v<Value, std::int32_t>) {
    return value + 8;
  } else {
    return value == 0 ? 4096 : 4 * value;
  }
}

/// Two problems that differ in one field.
struct Change {
  std::string name;
  bool specialises;
  PlannedProblem before = example();
  PlannedProblem after = example();
};

template <class Visit>
void visit_field(Change& change, const Visit& visit) {
  PlannedProblem::visit(
      [&](const char* name, FieldRole, auto& before, auto& after) {
        if (name == change.name) visit(before, after);
      },
      change.before, change.after);
}

/// Returns a change of every field's value; for an optional field also of its presence.
std::vector<Change> changes() {
  std::vector<Change> all;
  const PlannedProblem p = example();
  PlannedProblem::visit(
      [&](const char* name, FieldRole role, const auto& value) {
        all.push_back({.name = name, .specialises = role == FieldRole::specialises});
        if (kIsOptional<std::remove_cvref_t<decltype(value)>>)
          all.push_back({.name = name, .specialises = true});
      },
      p);
  for (Change& change : all) {
    if (change.name == "score_text") {
      change.after.score_text = make_score_text({.mod = "return 2.0f * score;"});
      continue;
    }
    visit_field(change, [&]<class Value>(Value& before, Value& after) {
      if constexpr (!kIsOptional<Value>) {
        after = other(before);
      } else {
        after = 4096;
        if (!change.specialises) before = 64;
      }
    });
  }
  return all;
}

std::string json_of(const PlannedProblem& problem) {
  Explanation explanation;
  explanation.problem = problem;
  explanation.options = problem;
  return to_json(explanation);
}

/// Returns the key of a kernel that computes the problem, or its gradients of K and V.
/// Returns the key of a kernel that reads the field.
std::string key_of(const PlannedProblem& problem, std::string_view field) {
  const KernelId kernel = field == "float32_dk_dv" ? KernelId::backward_dk_dv_sm80
                          : field == "float32_dq"  ? KernelId::backward_dq_sm80
                          : problem.values_in_keys ? KernelId::forward_wide
                                                   : KernelId::forward_sm80;
  return render({traits_of(problem), default_config(kernel), *find_arch("sm_80")}).key;
}

/// Converts to any field's type.
struct Anything {
  template <class Value>
  operator Value() const {
    return {};
  }
};

/// Returns how many initialisers Struct takes.
template <class Struct, class... Fields>
constexpr int field_count() {
  if constexpr (requires { Struct{Fields{}..., Anything{}}; }) {
    return field_count<Struct, Fields..., Anything>();
  } else {
    return sizeof...(Fields);
  }
}

}  // namespace

TEST_CASE("problem's fields: the list is complete") {
  int listed = 0;
  const PlannedProblem p;
  PlannedProblem::visit([&](const char*, FieldRole, const auto&) { ++listed; }, p);
  CHECK(listed == field_count<AttentionProblem>() + field_count<PlanOptions>());
}

TEST_CASE("problem's fields: each counts in comparison, hash, text, JSON and bucket") {
  for (const Change& change : changes()) {
    CAPTURE(change.name);
    const PlannedProblem &before = change.before, &after = change.after;
    CHECK(before == before);
    CHECK(before != after);
    CHECK(hash_value(before) != hash_value(after));
    CHECK(to_string(before) != to_string(after));
    CHECK(json_of(before) != json_of(after));
    // These change neither what is read nor what is computed.
    const bool is_same_bucket = change.name == "page_count" || change.name == "sm_margin" ||
                                change.name == "lse_base" || change.name == "float32_dk_dv" ||
                                change.name == "float32_dq" || change.name == "float32_out";
    CHECK((bucket_of(before) == bucket_of(after)) == is_same_bucket);
  }
}

TEST_CASE("problem's fields: fields that specialise are traits; names, keys and flags contain them") {
  for (const Change& change : changes()) {
    CAPTURE(change.name);
    const AttentionTraits a = traits_of(change.before), b = traits_of(change.after);
    CHECK((a == b) != change.specialises);
    CHECK((to_string(a) == to_string(b)) != change.specialises);
    CHECK((flags_of(a) == flags_of(b)) != change.specialises);
    CHECK((key_of(change.before, change.name) == key_of(change.after, change.name)) != change.specialises);
  }
}

TEST_CASE("problem's fields: traits of a problem have the problem's values") {
  const AttentionTraits traits = traits_of(example());
  CHECK(traits_of(traits) == traits);
  CHECK(traits.head_dim_v == 128);
  CHECK(traits.heads_q == AttentionProblem{}.heads_q);
  CHECK(traits.seqlen_k == 0);
  CHECK(traits_of({{.head_dim = 64}, {}}) == traits_of({{.head_dim = 64, .head_dim_v = 64, .batch = 7}, {}}));
}

TEST_CASE("problem's fields: flags") {
  CHECK(flags_of(traits_of(example())) ==
        "--dtype f16 --head-dim 64 --head-dim-v 128 --mask none --alignment bytes16 --varlen");
  CHECK(flag_of("heads_q") == "--heads");
  CHECK(flag_of("seqlen_k") == "--seqlen-k");
}
