/* Plans by what they are for, and the workspaces of streams. The GIL guards both. */
#include <fa2/c_machine.h>
#include <stdlib.h>
#include <string.h>

#include "core.h"

struct Plan {
  PlanKey key;
  uint64_t hash;
  fa2_plan* forward; /* or */
  fa2_backward_plan* backward;
  size_t workspace_bytes;
  size_t workspace_zeros;
  int borrowed;
  Plan* next;
};

/* Lengths that change with every call make a plan each: beyond this many, those that are not in use are dropped. */
enum { BUCKETS = 1024, MOST_PLANS = 4096 };
static Plan* buckets[BUCKETS];
static int plan_count;

static uint64_t hash_of(const PlanKey* key) {
  const unsigned char* bytes = (const unsigned char*)key;
  uint64_t hash = 0;
  for (size_t i = 0; i < sizeof *key; i += 8) {
    uint64_t word;
    memcpy(&word, bytes + i, sizeof word);
    hash = (hash ^ word) * UINT64_C(0x9E3779B97F4A7C15);
    hash ^= hash >> 29;
  }
  return hash;
}
_Static_assert(sizeof(PlanKey) % 8 == 0 && sizeof(PlanKey) == sizeof(fa2_problem) + 16,
               "a key is hashed and compared as words, of which none is padding");

static Plan* find(const PlanKey* key, uint64_t hash) {
  Plan* plan = buckets[hash % BUCKETS];
  while (plan != NULL && (plan->hash != hash || memcmp(&plan->key, key, sizeof *key) != 0)) plan = plan->next;
  return plan;
}

static void destroy(Plan* plan) {
  fa2_plan_destroy(plan->forward);
  fa2_backward_plan_destroy(plan->backward);
  free(plan);
}

static void drop_unused(void) {
  for (int i = 0; i < BUCKETS; ++i) {
    Plan** link = &buckets[i];
    while (*link != NULL) {
      Plan* plan = *link;
      if (plan->borrowed > 0) {
        link = &plan->next;
        continue;
      }
      *link = plan->next;
      destroy(plan);
      --plan_count;
    }
  }
}

static fa2_status make(Plan* plan) {
  const PlanKey* key = &plan->key;
  fa2_plan_options options = FA2_PLAN_OPTIONS_INIT;
  options.row_alignment = key->row_alignment;
  if (key->gradients != 0) {
    const fa2_status status =
        fa2_backward_plan_create(NULL, &key->problem, key->device, key->gradients, &options, &plan->backward);
    return status != FA2_OK ? status
                            : fa2_backward_plan_workspace_bytes(plan->backward, &plan->workspace_bytes);
  }
  fa2_status status = fa2_plan_create(NULL, &key->problem, key->device, &options, &plan->forward);
  if (status == FA2_OK) status = fa2_plan_workspace_bytes(plan->forward, &plan->workspace_bytes);
  if (status == FA2_OK) status = fa2_plan_workspace_zeros(plan->forward, &plan->workspace_zeros);
  return status;
}

static Plan* make_and_keep(const PlanKey* key, uint64_t hash) {
  Plan* plan = calloc(1, sizeof *plan);
  if (plan == NULL) return (Plan*)PyErr_NoMemory();
  plan->key = *key;
  plan->hash = hash;
  fa2_status status;
  Py_BEGIN_ALLOW_THREADS;
  status = make(plan);
  Py_END_ALLOW_THREADS;
  if (status != FA2_OK) {
    raise_status(status);
    destroy(plan);
    return NULL;
  }
  Plan* const other = find(key, hash); /* of another thread, meanwhile */
  if (other != NULL) {
    destroy(plan);
    return other;
  }
  if (plan_count >= MOST_PLANS) drop_unused();
  plan->next = buckets[hash % BUCKETS];
  buckets[hash % BUCKETS] = plan;
  ++plan_count;
  return plan;
}

/* Making a plan loads code and may measure, neither of which a capture survives. */
static int require_no_capture(int32_t device, PyObject* like) {
  if (device == FA2_INTERPRETER_DEVICE) return 0;
  void* stream;
  int32_t capturing = 0;
  if (current_stream(like, device, &stream) < 0) return -1;
  const fa2_status status = fa2_stream_is_capturing(stream, &capturing);
  if (status != FA2_OK) return raise_status(status), -1;
  if (!capturing) return 0;
  return unavailable(
      "there is no plan yet for these shapes and options, and a CUDA graph is being captured: make the call "
      "once "
      "before the capture begins");
}

Plan* borrow_plan(const PlanKey* key, PyObject* like) {
  const uint64_t hash = hash_of(key);
  Plan* plan = find(key, hash);
  if (plan == NULL && require_no_capture(key->device, like) == 0) plan = make_and_keep(key, hash);
  if (plan != NULL) ++plan->borrowed;
  return plan;
}

void give_back(Plan* plan) {
  --plan->borrowed;
}

PyObject* explain_plan(const Plan* plan) {
  char* json = NULL;
  const fa2_status status = plan->forward != NULL ? fa2_plan_explain(plan->forward, &json)
                                                  : fa2_backward_plan_explain(plan->backward, &json);
  return status == FA2_OK ? take_json(json) : raise_status(status);
}

/* ---- workspaces ---- */

/* One a stream, left to its launches; the largest that was wanted. */
typedef struct {
  int32_t device;
  void* stream;
  size_t bytes, zeros;
  PyObject* owner;
  void* data;
} Workspace;

static Workspace* workspaces;
static int workspace_count;

static Workspace* workspace_of(int32_t device, void* stream) {
  for (int i = 0; i < workspace_count; ++i)
    if (workspaces[i].stream == stream && workspaces[i].device == device) return &workspaces[i];
  Workspace* grown = realloc(workspaces, (size_t)(workspace_count + 1) * sizeof *grown);
  if (grown == NULL) return (Workspace*)PyErr_NoMemory();
  workspaces = grown;
  const Workspace fresh = {device, stream, 0, 0, NULL, NULL};
  workspaces[workspace_count] = fresh;
  return &workspaces[workspace_count++];
}

static PyObject* allocate_workspace(int32_t device, size_t bytes, size_t zeros, void** data) {
  PyObject* owner = allocate(device, bytes, zeros);
  fa2_array tensor;
  if (owner != NULL && read_tensor(owner, &tensor) < 0) Py_CLEAR(owner);
  if (owner != NULL) *data = tensor.data;
  return owner;
}

/* The stream's own, grown; to a graph, which may run beside the stream, memory of the graph's own. New reference. */
static PyObject* forward_workspace(const Plan* plan, void* stream, bool keeps, void** data) {
  const int32_t device = plan->key.device;
  int32_t capturing = 0;
  const fa2_status status = fa2_stream_is_capturing(stream, &capturing);
  if (status != FA2_OK) return raise_status(status);
  if (capturing || !keeps)
    return allocate_workspace(device, plan->workspace_bytes, plan->workspace_zeros, data);
  Workspace* kept = workspace_of(device, stream);
  if (kept == NULL) return NULL;
  if (kept->bytes < plan->workspace_bytes || kept->zeros < plan->workspace_zeros) {
    const size_t bytes = plan->workspace_bytes > kept->bytes ? plan->workspace_bytes : kept->bytes;
    const size_t zeros = plan->workspace_zeros > kept->zeros ? plan->workspace_zeros : kept->zeros;
    PyObject* owner = allocate_workspace(device, bytes, zeros, data); /* which may run other threads */
    kept = owner != NULL ? workspace_of(device, stream) : NULL;
    if (kept == NULL) {
      Py_XDECREF(owner);
      return NULL;
    }
    Py_XDECREF(kept->owner);
    kept->owner = owner;
    kept->data = *data;
    kept->bytes = bytes;
    kept->zeros = zeros;
  }
  *data = kept->data;
  Py_INCREF(kept->owner);
  return kept->owner;
}

int run_forward(Plan* plan, fa2_args* args, PyObject* like, bool keeps) {
  void* stream;
  PyObject* owner = NULL;
  if (current_stream(like, plan->key.device, &stream) < 0) return -1;
  if (plan->workspace_bytes > 0 && plan->key.device != FA2_INTERPRETER_DEVICE) {
    owner = forward_workspace(plan, stream, keeps, &args->workspace);
    if (owner == NULL) return -1;
  }
  fa2_status status;
  Py_BEGIN_ALLOW_THREADS;
  status = fa2_plan_run(plan->forward, args, stream);
  Py_END_ALLOW_THREADS;
  Py_XDECREF(owner);
  if (status != FA2_OK) raise_status(status);
  return status == FA2_OK ? 0 : -1;
}

int run_backward(Plan* plan, fa2_backward_args* args, PyObject* like) {
  void* stream;
  PyObject* owner = NULL;
  if (current_stream(like, plan->key.device, &stream) < 0) return -1;
  if (plan->workspace_bytes > 0 && plan->key.device != FA2_INTERPRETER_DEVICE) {
    owner = allocate_workspace(plan->key.device, plan->workspace_bytes, 0, &args->workspace);
    if (owner == NULL) return -1;
  }
  fa2_status status;
  Py_BEGIN_ALLOW_THREADS;
  status = fa2_backward_plan_run(plan->backward, args, stream);
  Py_END_ALLOW_THREADS;
  Py_XDECREF(owner);
  if (status != FA2_OK) raise_status(status);
  return status == FA2_OK ? 0 : -1;
}
