// Copies tables to the host.
#include <operation/rules/table_checks.h>
#include <runtime/device.h>
#include <runtime/device_buffer.h>
#include <runtime/log.h>

#include <algorithm>

namespace fa2 {

bool can_read_tables(int device, Stream stream) {
  if (device == kInterpreterDevice || !is_capturing(stream)) return true;
  warn_once(
      "FA2_CHECK while a stream captures",
      "FA2_CHECK=1: what tables of lengths and pages hold cannot be read while the stream captures, and "
      "is not checked when the graph runs");
  return false;
}

std::vector<std::int32_t> copy_of(const std::int32_t* table, std::int64_t count, int device, Stream stream) {
  if (table == nullptr || count == 0) return {};
  std::vector<std::int32_t> values(static_cast<std::size_t>(count));
  if (device == kInterpreterDevice) {
    std::copy_n(table, values.size(), values.begin());
  } else {
    copy_to_host(values.data(), table, values.size() * sizeof values[0], stream);
  }
  return values;
}

}  // namespace fa2
