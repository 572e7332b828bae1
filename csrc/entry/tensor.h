/* The TENSOR check: compares metadata where it lies in the TensorImpl. See tensor.c for how that place is learned. */
#ifndef STATOR_ENTRY_TENSOR_H
#define STATOR_ENTRY_TENSOR_H

#include "entry.h"

#define ANY_SIZE INT64_MIN
#define INLINE_DIMS 5

struct TensorCheck {
    PyTypeObject *cls;       /* borrowed from the spec, as the spec is from the program's keys */
    PyObject *spec;
    uint64_t keys;           /* dispatch keys */
    uint32_t facts;          /* dtype, device type and index as they lie in the TensorImpl */
    int32_t dims;            /* -1: sizes are not checked */
    bool direct;             /* sizes and strides may be read from the TensorImpl */
    bool strided;            /* strides are checked */
    bool requires_grad;
    int8_t leaf;             /* -1: not asked for */
    int64_t wanted[];        /* sizes, then strides */
};

/* Where things lie: words of the TensorImpl, and a byte of what its word `grad` points to. */
typedef struct {
    bool verified;
    int keys, facts, dims, grad, grad_flag;
    bool (*requires_grad)(const void *impl);
} TensorLayout;

extern TensorLayout tensor_layout;

/* A pointer to this slot is what torch's C ABI calls a handle. */
static inline void *
tensor_handle(PyObject *tensor)
{
    return (char *)tensor + sizeof(PyObject);
}

static inline const uint64_t *
tensor_impl(PyObject *tensor)
{
    return *(const uint64_t **)tensor_handle(tensor);
}

/* Sizes and strides lie side by side: inline for few dimensions, behind a pointer for more. */
static inline void
tensor_dims(const uint64_t *impl, int64_t dims, const int64_t **sizes, const int64_t **strides)
{
    const int64_t *inside = (const int64_t *)impl + tensor_layout.dims + 1;
    if (dims <= INLINE_DIMS) {
        *sizes = inside;
        *strides = inside + INLINE_DIMS;
    }
    else {
        *sizes = (const int64_t *)(intptr_t)inside[0];
        *strides = *sizes + dims;
    }
}

static inline bool
dims_match(const int64_t *have, const int64_t *wanted, int32_t dims)
{
    for (int32_t i = 0; i < dims; i++) {
        if (wanted[i] != have[i] && wanted[i] != ANY_SIZE) {
            return false;
        }
    }
    return true;
}

/* Leaves say so themselves; whether an inner tensor needs gradients only torch's own function knows. */
static inline bool
tensor_needs_grad(const uint64_t *impl)
{
    const char *gradients = (const char *)(uintptr_t)impl[tensor_layout.grad];
    return gradients != NULL && (gradients[tensor_layout.grad_flag] != 0 || tensor_layout.requires_grad(impl));
}

/* What is not as common: an unknown layout, sizes that a TensorImpl subclass computes, leaves. */
bool tensor_check_slowly(PyObject *tensor, const TensorCheck *check);

static inline bool
tensor_check(PyObject *tensor, const TensorCheck *check)
{
    if (Py_TYPE(tensor) != check->cls) {
        return false;
    }
    if (!check->direct) {
        return tensor_check_slowly(tensor, check);
    }
    const uint64_t *impl = tensor_impl(tensor);
    const int64_t *sizes, *strides;
    if (impl == NULL || impl[tensor_layout.keys] != check->keys || (uint32_t)impl[tensor_layout.facts] != check->facts
        || (int64_t)impl[tensor_layout.dims] != check->dims) {
        return false;
    }
    tensor_dims(impl, check->dims, &sizes, &strides);
    return dims_match(sizes, check->wanted, check->dims)
           && (!check->strided || dims_match(strides, check->wanted + check->dims, check->dims))
           && tensor_needs_grad(impl) == check->requires_grad;
}

#endif
