// Builds images of memory: as it is before a call, and as it must be afterwards.
#include "append_call.h"

#include <core/float_bits.h>
#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>

namespace fa2::test {
namespace {

constexpr float kNaN = std::numeric_limits<float>::quiet_NaN();
constexpr std::int32_t kWrong[] = {std::numeric_limits<std::int32_t>::max(), -1, 0, 1};

std::size_t index(std::int64_t offset) {
  return static_cast<std::size_t>(offset);
}

std::int64_t offset_of(const Layout& layout, std::int64_t entry, std::int64_t head, std::int64_t row) {
  const TensorStrides& s = layout.strides;
  return layout.first + entry * s.batch + head * s.head + row * s.row;
}

/// Returns the layout of an (entry, row, head, column) tensor.
Layout layout_of(std::int64_t entries, std::int64_t heads, std::int64_t rows, std::int64_t dim, int shift) {
  return guarded({entries, heads, rows, dim}, TensorStrides::bshd(rows, heads, dim), shift);
}

/// Returns an image that has only the rows of `moved`, and NaN elsewhere.
std::vector<std::uint16_t> image_of(const Layout& layout, const std::vector<reference::MovedRow>& moved,
                                    DType dtype, unsigned seed) {
  const reference::Tensor tensor = random_tensor(layout.shape, dtype, seed);
  std::vector<std::uint16_t> image(index(layout.total), kNaNBits);
  for (const reference::MovedRow& row : moved) {
    for (std::int64_t head = 0; head < layout.shape.heads; ++head) {
      for (std::int64_t col = 0; col < layout.shape.dim; ++col)
        image[index(offset_of(layout, row.entry, head, row.row) + col)] =
            to_bits(tensor.at(row.entry, head, row.row, col), dtype);
    }
  }
  return image;
}

template <class Word>
DeviceBuffer sent(const std::vector<Word>& image) {
  DeviceBuffer buffer(image.size() * sizeof(Word));
  buffer.upload(image.data(), buffer.size());
  return buffer;
}

/// The first factor of an 8-bit cache. Odd multiples of it divided by it are ties, but not if its reciprocal multiplies them.
constexpr float kFactor = 63.0F / 4096;

/// Replaces every third element that is not NaN.
void add_extremes(std::vector<std::uint16_t>& image, DType dtype) {
  constexpr float kInfinity = std::numeric_limits<float>::infinity();
  constexpr float kExtremes[] = {kNaN,         kInfinity,     -kInfinity,    65504,        -60000,
                                 448,          -448,          463.9F,        464,          -464.5F,
                                 0x1p-9F,      0x1p-10F,      -0x1.8p-10F,   0x1p-20F,     -0.0F,
                                 68 * kFactor, -84 * kFactor, 100 * kFactor, 116 * kFactor};
  std::size_t number = 0;
  for (std::uint16_t& bits : image) {
    if (bits != kNaNBits && ++number % 3 == 0)
      bits = to_bits(kExtremes[number / 3 % std::size(kExtremes)], dtype);
  }
}

/// Returns the element type of the cache.
ElementType cached(const AppendProblem& p) {
  return element_of(p.kv_type, p.dtype);
}

std::int64_t value_dim(const AppendProblem& p) {
  return p.head_dim_v == 0 ? p.head_dim : p.head_dim_v;
}

}  // namespace

struct AppendCall::Expected {
  Image bits;
  std::vector<double> number;  ///< NaN if the bits must match

  explicit Expected(const Image& before) : bits(before), number(before.size(), kNaN) {}

  /// Describes the first element that is not as expected; empty if all are.
  std::string difference(const char* name, const Image& after, ElementType type) const {
    const double unit = type == ElementType::f16 ? 0x1p-11 : 0x1p-8;
    for (std::size_t i = 0; i < after.size(); ++i) {
      const double got = from_bits(after[i], type), want = number[i];
      const bool is_right = std::isnan(want) ? is_same(after[i], bits[i], type)
                                             : std::fabs(got - want) <= unit * std::fabs(want) + 1.5e-6;
      if (is_right) continue;
      return std::string(name) + "[" + std::to_string(i) + "] is " + std::to_string(got) + ", not " +
             std::to_string(std::isnan(want) ? from_bits(bits[i], type) : want) + "\n";
    }
    return "";
  }

  /// The sign of an e4m3 NaN is free.
  static bool is_same(std::uint16_t a, std::uint16_t b, ElementType type) {
    return a == b || (type == ElementType::e4m3 && (a & b & 0x7f) == 0x7f);
  }
};

AppendCall::AppendCall(const AppendProblem& p, const AppendTables& tables, const AppendMemory& memory)
    : problem(p),
      tables_(tables),
      appended_(reference::appended_rows(p, tables)),
      queries_(reference::turned_queries(p, tables)) {
  make_layouts(memory);
  upload_rows(memory);
  if (p.rotary_dim > 0) upload_angles(memory.shift);
  if (memory.factors != Factors::none) upload_factors(memory.factors);
  upload_tables();
}

void AppendCall::make_layouts(const AppendMemory& memory) {
  const AppendProblem& p = problem;
  const std::int64_t new_entries = p.total_new > 0 ? 1 : p.batch, q_entries = p.total_q > 0 ? 1 : p.batch;
  const std::int64_t new_rows = p.total_new > 0 ? p.total_new : p.seqlen_new;
  const std::int64_t q_rows = p.total_q > 0 ? p.total_q : p.seqlen_q;
  k_new_ = layout_of(new_entries, p.heads_kv, new_rows, p.head_dim, memory.shift);
  v_new_ = layout_of(new_entries, p.heads_kv, new_rows, value_dim(p), memory.shift);
  q_ = layout_of(q_entries, p.heads_q, q_rows, p.head_dim, memory.shift);
  q_out_ = memory.in_place ? q_
                           : guarded({q_entries, p.heads_q, q_rows, p.head_dim},
                                     TensorStrides::bhsd(q_rows, p.heads_q, p.head_dim), memory.shift);
  const std::int64_t rows = p.page_size > 0 ? p.page_size : p.cache_rows;
  const auto make = memory.heads_first ? TensorStrides::bhsd : TensorStrides::bshd;
  k_cache_ = {{p.cache_entries, p.heads_kv, rows, p.head_dim}, make(rows, p.heads_kv, p.head_dim), 0, 0};
  v_cache_ = {{p.cache_entries, p.heads_kv, rows, value_dim(p)}, make(rows, p.heads_kv, value_dim(p)), 0, 0};
  const std::int64_t k_entry = rows * p.heads_kv * p.head_dim, v_entry = rows * p.heads_kv * value_dim(p);
  const std::int64_t shift = cached(p) == ElementType::e4m3 ? 0 : memory.shift;
  k_cache_.first = kGuard + shift;
  v_cache_.first = k_cache_.first + (memory.shared_buffer ? k_entry : p.cache_entries * k_entry + kGuard);
  if (memory.shared_buffer) k_cache_.strides.batch = v_cache_.strides.batch = k_entry + v_entry;
  if (memory.shared_rows) {
    k_cache_.strides = v_cache_.strides = make(rows, p.heads_kv, p.head_dim + value_dim(p));
    v_cache_.first = kGuard + shift;
    k_cache_.first = v_cache_.first + value_dim(p);
  }
  k_cache_.total = v_cache_.total = shift + p.cache_entries * (k_entry + v_entry) + 3 * kGuard;
}

void AppendCall::upload_rows(const AppendMemory& memory) {
  const DType dtype = problem.dtype;
  k_image_ = image_of(k_new_, appended_, dtype, 1);
  v_image_ = image_of(v_new_, appended_, dtype, 2);
  q_image_ = image_of(q_, queries_, dtype, 3);
  q_out_image_ = memory.in_place ? q_image_ : Image(index(q_out_.total), kNaNBits);
  if (memory.extremes) add_extremes(k_image_, dtype), add_extremes(v_image_, dtype);
  const bool are_bytes = cached(problem) == ElementType::e4m3;
  cache_image_.assign(index(k_cache_.total), are_bytes ? kPatternBits & 0xff : kPatternBits);
  k_ = sent(k_image_), v_ = sent(v_image_), q_memory_ = sent(q_image_), q_out_memory_ = sent(q_out_image_);
  cache_ = are_bytes ? sent(std::vector<std::uint8_t>(cache_image_.begin(), cache_image_.end()))
                     : sent(cache_image_);
  args.k_new = element(k_, k_new_.first), args.k_new_strides = k_new_.strides;
  args.v_new = element(v_, v_new_.first), args.v_new_strides = v_new_.strides;
  const auto cached_element = [&](std::int64_t offset) {
    return static_cast<char*>(cache_.data()) + offset * bytes_of(cached(problem));
  };
  args.k_cache = cached_element(k_cache_.first), args.k_cache_strides = k_cache_.strides;
  args.v_cache = cached_element(v_cache_.first), args.v_cache_strides = v_cache_.strides;
  if (problem.heads_q == 0) return;
  args.q_out = element(q_out_memory_, q_out_.first), args.q_out_strides = q_out_.strides;
  args.q = memory.in_place ? args.q_out : element(q_memory_, q_.first), args.q_strides = q_.strides;
}

void AppendCall::upload_angles(int shift) {
  const AppendProblem& p = problem;
  const std::int64_t half = p.rotary_dim / 2;
  const std::int64_t stride = shift == 0 ? (half + 7) / 8 * 8 + 8 : half + 3;
  cos_values_.assign(index(p.table_rows * half), kNaN);
  sin_values_ = cos_values_;
  std::vector<float> cos(index(shift + p.table_rows * stride), kNaN), sin = cos;
  const auto fill = [&](const std::vector<reference::MovedRow>& rows) {
    for (const reference::MovedRow& row : rows) {
      for (std::int64_t i = 0; i < half; ++i) {
        const double angle = static_cast<double>(row.position + 1) *
                             std::pow(100.0, -static_cast<double>(i) / static_cast<double>(half));
        const auto as_stored = [&](double value) {
          const float number = static_cast<float>(value);
          return p.float32_tables ? number : round_to(number, p.dtype);
        };
        const std::size_t value = index(row.position * half + i),
                          place = index(shift + row.position * stride + i);
        cos[place] = cos_values_[value] = as_stored(std::cos(angle));
        sin[place] = sin_values_[value] = as_stored(std::sin(angle));
      }
    }
  };
  fill(appended_);
  fill(queries_);
  const auto send_table = [&](const std::vector<float>& values, DeviceBuffer& buffer) -> const void* {
    if (p.float32_tables) {
      buffer = sent(values);
      return static_cast<const float*>(buffer.data()) + shift;
    }
    Image bits(values.size());
    std::ranges::transform(values, bits.begin(), [&](float x) { return to_bits(x, p.dtype); });
    buffer = sent(bits);
    return element(buffer, shift);
  };
  args.cos = send_table(cos, cos_);
  args.sin = send_table(sin, sin_);
  args.table_stride = stride;
}

void AppendCall::upload_tables() {
  std::vector<std::int32_t> all;
  const auto add = [&](const std::vector<std::int32_t>& table) {
    const std::size_t first = all.size();
    all.insert(all.end(), table.begin(), table.end());
    all.push_back(kWrong[0]);
    return first;
  };
  const std::size_t seqlens = add(tables_.seqlens), rotary = add(tables_.rotary_seqlens);
  const std::size_t entries = add(tables_.cache_batch_idx);
  const std::size_t new_borders = add(tables_.cu_seqlens_new), q_borders = add(tables_.cu_seqlens_q);
  const std::size_t pages = all.size();
  args.page_table_stride = problem.max_pages + 3;
  for (std::size_t b = 0; b < tables_.page_table.size(); ++b) {
    std::vector<std::int32_t> row = tables_.page_table[b];
    while (row.size() < index(args.page_table_stride)) row.push_back(kWrong[row.size() % std::size(kWrong)]);
    all.insert(all.end(), row.begin(), row.end());
  }
  numbers_ = sent(all);
  const auto at = [&](std::size_t first, bool is_there) {
    return is_there ? static_cast<const std::int32_t*>(numbers_.data()) + first : nullptr;
  };
  args.seqlens = at(seqlens, true);
  args.rotary_seqlens = at(rotary, !tables_.rotary_seqlens.empty());
  args.cache_batch_idx = at(entries, !tables_.cache_batch_idx.empty());
  args.cu_seqlens_new = at(new_borders, !tables_.cu_seqlens_new.empty());
  args.cu_seqlens_q = at(q_borders, !tables_.cu_seqlens_q.empty());
  args.page_table = at(pages, !tables_.page_table.empty());
}

void AppendCall::expect_row(Expected& expected, const Image& from, std::int64_t from_offset,
                            std::int64_t to_offset, std::int64_t position, std::int64_t columns,
                            bool turns) const {
  std::vector<double> row;
  for (std::int64_t col = 0; col < columns; ++col) {
    expected.bits[index(to_offset + col)] = from[index(from_offset + col)];
    row.push_back(from_bits(from[index(from_offset + col)], problem.dtype));
  }
  if (!turns || problem.rotary_dim == 0) return;
  const std::size_t angle = index(position * (problem.rotary_dim / 2));
  row = reference::turned(problem, row, &cos_values_[angle], &sin_values_[angle]);
  std::copy_n(row.begin(), problem.rotary_dim, expected.number.begin() + to_offset);
}

void AppendCall::upload_factors(Factors factors) {
  const std::int64_t heads = problem.heads_kv, count = problem.batch * heads;
  const TensorStrides strides =
      factors == Factors::shared ? TensorStrides{} : TensorStrides{3 * heads + 2, 3, 1000};
  const std::int64_t total = problem.batch * strides.batch + heads * strides.head + 1;
  factor_image_.assign(index(2 * total), kNaN);
  for (std::int64_t i = 0; i < 2 * count; ++i) {
    const std::int64_t of_values = i / count, batch = i % count / heads, head = i % heads;
    factor_image_[index(of_values * total + batch * strides.batch + head * strides.head)] =
        kFactor * static_cast<float>(factors == Factors::shared ? of_values + 1 : i + 1);
  }
  factors_ = sent(factor_image_);
  args.k_descale = static_cast<const float*>(factors_.data());
  args.v_descale = args.k_descale + total;
  args.k_descale_strides = args.v_descale_strides = strides;
}

AppendCall::Image AppendCall::cache_now() const {
  if (cached(problem) != ElementType::e4m3) return downloaded<std::uint16_t>(cache_);
  const auto bytes = downloaded<std::uint8_t>(cache_);
  return {bytes.begin(), bytes.end()};
}

std::vector<float> AppendCall::row_in_float32(const Image& from, std::int64_t offset, std::int64_t position,
                                              std::int64_t columns, bool turns) const {
  std::vector<float> row;
  for (std::int64_t col = 0; col < columns; ++col)
    row.push_back(from_bits(from[index(offset + col)], problem.dtype));
  const std::size_t half = turns ? index(problem.rotary_dim / 2) : 0;
  const bool is_interleaved = problem.rotary_style == RotaryStyle::interleaved;
  for (std::size_t i = 0; i < half; ++i) {
    float &x = row[is_interleaved ? 2 * i : i], &y = row[is_interleaved ? 2 * i + 1 : i + half];
    const float cos = cos_values_[index(position) * half + i], sin = sin_values_[index(position) * half + i];
    const float before = x, of_x = -(y * sin), of_y = y * cos;
    x = std::fma(before, cos, of_x);
    y = std::fma(before, sin, of_y);
  }
  return row;
}

void AppendCall::expect_cached(Expected& expected, const reference::MovedRow& row, std::int64_t head,
                               bool is_key) const {
  const Layout &from = is_key ? k_new_ : v_new_, &to = is_key ? k_cache_ : v_cache_;
  const Image& image = is_key ? k_image_ : v_image_;
  const std::int64_t from_offset = offset_of(from, row.entry, head, row.row),
                     to_offset = offset_of(to, row.cache_entry, head, row.cache_row);
  if (cached(problem) != ElementType::e4m3)
    return expect_row(expected, image, from_offset, to_offset, row.position, from.shape.dim, is_key);
  float factor = 1;
  if (!factor_image_.empty()) {
    const TensorStrides& s = args.k_descale_strides;
    factor = factor_image_[index((is_key ? 0 : args.v_descale - args.k_descale) + row.sequence * s.batch +
                                 head * s.head)];
  }
  std::int64_t place = to_offset;
  for (const float x : row_in_float32(image, from_offset, row.position, from.shape.dim, is_key))
    expected.bits[index(place++)] = to_e4m3(x / factor);
}

std::string AppendCall::wrong() const {
  const AppendProblem& p = problem;
  Expected cache(cache_image_), q_out(q_out_image_);
  for (const reference::MovedRow& row : appended_) {
    for (std::int64_t head = 0; head < p.heads_kv; ++head) {
      expect_cached(cache, row, head, true);
      expect_cached(cache, row, head, false);
    }
  }
  for (const reference::MovedRow& row : queries_) {
    for (std::int64_t head = 0; head < p.heads_q; ++head)
      expect_row(q_out, q_image_, offset_of(q_, row.entry, head, row.row),
                 offset_of(q_out_, row.entry, head, row.row), row.position, p.head_dim, true);
  }
  return cache.difference("cache", cache_now(), cached(p)) +
         q_out.difference("q_out", downloaded<std::uint16_t>(q_out_memory_), element_of(p.dtype));
}

bool AppendCall::is_untouched() const {
  return cache_now() == cache_image_ && downloaded<std::uint16_t>(q_out_memory_) == q_out_image_;
}

AppendProblem small_append() {
  return {.head_dim = 16,
          .rotary_dim = 16,
          .table_rows = 20,
          .batch = 3,
          .heads_q = 2,
          .seqlen_q = 3,
          .seqlen_new = 3,
          .cache_entries = 3,
          .cache_rows = 12};
}

void append_and_expect(Context& context, const AppendCall& call) {
  context.append(call.problem, call.args);
  const std::string wrong = call.wrong();
  CHECK_MESSAGE(wrong.empty(), wrong);
}

void each_rotation(AppendProblem p, std::initializer_list<RotatedDims> dims,
                   const std::function<void(const AppendProblem&, int)>& run) {
  int i = 0;
  for (const RotaryStyle style : {RotaryStyle::halves, RotaryStyle::interleaved}) {
    for (const bool float32_tables : {false, true}) {
      for (const RotatedDims& dim : dims) {
        p.dtype = ++i % 5 < 2 ? DType::bf16 : DType::f16;
        p.head_dim = dim.qk, p.head_dim_v = dim.v, p.rotary_dim = dim.rotary;
        p.rotary_style = style, p.float32_tables = float32_tables;
        p.seqlen_q = i % 3 + 1;
        INFO("style ", static_cast<int>(style), " float32 ", float32_tables, " head_dim ", dim.qk, " rotary ",
             dim.rotary);
        run(p, i);
      }
    }
  }
}

}  // namespace fa2::test
