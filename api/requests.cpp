// Requests as JSON lines, and the file that a program appends them to.
#include <api/problem_json.h>
#include <api/requests.h>
#include <core/hash.h>
#include <fcntl.h>
#include <fmt/format.h>
#include <operation/rules/validate.h>
#include <runtime/file.h>
#include <runtime/log.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <iterator>
#include <set>
#include <utility>

namespace fa2 {
namespace {

using Json = nlohmann::ordered_json;
using Violations = std::vector<Violation>;

Json json_of(const Gradients& gradients) {
  Json json = Json::object();
  each_row<Gradients>([&](const auto& row) { json[row.text.name] = json_value(gradients.*row.member); });
  return json;
}

void parse_gradients(const nlohmann::json& object, Gradients& gradients, Violations& found) {
  for (const auto& [key, value] : object.items()) {
    std::string wrong = "must be a field of gradients";
    each_row<Gradients>([&, &key = key, &value = value](const auto& row) {
      if (key == row.text.name) wrong = set_from_json(gradients.*row.member, value);
    });
    if (!wrong.empty()) found.push_back({"gradients: " + key, value.dump(), wrong});
  }
}

void parse_arch(const nlohmann::json& value, Target& target, Violations& found) {
  const Arch* arch = value.is_string() ? find_arch(value.get<std::string>()) : nullptr;
  if (arch != nullptr) {
    target.arch = *arch;
  } else {
    found.push_back({"arch", value.dump(), "must be one of " + known_arch_names()});
  }
}

/// Sets what the field of a request's object says. `problem` and `gradients` must be objects.
void parse_field(const std::string& key, const nlohmann::json& value, PlanRequest& request,
                 Violations& found) {
  std::string wrong;
  if (key == "operation") {
    wrong = set_from_json(request.operation, value);
  } else if (key == "arch") {
    parse_arch(value, request.target, found);
  } else if (key == "device") {
    wrong = set_from_json(request.target.device, value);
  } else if (key == "sm_count") {
    wrong = set_from_json(request.target.sm_count, value);
  } else if ((key == "problem" || key == "gradients") && !value.is_object()) {
    wrong = "must be an object";
  } else if (key == "problem") {
    auto [problem, more] = parse_problem(value);
    request.problem = problem;
    std::ranges::move(more, std::back_inserter(found));
  } else if (key == "gradients") {
    parse_gradients(value, request.gradients, found);
  } else {
    wrong = "must be operation, arch, device, sm_count, problem or gradients";
  }
  if (!wrong.empty()) found.push_back({key, value.dump(), wrong});
}

std::pair<PlanRequest, Violations> parse_request(const nlohmann::json& object) {
  PlanRequest request;
  Violations found;
  for (const auto& [key, value] : object.items()) parse_field(key, value, request, found);
  for (const char* required : {"arch", "problem"})
    if (!object.contains(required)) found.push_back({required, "missing", "must be given"});
  if (found.empty() && request.operation == Operation::backward)
    found = violations_of_backward(request.problem, request.gradients);
  return {request, std::move(found)};
}

/// @throws FileError.
void append_line(const std::filesystem::path& path, const std::string& line) {
  const FileDescriptor file(
      ::open(path.c_str(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC | O_NONBLOCK, 0644));
  if (!file) throw_file_error("cannot open", path, errno);
  struct stat status {};
  if (::fstat(file.get(), &status) != 0) throw_file_error("cannot stat", path, errno);
  if (!S_ISREG(status.st_mode)) throw FileError(path.native() + " is not a regular file");
  if (static_cast<std::uint64_t>(status.st_size) + line.size() > kMaxFileBytes)
    throw FileError(
        fmt::format("{} has {} bytes, the limit is {}", path.native(), status.st_size, kMaxFileBytes));
  write_all(file, line.data(), line.size(), path);
}

}  // namespace

std::string to_json_line(const PlanRequest& request) {
  Json json = {{"operation", word_of(request.operation)}, {"arch", request.target.arch.name}};
  if (!request.target.device.empty()) json["device"] = request.target.device;
  if (request.target.sm_count > 0) json["sm_count"] = request.target.sm_count;
  json["problem"] = fields_of(request.problem);
  if (request.operation == Operation::backward) json["gradients"] = json_of(request.gradients);
  return json.dump(-1, ' ', false, Json::error_handler_t::replace);
}

std::vector<PlanRequest> parse_requests(std::string_view text, const std::string& origin) {
  std::vector<PlanRequest> requests;
  std::set<std::string> seen;
  parse_lines(text, origin, "request", "must be a request, as FA2_LOG_REQUESTS writes it",
              [&](const nlohmann::json& object) {
                auto [request, violations] = parse_request(object);
                if (violations.empty() && seen.insert(to_json_line(request)).second)
                  requests.push_back(request);
                return violations;
              });
  return requests;
}

std::vector<PlanRequest> read_requests(const std::filesystem::path& file) {
  return parse_requests(text_of_file(file), file.native());
}

void RequestLog::add(const PlanRequest& request) {
  if (!file_) return;
  const std::string line = to_json_line(request) + "\n";
  const std::lock_guard lock(mutex_);
  if (!logged_.insert(content_hash(line)).second) return;
  try {
    append_line(*file_, line);
  } catch (const CacheError& error) {
    warn_once("requests " + file_->native(),
              fmt::format("requests are not logged: {}: set FA2_LOG_REQUESTS to another file", error.what()));
  }
}

}  // namespace fa2
