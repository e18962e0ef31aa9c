/* Maps of the blocks that masks show, as capsules. */
#include <fa2/c_block_map.h>
#include <stdlib.h>

#include "core.h"

static const char* const capsule_name = "fa2.block_map";

typedef struct {
  fa2_block_map* map;
  uintptr_t stream; /* whose launches are ordered behind the one that makes it */
} HeldMap;

/* The map's memory is of the caller's allocator, and launches of its stream may still read it. */
static void destroy(PyObject* capsule) {
  HeldMap* const held = PyCapsule_GetPointer(capsule, capsule_name);
  fa2_block_map_destroy(held->map);
  free(held);
}

/* make_block_map(stream) -> a capsule */
PyObject* make_block_map(PyObject* self, PyObject* stream) {
  (void)self;
  uint64_t number;
  if (read_uint(stream, "stream", &number) < 0) return NULL;
  HeldMap* const held = malloc(sizeof *held);
  if (held == NULL) return PyErr_NoMemory();
  held->stream = (uintptr_t)number;
  const fa2_status status = fa2_block_map_create(0, &held->map);
  if (status != FA2_OK) return free(held), raise_status(status);
  PyObject* const capsule = PyCapsule_New(held, capsule_name, destroy);
  if (capsule == NULL) fa2_block_map_destroy(held->map), free(held);
  return capsule;
}

int read_block_map(PyObject* capsule, fa2_launch* launch) {
  if (capsule == Py_None) return 0;
  const HeldMap* const held = PyCapsule_GetPointer(capsule, capsule_name);
  if (held == NULL) return -1;
  if (held->stream == (uintptr_t)launch->stream) launch->block_map = held->map;
  return 0;
}
