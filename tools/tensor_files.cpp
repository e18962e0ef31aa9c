// Moves tensors between files and the library.
#include <fa2/errors.h>
#include <fmt/format.h>
#include <operation/rules/validate.h>
#include <tools/tensor_files.h>

#include <cmath>
#include <utility>

namespace fa2::tools {
namespace {

std::vector<std::uint16_t> rounded(const std::filesystem::path& path, const std::vector<float>& values,
                                   ElementType type) {
  std::vector<std::uint16_t> bits(values.size());
  std::size_t overflows = 0;
  float largest = 0;
  for (std::size_t i = 0; i < values.size(); ++i) {
    bits[i] = to_bits(values[i], type);
    if (!std::isfinite(values[i]) || std::isfinite(from_bits(bits[i], type))) continue;
    ++overflows;
    largest = std::max(largest, std::fabs(values[i]));
  }
  if (overflows == 0) return bits;
  throw Error(ErrorCode::invalid_request,
              fmt::format("{}: {} values, up to {:.3g} in magnitude, must fit {}", path.string(), overflows,
                          largest, type == ElementType::f16 ? "f16: pass --dtype bf16" : "bf16"));
}

std::vector<float> floats_of(const std::vector<std::uint16_t>& bits, ElementType type) {
  std::vector<float> values(bits.size());
  for (std::size_t i = 0; i < bits.size(); ++i) values[i] = from_bits(bits[i], type);
  return values;
}

std::vector<std::uint16_t> bits_of(const std::filesystem::path& path, NpyArray array, ElementType type,
                                   float scale) {
  if (array.is_float16() && type == ElementType::f16 && scale == 1)
    return std::get<0>(std::move(array.values));
  std::vector<float> values = array.is_float16() ? floats_of(std::get<0>(array.values), ElementType::f16)
                                                 : std::get<1>(std::move(array.values));
  for (float& value : values) value /= scale;
  return rounded(path, values, type);
}

}  // namespace

std::vector<std::int64_t> Extents::shape(Layout layout) const {
  std::vector<std::int64_t> shape = {batch, rows, heads, dim};
  if (layout == Layout::bhsd) std::swap(shape[1], shape[2]);
  if (packed) shape.erase(shape.begin());
  return shape;
}

reference::Tensor HostTensor::logical() const {
  const Extents& e = extents;
  const std::vector<float> values = floats.empty() ? floats_of(bits, type) : floats;
  reference::Tensor tensor{e.batch, e.heads, e.rows, e.dim, std::vector<float>(values.size())};
  const TensorStrides strides = layout == Layout::bshd ? TensorStrides::bshd(e.rows, e.heads, e.dim)
                                                       : TensorStrides::bhsd(e.rows, e.heads, e.dim);
  std::size_t at = 0;
  for (std::int64_t b = 0; b < e.batch; ++b) {
    for (std::int64_t h = 0; h < e.heads; ++h) {
      for (std::int64_t r = 0; r < e.rows; ++r) {
        const float* row = values.data() + b * strides.batch + h * strides.head + r * strides.row;
        for (std::int64_t d = 0; d < e.dim; ++d) tensor.values[at++] = row[d];
      }
    }
  }
  return tensor;
}

HostTensor read_tensor(const std::filesystem::path& path, Layout layout, ElementType type, bool packed,
                       float scale) {
  const std::size_t rank = packed ? 3 : 4;
  NpyArray array = read_npy(path, {rank, rank});
  std::vector<std::int64_t> s = array.shape;
  if (packed) s.insert(s.begin(), 1);
  if (layout == Layout::bhsd) std::swap(s[1], s[2]);
  HostTensor tensor;
  tensor.extents = {.batch = s[0], .rows = s[1], .heads = s[2], .dim = s[3], .packed = packed};
  tensor.layout = layout;
  tensor.was_float32 = !array.is_float16();
  tensor.type = type;
  tensor.bits = bits_of(path, std::move(array), type, scale);
  return tensor;
}

AttentionProblem problem_of(const HostTensor& q, const HostTensor& k, const HostTensor& v, DType dtype,
                            MaskKind mask, const SequenceTables& tables) {
  std::vector<Violation> found;
  const auto same = [&](const std::string& field, std::int64_t value, const char* other,
                        std::int64_t expected) {
    if (value == expected) return;
    found.push_back(
        {field, fmt::format("{}", value), fmt::format("must be that of {}, {}", other, expected)});
  };
  const SequenceCount batch = tables.count().value_or(SequenceCount{"q", q.extents.batch});
  for (const auto& [table, count] : tables.counts())
    same(fmt::format("{}'s sequences", table), count, batch.name, batch.count);
  if (!q.extents.packed) same("q's batch", q.extents.batch, batch.name, batch.count);
  const bool paged = !tables.page_table.empty();
  if (!k.extents.packed && !paged) same("k's batch", k.extents.batch, batch.name, batch.count);
  if (!v.extents.packed && !paged) same("v's batch", v.extents.batch, batch.name, batch.count);
  if (paged) same("v's pages", v.extents.batch, "k", k.extents.batch);
  same("k's head_dim", k.extents.dim, "q", q.extents.dim);
  same("v's seqlen", v.extents.rows, "k", k.extents.rows);
  same("v's heads", v.extents.heads, "k", k.extents.heads);

  AttentionProblem problem;
  const auto narrow = [](std::int64_t dim) {
    return static_cast<std::int32_t>(std::min<std::int64_t>(dim, 1 << 30));
  };
  problem.dtype = dtype;
  problem.kv_type = k.type == ElementType::e4m3 ? KvType::e4m3 : KvType::same;
  problem.mask = mask;
  problem.head_dim = narrow(q.extents.dim);
  problem.head_dim_v = narrow(v.extents.dim);
  problem.heads_q = q.extents.heads;
  problem.heads_kv = k.extents.heads;
  problem.batch = batch.count;
  set_lengths(problem, tables, q.extents.rows, k.extents.rows);
  if (paged) problem.page_count = k.extents.batch;
  // In a problem 0 stands for a default; in a file it means an empty tensor.
  if (v.extents.dim == 0) found.push_back({"v's head_dim", "0", "must be a multiple of 8 in 8..256"});
  if (k.extents.heads == 0) found.push_back({"k's heads", "0", "must be at least 1"});
  for (Violation& violation : violations_of(problem)) found.push_back(std::move(violation));
  if (!found.empty()) throw InvalidRequest(std::move(found));
  return problem;
}

HostTensor output_of(const AttentionProblem& problem, const HostTensor& q) {
  HostTensor tensor;
  tensor.extents = q.extents;
  tensor.extents.dim = problem.head_dim_v;
  tensor.layout = q.layout;
  tensor.type = q.type;
  tensor.bits.resize(tensor.extents.count());
  return tensor;
}

void write_tensor(OutputFile& file, const HostTensor& tensor, bool as_float32) {
  const std::vector<std::int64_t> shape = tensor.extents.shape(tensor.layout);
  if (!tensor.floats.empty()) return write_npy(file, {shape, tensor.floats});
  if (as_float32) return write_npy(file, {shape, floats_of(tensor.bits, tensor.type)});
  if (tensor.type != ElementType::f16)
    throw Error(ErrorCode::internal, "only float16 bits can be written as they are");
  write_npy(file, {shape, tensor.bits});
}

}  // namespace fa2::tools
