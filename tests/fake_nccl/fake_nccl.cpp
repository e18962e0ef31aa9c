// An NCCL whose ranks are threads and whose memory is the host's. Its groups are complete when ncclGroupEnd() returns, or when
// ncclCommGetAsyncError() no longer answers ncclInProgress. What it does wrong is in FAKE_NCCL, words separated by commas:
//   version=N          ncclGetVersion() returns N
//   in_progress=N      after each group, and at first, ncclInProgress is the answer to N more questions
//   fail=FUNCTION:N    the function returns N
//   async=N            ncclCommGetAsyncError() reports N
//   stall              groups never complete
//   reorder            the transfers of a group happen in another order
// fake_nccl_count() returns how often something happened.
#include <atomic>
#include <climits>
#include <condition_variable>
#include <cstdlib>
#include <cstring>
#include <deque>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

#define FAKE extern "C" __attribute__((visibility("default")))

namespace {

enum Result { success = 0, invalid_argument = 4, in_progress = 7 };

constexpr int kInterpreterDevice = -2;  // fa2's device whose memory is the host's

std::atomic<int> aborts, destroys, alive, max_blocks;

/// Returns the rest of the word of FAKE_NCCL that begins with `start`; null if there is none.
const char* word(const std::string& start) {
  const char* text = std::getenv("FAKE_NCCL");
  while (text != nullptr) {
    if (std::strncmp(text, start.c_str(), start.size()) == 0) return text + start.size();
    text = std::strchr(text, ',');
    if (text != nullptr) ++text;
  }
  return nullptr;
}

int number(const std::string& start) {
  const char* const text = word(start + "=");
  return text == nullptr ? 0 : std::atoi(text);
}

int planned(const char* function) {
  const char* const text = word("fail=" + std::string(function) + ":");
  return text == nullptr ? success : std::atoi(text);
}

struct Operation {
  bool sends = false;
  void* data = nullptr;
  std::size_t bytes = 0;
  int peer = 0;
  bool done = false;
  int error = success;
};
using Operations = std::vector<std::shared_ptr<Operation>>;

struct Box {
  std::deque<std::shared_ptr<Operation>> sends, receives;
};

struct Group {
  std::mutex mutex;
  std::condition_variable changed;
  int size = 0;
  int arrived = 0;
  std::map<std::pair<int, int>, Box> boxes;
  std::map<int, std::shared_ptr<Group>> children;  ///< by number of the split
};

struct Id {
  char bytes[128];
};

struct Config {  // the fields that this file reads
  std::size_t size;
  unsigned magic, version;
  int blocking, cluster_size, min_blocks, max_blocks;
};

std::mutex groups_mutex;
std::map<int, std::shared_ptr<Group>> groups;  // by number in the identity

}  // namespace

struct ncclComm {
  std::shared_ptr<Group> group;
  int rank = 0;
  bool blocking = true;
  int questions = 0;
  int splits = 0;
  Operations pending;
};

namespace {

struct Entry {
  ncclComm* comm;
  std::shared_ptr<Operation> operation;
};
thread_local int depth;
thread_local std::vector<Entry> entries;

/// The group's lock must be held.
int state_of(ncclComm& comm, bool asks) {
  if (comm.group->arrived < comm.group->size) return in_progress;
  for (const auto& operation : comm.pending) {
    if (!operation->done) return in_progress;
    if (operation->error != success) return operation->error;
  }
  if (!asks || comm.questions == 0) return success;
  --comm.questions;
  return in_progress;
}

/// Waits unless the communicator is one that does not block.
int settle(ncclComm& comm) {
  std::unique_lock lock(comm.group->mutex);
  comm.questions = comm.blocking ? 0 : number("in_progress");
  if (comm.blocking) comm.group->changed.wait(lock, [&] { return state_of(comm, false) != in_progress; });
  return comm.questions > 0 ? in_progress : state_of(comm, false);
}

void drop_done(std::deque<std::shared_ptr<Operation>>& operations) {
  while (!operations.empty() && operations.front()->done) operations.pop_front();
}

void match(Box& box) {
  drop_done(box.sends);  // of ranks that have aborted
  drop_done(box.receives);
  while (!box.sends.empty() && !box.receives.empty()) {
    Operation &send = *box.sends.front(), &receive = *box.receives.front();
    if (send.bytes == receive.bytes)
      std::memmove(receive.data, send.data, send.bytes);
    else
      send.error = receive.error = invalid_argument;
    send.done = receive.done = true;
    box.sends.pop_front();
    box.receives.pop_front();
  }
}

void post(const Entry& entry) {
  Group& group = *entry.comm->group;
  const Operation& operation = *entry.operation;
  const std::lock_guard lock(group.mutex);
  entry.comm->pending.push_back(entry.operation);
  if (word("stall") != nullptr) return;
  const int own = entry.comm->rank, peer = operation.peer;
  Box& box = group.boxes[operation.sends ? std::pair(own, peer) : std::pair(peer, own)];
  (operation.sends ? box.sends : box.receives).push_back(entry.operation);
  match(box);
  group.changed.notify_all();
}

int transfer(bool sends, void* data, std::size_t bytes, int type, int peer, ncclComm* comm) {
  if (type != 0 || peer < 0 || peer >= comm->group->size || depth == 0) return invalid_argument;
  auto operation = std::make_shared<Operation>();
  operation->sends = sends;
  operation->data = data;
  operation->bytes = bytes;
  operation->peer = peer;
  entries.push_back({comm, std::move(operation)});
  return comm->blocking ? success : in_progress;
}

ncclComm* join(std::shared_ptr<Group> group, int size, int rank, const Config& config) {
  auto* const comm = new ncclComm{std::move(group), rank, config.blocking != 0, 0, 0, {}};
  ++alive;
  if (config.max_blocks != INT_MIN) max_blocks = config.max_blocks;
  const std::lock_guard lock(comm->group->mutex);
  comm->group->size = size;
  ++comm->group->arrived;
  comm->group->changed.notify_all();
  return comm;
}

bool is_valid(const Config& config) {
  return config.magic == 0xcafebeef && config.size >= sizeof(Config) && config.version >= 21800;
}

}  // namespace

FAKE int fake_nccl_count(const char* what) {
  const std::string text = what;
  return text == "aborts" ? aborts : text == "destroys" ? destroys : text == "alive" ? alive : max_blocks;
}

FAKE int ncclGetVersion(int* version) {
  *version = word("version=") != nullptr ? number("version") : 22809;
  return planned("ncclGetVersion");
}
FAKE const char* ncclGetErrorString(int result) {
  return result == success ? "no error" : result == in_progress ? "in progress" : "a fake error";
}
FAKE const char* ncclGetLastError(ncclComm*) {
  return "details of the fake";
}

FAKE int ncclGetUniqueId(Id* id) {
  static std::atomic<int> made;
  *id = {};
  const int own = ++made;
  std::memcpy(id->bytes, &own, sizeof own);
  return planned("ncclGetUniqueId");
}

FAKE int ncclCommInitRankConfig(ncclComm** comm, int size, Id id, int rank, Config* config) {
  if (const int code = planned("ncclCommInitRankConfig")) return code;
  if (!is_valid(*config)) return invalid_argument;
  int own = 0;
  std::memcpy(&own, id.bytes, sizeof own);
  std::shared_ptr<Group> group;
  {
    const std::lock_guard lock(groups_mutex);
    if (groups[own] == nullptr) groups[own] = std::make_shared<Group>();
    group = groups[own];
  }
  *comm = join(group, size, rank, *config);
  return settle(**comm);
}

FAKE int ncclCommSplit(ncclComm* comm, int color, int key, ncclComm** child, Config* config) {
  if (const int code = planned("ncclCommSplit")) return code;
  if (color != 0 || !is_valid(*config)) return invalid_argument;
  std::shared_ptr<Group> group;
  {
    const std::lock_guard lock(comm->group->mutex);
    auto& made = comm->group->children[comm->splits++];
    if (made == nullptr) made = std::make_shared<Group>();
    group = made;
  }
  *child = join(group, comm->group->size, key, *config);
  return settle(**child);
}

FAKE int ncclCommCount(const ncclComm* comm, int* count) {
  *count = comm->group->size;
  return planned("ncclCommCount");
}
FAKE int ncclCommUserRank(const ncclComm* comm, int* rank) {
  *rank = comm->rank;
  return planned("ncclCommUserRank");
}
FAKE int ncclCommCuDevice(const ncclComm*, int* device) {
  *device = kInterpreterDevice;
  return planned("ncclCommCuDevice");
}

FAKE int ncclCommGetAsyncError(ncclComm* comm, int* state) {
  const std::lock_guard lock(comm->group->mutex);
  *state = word("async=") != nullptr ? number("async") : state_of(*comm, true);
  return planned("ncclCommGetAsyncError");
}
FAKE int ncclCommFinalize(ncclComm*) {
  return planned("ncclCommFinalize");
}
FAKE int ncclCommDestroy(ncclComm* comm) {
  delete comm;
  --alive;
  ++destroys;
  return success;
}
FAKE int ncclCommAbort(ncclComm* comm) {
  {
    const std::lock_guard lock(comm->group->mutex);
    for (const auto& operation : comm->pending) operation->done = true;
  }
  delete comm;
  --alive;
  ++aborts;
  return success;
}

FAKE int ncclGroupStart() {
  if (const int code = planned("ncclGroupStart")) return code;
  ++depth;
  return success;
}
FAKE int ncclGroupEnd() {
  --depth;
  const std::vector<Entry> own = std::exchange(entries, {});
  if (const int code = planned("ncclGroupEnd")) return code;
  if (own.empty()) return success;
  own.front().comm->pending.clear();
  // Messages of a pair stay in order, as NCCL promises.
  for (int peer = own.front().comm->group->size; word("reorder") != nullptr && peer-- > 0;)
    for (const Entry& entry : own)
      if (entry.operation->peer == peer) post(entry);
  if (word("reorder") == nullptr)
    for (const Entry& entry : own) post(entry);
  return settle(*own.front().comm);
}
FAKE int ncclSend(const void* data, std::size_t count, int type, int peer, ncclComm* comm, void*) {
  if (const int code = planned("ncclSend")) return code;
  return transfer(true, const_cast<void*>(data), count, type, peer, comm);
}
FAKE int ncclRecv(void* data, std::size_t count, int type, int peer, ncclComm* comm, void*) {
  if (const int code = planned("ncclRecv")) return code;
  return transfer(false, data, count, type, peer, comm);
}
