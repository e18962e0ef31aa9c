/* Converts numbers, dicts and strings between Python and C. */
#include <stddef.h>
#include <string.h>

#include "core.h"

int expect_count(const char* function, Py_ssize_t count, Py_ssize_t expected) {
  if (count == expected) return 0;
  PyErr_Format(PyExc_TypeError, "%s() was given %zd arguments, must get %zd", function, count, expected);
  return -1;
}

/* Replaces Python's own error by one with the argument's name. Returns -1. */
static int wrong_number(const char* name, const char* expected, PyObject* object) {
  PyErr_Clear();
  PyErr_Format(PyExc_TypeError, "%s = %.200R, must be %s", name, object, expected);
  return -1;
}

int read_int(PyObject* object, const char* name, int64_t* value) {
  *value = PyLong_AsLongLong(object);
  if (*value != -1 || !PyErr_Occurred()) return 0;
  return wrong_number(name, "an integer of 64 bits", object);
}

int read_int32(PyObject* object, const char* name, int32_t* value) {
  int64_t wide;
  if (read_int(object, name, &wide) < 0) return -1;
  *value = (int32_t)wide;
  return *value == wide ? 0 : invalid("%s = %lld, must fit 32 bits", name, (long long)wide);
}

int read_uint(PyObject* object, const char* name, uint64_t* value) {
  *value = PyLong_AsUnsignedLongLongMask(object);
  if (*value != UINT64_MAX || !PyErr_Occurred()) return 0;
  return wrong_number(name, "an integer", object);
}

int read_float(PyObject* object, const char* name, float* value) {
  const double number = PyFloat_AsDouble(object);
  if (number == -1.0 && PyErr_Occurred()) return wrong_number(name, "a number", object);
  *value = (float)number;
  return 0;
}

int read_lse_base(PyObject* word, int32_t* base) {
  const bool is_word = PyUnicode_Check(word);
  *base = is_word && PyUnicode_CompareWithASCIIString(word, "two") == 0 ? FA2_LSE_BASE_TWO : FA2_LSE_NATURAL;
  if (*base == FA2_LSE_BASE_TWO) return 0;
  if (is_word && PyUnicode_CompareWithASCIIString(word, "natural") == 0) return 0;
  return invalid("lse_base = %.200R, must be \"natural\" or \"two\"", word);
}

PyObject* take_json(char* json) {
  PyObject* text = PyUnicode_FromString(json);
  fa2_string_free(json);
  return text;
}

#define FIELD(name) \
  { #name, offsetof(fa2_problem, name), sizeof(((fa2_problem*)0)->name) }
static const struct {
  const char* name;
  size_t offset, size;
} fields[] = {
    /* clang-format off */
    /* written: problem fields */
    FIELD(dtype),
    FIELD(head_dim),
    FIELD(head_dim_v),
    FIELD(mask),
    FIELD(has_window_left),
    FIELD(has_window_right),
    FIELD(has_attention_chunk),
    FIELD(softcap),
    FIELD(alibi),
    FIELD(sinks),
    FIELD(dropout),
    FIELD(query_pieces),
    FIELD(varlen),
    FIELD(page_size),
    FIELD(missing_pages),
    FIELD(kv_type),
    FIELD(values_in_keys),
    FIELD(batch_invariant),
    FIELD(lse_base),
    FIELD(max_logits),
    FIELD(float32_dk_dv),
    FIELD(float32_dq),
    FIELD(float32_out),
    FIELD(sm_margin),
    FIELD(reserved),
    FIELD(window_left),
    FIELD(window_right),
    FIELD(attention_chunk),
    FIELD(score_text),
    FIELD(batch),
    FIELD(heads_q),
    FIELD(heads_kv),
    FIELD(seqlen_q),
    FIELD(seqlen_k),
    FIELD(total_q),
    FIELD(total_k),
    FIELD(page_count),
    /* end of problem fields */
    /* clang-format on */
};

int read_problem(PyObject* given, fa2_problem* problem) {
  const fa2_problem defaults = FA2_PROBLEM_INIT;
  *problem = defaults;
  for (size_t i = 0; i < sizeof fields / sizeof *fields; ++i) {
    PyObject* item = PyMapping_GetItemString(given, fields[i].name);
    if (item == NULL) {
      if (!PyErr_ExceptionMatches(PyExc_KeyError)) return -1;
      PyErr_Clear();
      continue;
    }
    int64_t wide = 0;
    int32_t narrow = 0;
    char* const field = (char*)problem + fields[i].offset;
    const bool is_narrow = fields[i].size == sizeof narrow;
    const int result =
        is_narrow ? read_int32(item, fields[i].name, &narrow) : read_int(item, fields[i].name, &wide);
    Py_DECREF(item);
    if (result < 0) return -1;
    memcpy(field, is_narrow ? (const void*)&narrow : &wide, fields[i].size);
  }
  return 0;
}
