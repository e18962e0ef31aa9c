// Each kind of damage is a function of the file's path.
#include "data_faults.h"

#include <fmt/format.h>
#include <sys/stat.h>
#include <tests/support/cache_fixtures.h>
#include <unistd.h>

#include <algorithm>
#include <iterator>
#include <utility>

namespace fa2::test {
namespace {

namespace fs = std::filesystem;

struct Scene {
  const Subject& subject;
  fs::path root, path;  ///< path: the file to damage
  std::string good;     ///< its contents
  Random& random;

  std::size_t pick(std::size_t end) const { return below(random, end); }
  std::string noise(std::size_t bytes) const {
    std::string text;
    while (text.size() < bytes) text += static_cast<char>(random());
    return text;
  }
};

std::string truncate(const Scene& scene) {
  const std::size_t size = scene.good.size();
  const std::size_t ends[] = {
      0, 1, 4, 8, 11, 12, 43, 44, 45, size / 2, size - 1, scene.pick(size), scene.pick(size)};
  const std::size_t length = std::min(ends[scene.pick(std::size(ends))], size - 1);
  write_text(scene.path, scene.good.substr(0, length));
  return fmt::format("truncated to {} of {} bytes", length, size);
}

std::string flip(const Scene& scene) {
  std::string bytes = scene.good;
  std::string what = "flipped";
  for (std::size_t flips = 1 + scene.pick(4); flips > 0; --flips) {
    const std::size_t at =
        scene.pick(2) == 0 ? scene.pick(bytes.size()) : scene.pick(std::min<std::size_t>(600, bytes.size()));
    const std::size_t bit = scene.pick(8);
    bytes[at] = static_cast<char>(bytes[at] ^ (1 << bit));
    what += fmt::format(" {}.{}", at, bit);
  }
  write_text(scene.path, bytes);
  return what;
}

std::string overwrite(const Scene& scene) {
  std::string bytes = scene.good;
  const std::size_t at = scene.pick(bytes.size()),
                    count = 1 + scene.pick(std::min<std::size_t>(bytes.size() - at, 4096));
  const bool zeros = scene.pick(2) == 0;
  bytes.replace(at, count, zeros ? std::string(count, '\0') : scene.noise(count).substr(0, count));
  write_text(scene.path, bytes);
  return fmt::format("{} {} bytes from {}", zeros ? "zeroed" : "overwrote", count, at);
}

/// Exchanges the file for another one of the subject, or puts it under a name for another GPU.
std::string swap(const Scene& scene) {
  const std::vector<fs::path> files = scene.subject.files(scene.root);
  const fs::path& other = files[scene.pick(files.size())];
  const std::string contents = other == scene.path ? scene.subject.forge(scene.random) : read_text(other);
  write_text(scene.path, contents);
  if (other != scene.path && scene.pick(2) == 0) write_text(other, scene.good);
  return "exchanged for " + other.native();
}

std::string append(const Scene& scene) {
  const std::size_t kinds = scene.pick(3);
  const std::size_t count = 1 + scene.pick(5000);
  write_text(scene.path, scene.good + (kinds == 0   ? std::string(count, '\0')
                                       : kinds == 1 ? scene.noise(count)
                                                    : scene.good));
  return fmt::format("appended garbage of kind {}", kinds);
}

std::string foreign_contents(const Scene& scene) {
  switch (scene.pick(6)) {
    case 0:
      return "";
    case 1:
      return "some text\nin lines\n";
    case 2:
      return std::string(scene.pick(100000), '\0');
    case 3:
      return "\x7f"
             "ELF\x02\x01\x01" +
             std::string(9, '\0') + scene.noise(500);
    case 4:
      return "FA2K" + scene.noise(scene.pick(200));
    default:
      return scene.noise(scene.pick(5000));
  }
}

std::string foreign(const Scene& scene) {
  write_text(scene.path, foreign_contents(scene));
  return "a foreign file";
}

/// Something that is no regular file of this user, under the file's name.
std::string special(const Scene& scene) {
  const std::size_t kind = scene.pick(7);
  if (kind < 5) fs::remove(scene.path);
  if (kind == 0) fs::create_directory(scene.path);
  if (kind == 1) write_text(scene.path / "inside", "");
  if (kind == 2 && ::mkfifo(scene.path.c_str(), 0600) != 0) return "mkfifo failed";
  if (kind == 3) fs::create_symlink(scene.pick(2) == 0 ? "/dev/zero" : "nowhere", scene.path);
  if (kind == 4) {
    write_text(scene.root / "target", scene.good);
    fs::create_symlink(scene.root / "target", scene.path);
  }
  if (kind == 5) fs::resize_file(scene.path, std::uintmax_t{1} << (26 + scene.pick(15)));
  if (kind == 6) ::chmod(scene.path.c_str(), 0666);
  const char* const kNames[] = {"a directory", "a full directory", "a pipe",   "a link to elsewhere",
                                "a link",      "a sparse file",    "mode 0666"};
  return kNames[kind];
}

std::string forged(const Scene& scene) {
  write_text(scene.path, scene.subject.forge(scene.random));
  return "forged contents with right checksums";
}

std::string folder(const Scene& scene) {
  const fs::path parent = scene.path.parent_path();
  const std::size_t kind = scene.pick(4);
  if (kind == 0) ::chmod(parent.c_str(), 0777);
  if (kind != 0) fs::remove_all(parent);
  if (kind == 2) write_text(parent, "");
  if (kind == 3) fs::create_symlink(scene.root, parent);
  const char* const kNames[] = {"mode 0777", "removed", "replaced by a file", "replaced by a link"};
  return std::string("folder ") + kNames[kind];
}

using Function = std::string (*)(const Scene&);
const std::vector<std::pair<std::string, Function>> kKinds = {
    {"truncated", truncate},      {"bits flipped", flip},     {"overwritten", overwrite},
    {"files exchanged", swap},    {"garbage behind", append}, {"foreign file", foreign},
    {"no regular file", special}, {"forged header", forged},  {"folder", folder}};

}  // namespace

const std::vector<std::string>& kinds_of_damage() {
  static const std::vector<std::string> names = [] {
    std::vector<std::string> all;
    for (const auto& [name, function] : kKinds) all.push_back(name);
    return all;
  }();
  return names;
}

std::string damage(const std::string& kind, const Subject& subject, const fs::path& root, Random& random) {
  const std::vector<fs::path> files = subject.files(root);
  const fs::path path = files[below(random, files.size())];
  const auto function = std::ranges::find(kKinds, kind, [](const auto& named) { return named.first; });
  return path.filename().native() + ": " + function->second({subject, root, path, read_text(path), random});
}

}  // namespace fa2::test
