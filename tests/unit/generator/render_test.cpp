// The sources that render() makes: complete, self-contained, and rejected if the config does not fit.
#include <core/hash.h>
#include <doctest/doctest.h>
#include <fa2/errors.h>
#include <fmt/format.h>
#include <generator/config_space.h>
#include <generator/embedded.h>
#include <generator/kernel_kind.h>
#include <generator/kernel_source.h>
#include <generator/template_set.h>
#include <tests/support/cache_fixtures.h>

#include <algorithm>
#include <map>
#include <optional>
#include <set>
#include <sstream>
#include <string>
#include <vector>

using namespace fa2;

namespace {

/// Returns the spec whose rendered form the placeholder templates/config.cuh shows.
KernelSpec shown_spec() {
  return {traits_of({{.head_dim = 128, .mask = MaskKind::causal_bottom_right}, {}}),
          parse_config("tile_m=128,tile_n=64,warps=4,stages=2"), *find_arch("sm_80")};
}

/// Returns one spec per forward kernel, for a GPU and for the interpreter.
std::vector<KernelSpec> every_kind() {
  std::vector<KernelSpec> specs;
  for (const char* arch : {"sm_80", "sm_90a", "interpreter"}) {
    specs.push_back(shown_spec());
    specs.back().arch = *find_arch(arch);
    if (specs.back().arch.compute_capability != 90) continue;
    specs.push_back(specs.back());
    specs.back().config = parse_config(
        "kernel=forward_sm90,tile_m=128,tile_n=64,warps=8,stages=2,q_buffers=1,schedule=2,overlap=1");
  }
  return specs;
}

std::string value_of(const KernelSource& source, std::string_view part) {
  const auto found = std::ranges::find(source.key_parts, part, &KeyPart::name);
  return found == source.key_parts.end() ? "" : found->value;
}

/// Returns the operand of each #include, with its quotes or brackets.
std::vector<std::string> includes_of(const std::string& text) {
  std::vector<std::string> names;
  std::istringstream lines(text);
  for (std::string line; std::getline(lines, line);) {
    std::istringstream words(line);
    std::string directive, name;
    if (words >> directive >> name && directive == "#include") names.push_back(name);
  }
  return names;
}

/// Returns the text after the first line.
std::string without_first_line(std::string_view text) {
  return std::string(text.substr(text.find('\n') + 1));
}

/// CHECKs that kernels of these passes alone have other keys for `changed` than for a plain problem of head dim 64.
void expect_readers(const AttentionProblem& changed, bool (*read)(KernelPass)) {
  const AttentionProblem plain{.head_dim = 64};
  for (const KernelKind* kind : kernel_kinds()) {
    CAPTURE(kind->name());
    const Arch& arch = *find_arch("sm_90a");
    const auto key_of = [&](const AttentionProblem& problem) {
      return render({traits_of({problem.normalized(), {}}), kind->default_config, arch}).key;
    };
    if (why_rejected({traits_of({plain.normalized(), {}}), kind->default_config, arch})) continue;
    CHECK((key_of(changed) != key_of(plain)) == read(kind->pass));
  }
}

}  // namespace

TEST_CASE("render: a config that does not fit is an InvalidRequest with the broken rule") {
  KernelSpec spec = shown_spec();
  spec.config.stages = 9;
  try {
    render(spec);
    FAIL("stages = 9 was rendered");
  } catch (const InvalidRequest& error) {
    REQUIRE(error.violations().size() == 1);
    CHECK(error.violations()[0].field == "config");
    CHECK(error.violations()[0].value == to_string(spec.config));
    CHECK(error.violations()[0].rule == why_rejected(spec));
  }
}

TEST_CASE("render: the headers are exactly those that main includes") {
  for (const KernelSpec& spec : every_kind()) {
    const KernelSource source = render(spec);
    CAPTURE(source.spec);
    std::map<std::string, std::string> texts;
    for (const SourceFile& header : source.headers) {
      CHECK_MESSAGE(texts.emplace(header.name, header.text).second, header.name, " twice");
      for (const std::string& name : includes_of(header.text)) {
        CHECK_MESSAGE((name.front() == '"' || spec.arch.interpreted), header.name, " includes ", name);
      }
    }
    std::set<std::string> reached;
    std::vector<std::string> open = includes_of(source.main.text);
    while (!open.empty()) {
      const std::string quoted = open.back();
      open.pop_back();
      const std::string name = quoted.substr(1, quoted.size() - 2);
      if (quoted.front() != '"' || !reached.insert(name).second) continue;
      REQUIRE_MESSAGE(texts.count(name) == 1, quoted, " is not among the headers");
      for (const std::string& next : includes_of(texts[name])) open.push_back(next);
    }
    CHECK(reached.count("config.cuh") == 1);
    CHECK(reached.size() > 10);
    CHECK(reached.size() == texts.size());
  }
}

TEST_CASE("key: it depends only on templates that the kernel includes") {
  std::set<std::string> digests;
  for (const KernelSpec& spec : every_kind()) {
    const KernelSource source = render(spec);
    CAPTURE(source.spec);
    std::string covered =
        fmt::format("{} {}\n{}", source.main.name, source.main.text.size(), source.main.text);
    for (const SourceFile& header : source.headers) {
      std::string text = header.text;
      if (header.name == kDefaultsHeader) {
        text = named_defaults(text, template_set(kind_of(spec.config), spec.arch).headers);
      } else if (header.name == kConfigHeader) {
        continue;  // a separate part of the key
      } else if (text.starts_with("// Rendered by fa2")) {
        text = embedded_template(header.name);  // what is rendered is a separate part of the key
      }
      covered += fmt::format("{} {}\n{}", header.name, text.size(), text);
      const bool of_hopper = header.name.find("sm90") != std::string::npos || header.name == "ptx/tma.cuh";
      CHECK_MESSAGE((!of_hopper || spec.config.kernel == KernelId::forward_sm90), header.name);
    }
    CHECK(value_of(source, "templates") == content_hash(covered));
    CHECK(value_of(source, "templates") == template_digest(spec.config, spec.arch));
    digests.insert(value_of(source, "templates"));
  }
  CHECK(digests.size() == 4);  // two kernels, each for GPUs and for the interpreter; sm_80 and sm_90a share
}

TEST_CASE("named_defaults: leaves out a constant that no file names") {
  const std::string_view defaults =
      "struct ConfigDefaults {\n  using Element = Half;\n  static constexpr bool softcap = false;\n"
      "  static constexpr int new_variant = 0;\n};\n";
  const EmbeddedFile files[] = {{kDefaultsHeader, defaults},
                                {"a.cuh", "if (Config::softcap) {}\n"},
                                {"b.cuh", "typename Config::Element e;\n"}};
  CHECK(named_defaults(defaults, files) ==
        "  using Element = Half;\n  static constexpr bool softcap = false;\n");
  CHECK(named_defaults(defaults, {}).empty());
}

TEST_CASE("included_by follows includes through files, in the files' order, each once") {
  const EmbeddedFile files[] = {{"a.cuh", "#include \"dir/c.cuh\"\n"},
                                {"b.cuh", "int b;\n"},
                                {"dir/c.cuh", "#pragma once\n#include \"a.cuh\"\n#include <cstdint>\n"},
                                {"d.cuh", "#include \"b.cuh\"\n#include \"missing.cuh\"\n"}};
  const auto names = [&](std::string_view text) {
    std::string all;
    for (const EmbeddedFile& file : included_by(text, files)) all += std::string(file.name) + " ";
    return all;
  };
  CHECK(names("#include \"dir/c.cuh\"\nint main;\n") == "a.cuh dir/c.cuh ");
  CHECK(names("#include \"d.cuh\"\n") == "b.cuh d.cuh ");
  CHECK(names("#include <a.cuh>\n").empty());
  CHECK(names("").empty());
}

TEST_CASE("render: bytes16 and bytes16_any_order give forward_sm80 one source and one key, element another") {
  for (const char* arch : {"sm_80", "sm_90a", "sm_120", "interpreter"}) {
    CAPTURE(arch);
    KernelSpec spec = shown_spec();
    spec.arch = *find_arch(arch);
    spec.config = parse_config("tile_m=64,tile_n=32,stages=1");
    const KernelSource ascending = render(spec);
    spec.traits.row_alignment = RowAlignment::bytes16_any_order;
    const KernelSource any_order = render(spec);
    CHECK(any_order.key == ascending.key);
    CHECK(any_order.spec == ascending.spec);
    CHECK(any_order.main.text == ascending.main.text);
    CHECK(std::ranges::equal(any_order.headers, ascending.headers, {}, &SourceFile::text, &SourceFile::text));
    spec.traits.row_alignment = RowAlignment::element;
    CHECK(render(spec).key != ascending.key);
  }
}

TEST_CASE("render: a trait that a kernel does not read changes neither its source nor its key") {
  const AttentionProblem plain{.head_dim = 64}, with_variants{.head_dim = 64,
                                                              .mask = MaskKind::causal_bottom_right,
                                                              .softcap = true,
                                                              .sinks = true,
                                                              .varlen = true};
  const auto rendered = [](const AttentionProblem& problem, const KernelKind& kind) {
    return render({traits_of({problem.normalized(), {}}), kind.default_config, *find_arch("sm_80")});
  };
  for (const KernelKind* kind : {&kernels::append, &kernels::merge, &kernels::dropout_mask}) {
    CAPTURE(kind->name());
    const KernelSource source = rendered(plain, *kind);
    CHECK(rendered(with_variants, *kind).key == source.key);
    CHECK(rendered(with_variants, *kind).spec == source.spec);
    CHECK(source.headers.at(0).text.find("softcap") == std::string::npos);
    const bool reads_dtype = kind != &kernels::dropout_mask;
    CHECK((rendered({.dtype = DType::bf16, .head_dim = 64}, *kind).key != source.key) == reads_dtype);
    CHECK((rendered({.head_dim = 72}, *kind).key != source.key) == reads_dtype);
  }
  CHECK(rendered(with_variants, kernels::forward_sm80).key != rendered(plain, kernels::forward_sm80).key);
}

TEST_CASE(
    "render: only kernels that store dK or dV, or add up parts of them, know whether these are float32") {
  expect_readers({.head_dim = 64, .float32_dk_dv = true}, [](KernelPass pass) {
    using enum KernelPass;
    return sums_dq(pass) || pass == dk_dv || pass == dk || pass == dv || pass == dq_convert;
  });
}

TEST_CASE("render: only kernels that store dQ know whether it is float32") {
  expect_readers({.head_dim = 64, .float32_dq = true},
                 [](KernelPass pass) { return pass == KernelPass::dq || pass == KernelPass::dq_convert; });
}

TEST_CASE("render: only forward kernels know whether O is float32, and kernels of gradients refuse it") {
  const AttentionProblem plain{.head_dim = 64}, floats{.head_dim = 64, .float32_out = true};
  for (const KernelKind* kind : kernel_kinds()) {
    CAPTURE(kind->name());
    const auto spec_of = [&](const AttentionProblem& problem) {
      return KernelSpec{traits_of({problem.normalized(), {}}), kind->default_config, *find_arch("sm_90a")};
    };
    if (why_rejected(spec_of(plain))) continue;
    const bool is_forward = kind->pass == KernelPass::forward, is_row = kind->pass == KernelPass::rows;
    const std::optional<std::string> why = why_rejected(spec_of(floats));
    CHECK(why.has_value() == (!is_forward && !is_row));
    if (why) {
      CHECK(why->starts_with(fmt::format("float32_out is not for {}", kind->name())));
      continue;
    }
    CHECK((render(spec_of(floats)).key != render(spec_of(plain)).key) == is_forward);
  }
}

TEST_CASE("render: the same spec gives the same bytes") {
  const KernelSource a = render(shown_spec()), b = render(shown_spec());
  const auto same = [](const SourceFile& x, const SourceFile& y) {
    return x.name == y.name && x.text == y.text;
  };
  CHECK(a.key == b.key);
  CHECK(same(a.main, b.main));
  CHECK(std::ranges::equal(a.headers, b.headers, same));
  CHECK(a.options == b.options);
}

TEST_CASE("render: threads, shared memory and arch agree with the spec, and main defines the entry") {
  const KernelSpec spec = shown_spec();
  const KernelSource source = render(spec);
  CHECK(source.threads == 128);
  CHECK(source.shared_bytes == 98304);
  CHECK(source.arch.name == "sm_80");
  CHECK(source.options.front() == "--gpu-architecture=sm_80");
  CHECK(source.main.text.find(source.entry) != std::string::npos);
}

TEST_CASE("render: the placeholder config.cuh is what is rendered for its spec") {
  const KernelSource source = render(shown_spec());
  REQUIRE(source.headers.front().name == "config.cuh");
  CHECK(without_first_line(source.headers.front().text) ==
        without_first_line(test::read_text(FA2_SOURCE_DIR "/templates/config.cuh")));
}
