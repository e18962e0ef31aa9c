// The table of kernel kinds: what every row must fulfil.
#include <core/arch.h>
#include <doctest/doctest.h>
#include <fa2/errors.h>
#include <fa2/score_text.h>
#include <generator/config_space.h>
#include <generator/embedded.h>
#include <generator/kernel_kind.h>
#include <generator/kernel_source.h>
#include <generator/kernels/rules.h>

#include <algorithm>
#include <set>
#include <string>
#include <string_view>
#include <vector>

using namespace fa2;

namespace {

/// Returns traits that the kind computes. Only the mask kernel must have dropout, and not every kernel may. forward_wide leaves
/// narrow heads to others.
AttentionTraits traits(const KernelKind& kind) {
  PlannedProblem problem{{.head_dim = kind.id == KernelId::forward_wide ? 512 : 128,
                          .mask = MaskKind::causal_bottom_right,
                          .sinks = true,
                          .dropout = kind.id == KernelId::dropout_mask},
                         {}};
  if (kind.id == KernelId::key_map) problem.score_text = make_score_text({.mask = "return true;"});
  if (kind.id == KernelId::backward_captures)
    problem.score_text =
        make_score_text({.bias = "return a(at.key);", .captures = {{"a", CaptureType::f32, 1}}});
  return traits_of(problem);
}

const Arch& arch_of(const KernelKind& kind) {
  const auto found =
      std::ranges::find_if(known_archs(), [&](const Arch& arch) { return kind.runs_on(arch); });
  REQUIRE(found != known_archs().end());
  return *found;
}

/// Returns why the kernel does not compute these traits at all: "" but for one that is not written yet.
std::string refusal(const KernelKind& kind) {
  BrokenRules rules;
  kind.supports(traits(kind), rules);
  return rules.text();
}

/// Returns the rules that the default config breaks if one field has another value.
std::string broken_with(const KernelKind& kind, std::string_view field, std::int32_t value) {
  KernelConfig config = kind.default_config;
  KernelConfig::visit(config, [&](std::string_view name, std::int32_t& v) {
    if (name == field) v = value;
  });
  return why_rejected({traits(kind), config, arch_of(kind)}).value_or("");
}

std::vector<std::string_view> fields() {
  constexpr KernelConfig kConfig;
  std::vector<std::string_view> names;
  KernelConfig::visit(kConfig, [&](std::string_view name, std::int32_t) { names.push_back(name); });
  return names;
}

}  // namespace

TEST_CASE("kernel kinds: each kernel has a kind, whose default config names the kernel") {
  CHECK(kernel_kinds().size() == kEnumerators<KernelId>);
  for (std::size_t i = 0; i < kernel_kinds().size(); ++i) {
    const KernelKind& kind = *kernel_kinds()[i];
    CHECK(kind.id == static_cast<KernelId>(i));
    CHECK(kind.default_config.kernel == kind.id);
    CHECK(&kind_of(kind.default_config) == &kind);
    CHECK((kind.conversion != nullptr) == sums_dq(kind.pass));
    CHECK(bool{kind.make_step != nullptr});
  }
}

TEST_CASE("kernel kinds: an unknown kernel number is an error that lists the kernels") {
  try {
    kind_of(static_cast<KernelId>(99));
    FAIL("there is a kernel 99");
  } catch (const InvalidRequest& error) {
    REQUIRE(error.violations().size() == 1);
    CHECK(to_string(error.violations()[0]).starts_with("kernel = 99, must be forward_sm80 (0), "));
  }
}

TEST_CASE("kernel kinds: the main template defines the entry") {
  for (const KernelKind* kind : kernel_kinds())
    CHECK(embedded_template(kind->main).find(std::string(kind->entry) + "(") != std::string_view::npos);
}

TEST_CASE("kernel kinds: tunables are fields of the config, in its order") {
  for (const KernelKind* kind : kernel_kinds()) {
    std::vector<std::string_view> of_config;
    for (const std::string_view name : fields()) {
      if (kind->tunable(name) != nullptr) of_config.push_back(name);
    }
    CHECK(std::ranges::equal(of_config, kind->tunables, {}, {}, &Tunable::name));
  }
}

TEST_CASE("kernel kinds: each tunable has a range, and fields that a kind ignores keep their neutral value") {
  for (const KernelKind* kind : kernel_kinds()) {
    for (const std::string_view field : fields()) {
      CAPTURE(std::string(field));
      const std::string name(field);
      if (const Tunable* tunable = kind->tunable(field)) {
        const std::string range =
            ", must be " + std::to_string(tunable->least) + ".." + std::to_string(tunable->most);
        for (const std::int32_t value : {tunable->least - 1, tunable->most + 1})
          CHECK(broken_with(*kind, field, value).find(name + " = " + std::to_string(value) + range) == 0);
      } else {
        const std::string rule = " for " + std::string(kind->name());
        CHECK(broken_with(*kind, field, 99).find(name + " = 99, must be ") == 0);
        CHECK(broken_with(*kind, field, 99).find(rule) != std::string::npos);
      }
    }
  }
}

TEST_CASE("kernel kinds: the default computes, and every config that tuning may try belongs to the kind") {
  for (const KernelKind* kind : kernel_kinds()) {
    const Arch& arch = arch_of(*kind);
    CHECK(why_rejected({traits(*kind), kind->default_config, arch}).value_or("") == refusal(*kind));
    for (const KernelConfig& config : kind->every_config(traits(*kind), arch)) {
      CHECK(&kind_of(config) == kind);
      const std::string broken = why_rejected({traits(*kind), config, arch}).value_or("");
      CHECK_MESSAGE(broken.find(" for " + std::string(kind->name())) == std::string::npos, broken);
      CHECK_MESSAGE(broken.find("..") == std::string::npos, broken);
    }
  }
}

TEST_CASE("kernel kinds: config.cuh names only tunables that are not neutral") {
  for (const KernelKind* kind : kernel_kinds()) {
    if (!refusal(*kind).empty()) continue;
    const KernelSpec spec{traits(*kind), kind->default_config, arch_of(*kind)};
    const std::string text = render(spec).headers.front().text;
    const std::vector<RenderedConstant> constants = kind->constants(spec);
    KernelConfig::visit(spec.config, [&](const std::string& field, std::int32_t value) {
      CAPTURE(field);
      const bool is_constant = std::ranges::count(constants, field, &RenderedConstant::name) == 1;
      const bool is_named = value != neutral_value(field) || is_constant;
      CHECK((text.find("int " + field + " = ") != std::string::npos) == is_named);
    });
  }
}

TEST_CASE("kernel kinds: each has its own head dims, and a problem may have those of any forward kernel") {
  for (const KernelKind* kind : kernel_kinds()) {
    PlannedProblem p{{.head_dim = kind->head_dims.most + 8, .sinks = true}, {}};
    p.dropout = kind->id == KernelId::dropout_mask;
    const std::string broken =
        why_rejected({traits_of(p), kind->default_config, arch_of(*kind)}).value_or("");
    CHECK(broken.find(rule_of(kind->head_dims) + " for " + std::string(kind->name())) != std::string::npos);
  }
  const HeadDims forward = head_dims_of(KernelPass::forward, &KernelKind::head_dims);
  CHECK(forward.least == 8);
  CHECK(forward.most == 576);
  CHECK(rule_of(forward) == "must be a multiple of 8 in 8..576");
  CHECK(head_dims_of(KernelPass::forward, &KernelKind::head_dims_v).most == 512);
  CHECK(head_dims_of(KernelPass::dq, &KernelKind::head_dims).most == 256);
}
