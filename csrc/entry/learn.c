/* Learning where a TensorImpl keeps its metadata, from probe tensors whose metadata is known. */
#include "tensor.h"
#include <malloc.h>

#define PROBED_WORDS 22
#define PROBED_DIMS 8

/* Words that no probe has contradicted yet, one bit each. */
typedef struct {
    uint32_t keys, facts, dims;
} Candidates;

static bool
dims_at(const uint64_t *impl, int word, int64_t dims, const int64_t *sizes, const int64_t *strides)
{
    if (impl[word] != (uint64_t)dims || word + 2 * INLINE_DIMS >= PROBED_WORDS) {
        return false;
    }
    const int64_t *have[2];
    tensor_layout.dims = word;
    tensor_dims(impl, dims, &have[0], &have[1]);
    size_t bytes = sizeof(int64_t) * (size_t)dims;
    bool plausible = dims <= INLINE_DIMS || (uintptr_t)have[0] > 4096;
    return plausible && memcmp(have[0], sizes, bytes) == 0 && memcmp(have[1], strides, bytes) == 0;
}

/* One probe: (tensor, cdata, keys, sizes, strides). Drops the candidates that contradict it. */
static int
learn_from(PyObject *probe, Candidates *left)
{
    PyObject *tensor, *sizes, *strides;
    unsigned long long cdata, keys;
    if (!PyArg_ParseTuple(probe, "OKKO!O!", &tensor, &cdata, &keys, &PyTuple_Type, &sizes, &PyTuple_Type, &strides)) {
        return -1;
    }
    int32_t raw[4];
    int64_t wanted[2][PROBED_DIMS];
    const uint64_t *impl = tensor_impl(tensor);
    Py_ssize_t dims = PyTuple_GET_SIZE(sizes);
    if ((uint64_t)(uintptr_t)impl != cdata || dims > PROBED_DIMS || !tensor_read_raw(tensor, raw)) {
        *left = (Candidates){0};
        return 0;
    }
    if (tensor_copy_dims(sizes, dims, wanted[0]) < 0 || tensor_copy_dims(strides, dims, wanted[1]) < 0) {
        return -1;
    }
    for (int word = 1; word < PROBED_WORDS; word++) {
        uint32_t bit = 1u << word;
        left->keys &= impl[word] == keys ? ~0u : ~bit;
        left->facts &= (uint32_t)impl[word] == tensor_pack_facts(raw) ? ~0u : ~bit;
        left->dims &= (left->dims & bit) && dims_at(impl, word, dims, wanted[0], wanted[1]) ? ~0u : ~bit;
    }
    return 0;
}

/* The single candidate, or -1. */
static int
only(uint32_t candidates)
{
    candidates &= (1u << PROBED_WORDS) - 2;
    return __builtin_popcount(candidates) == 1 ? __builtin_ctz(candidates) : -1;
}

/* tensor_learn([probe]): True if every probe agrees on one place for each kind of metadata. */
PyObject *
tensor_learn(PyObject *Py_UNUSED(module), PyObject *probes)
{
    Candidates left = {~0u, ~0u, ~0u};
    tensor_layout.verified = false;
    if (!tensor_symbols_found() || !PyList_Check(probes)) {
        Py_RETURN_FALSE;
    }
    for (Py_ssize_t i = 0; i < PyList_GET_SIZE(probes); i++) {
        if (learn_from(PyList_GET_ITEM(probes, i), &left) < 0) {
            return NULL;
        }
    }
    tensor_layout.keys = only(left.keys);
    tensor_layout.facts = only(left.facts);
    tensor_layout.dims = only(left.dims);
    return PyBool_FromLong(tensor_layout.keys > 0 && tensor_layout.facts > 0 && tensor_layout.dims > 0);
}

/* The word that is NULL in a tensor without gradients and points somewhere in one with, -1 if there is not just one. */
static int
gradient_word(const uint64_t *without, const uint64_t *with)
{
    uint32_t found = 0;
    for (int word = 2; word < tensor_layout.dims; word++) {
        found |= without[word] == 0 && with[word] > 4096 ? 1u << word : 0;
    }
    return only(found);
}

/* tensor_learn_grad(plain, leaf, change): `leaf` needs gradients and stops to when change(False) is called.
 * True if exactly one byte behind the gradient's word tells; after that the layout counts as verified. */
PyObject *
tensor_learn_grad(PyObject *Py_UNUSED(module), PyObject *args)
{
    PyObject *plain, *leaf, *change;
    char before[256];
    if (!PyArg_ParseTuple(args, "OOO", &plain, &leaf, &change)) {
        return NULL;
    }
    tensor_layout.grad = gradient_word(tensor_impl(plain), tensor_impl(leaf));
    if (tensor_layout.grad < 0) {
        Py_RETURN_FALSE;
    }
    const char *gradients = (const char *)(uintptr_t)tensor_impl(leaf)[tensor_layout.grad];
    size_t size = malloc_usable_size((void *)gradients);
    size = size < sizeof(before) ? size : sizeof(before);
    memcpy(before, gradients, size);
    PyObject *done = PyObject_CallOneArg(change, Py_False);
    if (done == NULL) {
        return NULL;
    }
    Py_DECREF(done);
    int changed = 0;
    for (size_t at = 0; at < size; at++) {
        if (before[at] != gradients[at]) {
            tensor_layout.grad_flag = (int)at;
            changed += before[at] == 1 && gradients[at] == 0 ? 1 : 2;
        }
    }
    bool same_place = (const char *)(uintptr_t)tensor_impl(leaf)[tensor_layout.grad] == gradients;
    tensor_layout.verified = changed == 1 && same_place && tensor_layout.keys > 0;
    return PyBool_FromLong(tensor_layout.verified);
}
