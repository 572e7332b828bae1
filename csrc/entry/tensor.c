/* Tensor metadata without torch's C++ headers.
 *
 * The Python object of a tensor is a header followed by the pointer to the TensorImpl. Where the fields lie in the
 * TensorImpl is learned from probe tensors (tensor_learn) and used only if every probe agrees; metadata that a
 * TensorImpl subclass may compute goes through the exported C ABI. If anything is unknown, the Python twin answers. */
#include "entry.h"
#include <dlfcn.h>

#define ANY INT64_MIN
#define PROBED_WORDS 22
#define INLINE_DIMS 5

struct TensorCheck {
    PyTypeObject *cls;       /* borrowed from the spec, as the spec is from the instruction */
    PyObject *spec;
    uint64_t keys;           /* dispatch keys */
    uint32_t facts;          /* dtype, device type and index as they lie in the TensorImpl */
    int32_t dims;            /* -1: sizes are not checked */
    bool strided;            /* strides are checked */
    bool direct;             /* sizes may be read from the TensorImpl */
    bool requires_grad;
    int8_t leaf;             /* -1: not asked for */
    int64_t wanted[];        /* sizes, then strides */
};

typedef int32_t (*read_int32)(void *handle, int32_t *out);
typedef int32_t (*read_int64)(void *handle, int64_t *out);
typedef int32_t (*read_array)(void *handle, int64_t **out);

static struct {
    read_int32 dtype, device_type, device_index, layout;
    read_int64 dim;
    read_array sizes, strides;
    bool (*requires_grad)(const void *impl);
    bool (*is_leaf)(const void *handle);
} torch_abi;

/* Word offsets inside the TensorImpl; valid if `verified`. */
static struct {
    bool verified;
    int keys, facts, dims;
} layout;

static PyObject *python_twin;

static const struct {
    const char *symbol;
    void *target;
} symbols[] = {
    {"aoti_torch_get_dtype", &torch_abi.dtype},
    {"aoti_torch_get_device_type", &torch_abi.device_type},
    {"aoti_torch_get_device_index", &torch_abi.device_index},
    {"aoti_torch_get_layout", &torch_abi.layout},
    {"aoti_torch_get_dim", &torch_abi.dim},
    {"aoti_torch_get_sizes", &torch_abi.sizes},
    {"aoti_torch_get_strides", &torch_abi.strides},
    {"_ZNK3c1010TensorImpl13requires_gradEv", &torch_abi.requires_grad},
    {"_ZNK2at10TensorBase7is_leafEv", &torch_abi.is_leaf},
};
static bool symbols_found;

/* A pointer to this slot is what torch's C ABI calls a handle. */
static inline void *
handle_of(PyObject *tensor)
{
    return (char *)tensor + sizeof(PyObject);
}

static inline const uint64_t *
impl_of(PyObject *tensor)
{
    return *(const uint64_t **)handle_of(tensor);
}

int
tensor_init(PyObject *Py_UNUSED(torch), void *library)
{
    symbols_found = true;
    for (size_t i = 0; i < Py_ARRAY_LENGTH(symbols); i++) {
        void *found = dlsym(library, symbols[i].symbol);
        memcpy(symbols[i].target, &found, sizeof(found));
        symbols_found = symbols_found && found != NULL;
    }
    return 0;
}

static bool
read_raw(PyObject *tensor, int32_t raw[4])
{
    void *handle = handle_of(tensor);
    return torch_abi.dtype(handle, &raw[0]) == 0 && torch_abi.device_type(handle, &raw[1]) == 0
           && torch_abi.device_index(handle, &raw[2]) == 0 && torch_abi.layout(handle, &raw[3]) == 0;
}

static uint32_t
pack_facts(int32_t dtype, int32_t device_type, int32_t device_index)
{
    return (uint32_t)(uint16_t)dtype | (uint32_t)(uint8_t)device_type << 16 | (uint32_t)(uint8_t)device_index << 24;
}

/* (dtype, device type, device index, layout) as torch numbers them; zeros if the ABI is missing. */
PyObject *
tensor_raw(PyObject *Py_UNUSED(module), PyObject *tensor)
{
    int32_t raw[4] = {0};
    if (symbols_found && !read_raw(tensor, raw)) {
        PyErr_SetString(PyExc_ValueError, "tensor has no readable metadata");
        return NULL;
    }
    return Py_BuildValue("(iiii)", raw[0], raw[1], raw[2], raw[3]);
}

/* Copies a tuple of ints (None: any) to `out`. */
static int
copy_dims(PyObject *tuple, Py_ssize_t size, int64_t *out)
{
    if (PyTuple_GET_SIZE(tuple) != size) {
        PyErr_SetString(PyExc_ValueError, "sizes and strides differ in length");
        return -1;
    }
    for (Py_ssize_t i = 0; i < size; i++) {
        PyObject *item = PyTuple_GET_ITEM(tuple, i);
        out[i] = item == Py_None ? ANY : PyLong_AsLongLong(item);
    }
    return PyErr_Occurred() ? -1 : 0;
}

/* Sizes and strides lie side by side: inline for few dimensions, behind a pointer for more. */
static inline void
direct_dims(const uint64_t *impl, int64_t dims, const int64_t **sizes, const int64_t **strides)
{
    const int64_t *inside = (const int64_t *)impl + layout.dims + 1;
    if (dims <= INLINE_DIMS) {
        *sizes = inside;
        *strides = inside + INLINE_DIMS;
    }
    else {
        *sizes = (const int64_t *)(intptr_t)inside[0];
        *strides = *sizes + dims;
    }
}

/* One probe: (tensor, cdata, keys, sizes, strides). Drops candidate words that contradict it. */
static int
learn_from(PyObject *probe, uint32_t candidates[3])
{
    PyObject *tensor, *sizes, *strides;
    unsigned long long cdata, keys;
    if (!PyArg_ParseTuple(probe, "OKKO!O!", &tensor, &cdata, &keys, &PyTuple_Type, &sizes, &PyTuple_Type, &strides)) {
        return -1;
    }
    int32_t raw[4];
    const uint64_t *impl = impl_of(tensor);
    Py_ssize_t dims = PyTuple_GET_SIZE(sizes);
    int64_t wanted[2][8];
    if ((uint64_t)(uintptr_t)impl != cdata || dims > 8 || !read_raw(tensor, raw)) {
        candidates[0] = candidates[1] = candidates[2] = 0;
        return 0;
    }
    if (copy_dims(sizes, dims, wanted[0]) < 0 || copy_dims(strides, dims, wanted[1]) < 0) {
        return -1;
    }
    uint32_t facts = pack_facts(raw[0], raw[1], raw[2]);
    for (int word = 1; word < PROBED_WORDS; word++) {
        uint32_t bit = 1u << word;
        candidates[0] &= impl[word] == keys ? ~0u : ~bit;
        candidates[1] &= (uint32_t)impl[word] == facts ? ~0u : ~bit;
        if (!(candidates[2] & bit) || impl[word] != (uint64_t)dims || word + 2 * INLINE_DIMS >= PROBED_WORDS) {
            candidates[2] &= ~bit;
            continue;
        }
        layout.dims = word;
        const int64_t *have[2];
        direct_dims(impl, dims, &have[0], &have[1]);
        bool plausible = dims <= INLINE_DIMS || (uintptr_t)have[0] > 4096;
        if (!plausible || memcmp(have[0], wanted[0], sizeof(int64_t) * dims) != 0
            || memcmp(have[1], wanted[1], sizeof(int64_t) * dims) != 0) {
            candidates[2] &= ~bit;
        }
    }
    return 0;
}

/* Finds the words every probe agrees on; True if each of the three is then a single one. */
PyObject *
tensor_learn(PyObject *Py_UNUSED(module), PyObject *probes)
{
    uint32_t candidates[3] = {~1u, ~1u, ~1u};
    layout.verified = false;
    if (!symbols_found || !PyList_Check(probes)) {
        Py_RETURN_FALSE;
    }
    for (Py_ssize_t i = 0; i < PyList_GET_SIZE(probes); i++) {
        if (learn_from(PyList_GET_ITEM(probes, i), candidates) < 0) {
            return NULL;
        }
    }
    int *found[3] = {&layout.keys, &layout.facts, &layout.dims};
    layout.verified = true;
    for (int i = 0; i < 3; i++) {
        candidates[i] &= (1u << PROBED_WORDS) - 2;
        layout.verified = layout.verified && __builtin_popcount(candidates[i]) == 1;
        *found[i] = candidates[i] ? __builtin_ctz(candidates[i]) : 0;
    }
    return PyBool_FromLong(layout.verified);
}

/* What to call as twin(spec, tensor) when the layout could not be verified. */
PyObject *
tensor_set_twin(PyObject *Py_UNUSED(module), PyObject *function)
{
    Py_XSETREF(python_twin, Py_NewRef(function));
    Py_RETURN_NONE;
}

PyObject *
tensor_mode(PyObject *Py_UNUSED(module), PyObject *Py_UNUSED(ignored))
{
    return PyUnicode_FromString(layout.verified ? "direct" : "python");
}

/* Reads an attribute of the spec as a borrowed pointer; the spec is immutable and keeps it. */
static PyObject *
spec_field(PyObject *spec, const char *name)
{
    PyObject *value = PyObject_GetAttrString(spec, name);
    Py_XDECREF(value);
    return value;
}

static int
fill_check(TensorCheck *check, PyObject *spec, PyObject *sizes, PyObject *strides)
{
    int32_t raw[4];
    PyObject *numbers = spec_field(spec, "raw"), *keys = spec_field(spec, "keys");
    PyObject *leaf = spec_field(spec, "leaf"), *grad = spec_field(spec, "requires_grad");
    PyObject *plain = spec_field(spec, "plain"), *cls = spec_field(spec, "cls");
    if (PyErr_Occurred() || !PyArg_ParseTuple(numbers, "iiii", &raw[0], &raw[1], &raw[2], &raw[3])) {
        return -1;
    }
    check->spec = spec;
    check->cls = (PyTypeObject *)cls;
    check->keys = PyLong_AsUnsignedLongLong(keys);
    check->facts = pack_facts(raw[0], raw[1], raw[2]);
    check->direct = plain == Py_True;
    check->requires_grad = grad == Py_True;
    check->leaf = leaf == Py_None ? -1 : leaf == Py_True;
    check->strided = strides != Py_None;
    if (check->dims < 0) {
        return PyErr_Occurred() ? -1 : 0;
    }
    if (copy_dims(sizes, check->dims, check->wanted) < 0) {
        return -1;
    }
    return check->strided ? copy_dims(strides, check->dims, check->wanted + check->dims) : 0;
}

TensorCheck *
tensor_check_new(PyObject *spec)
{
    PyObject *sizes = spec_field(spec, "sizes"), *strides = spec_field(spec, "strides");
    if (PyErr_Occurred()) {
        return NULL;
    }
    Py_ssize_t dims = PyTuple_Check(sizes) ? PyTuple_GET_SIZE(sizes) : -1;
    TensorCheck *check = PyMem_Calloc(1, sizeof(TensorCheck) + (dims > 0 ? 2 * dims : 0) * sizeof(int64_t));
    if (check == NULL) {
        PyErr_NoMemory();
        return NULL;
    }
    check->dims = (int32_t)dims;
    if (fill_check(check, spec, sizes, dims < 0 ? Py_None : strides) < 0) {
        PyMem_Free(check);
        return NULL;
    }
    return check;
}

/* True if both ask for the same; which spec object they came from does not matter. */
bool
tensor_check_equal(const TensorCheck *left, const TensorCheck *right)
{
    size_t count = left->dims < 0 ? 0 : (left->strided ? 2 : 1) * (size_t)left->dims;
    return left->cls == right->cls && left->keys == right->keys && left->facts == right->facts && left->dims == right->dims
           && left->strided == right->strided && left->direct == right->direct
           && left->requires_grad == right->requires_grad && left->leaf == right->leaf
           && memcmp(left->wanted, right->wanted, count * sizeof(int64_t)) == 0;
}

void
tensor_check_free(TensorCheck *check)
{
    PyMem_Free(check);
}

static inline bool
dims_match(const int64_t *have, const int64_t *wanted, int32_t dims)
{
    for (int32_t i = 0; i < dims; i++) {
        if (wanted[i] != have[i] && wanted[i] != ANY) {
            return false;
        }
    }
    return true;
}

/* Sizes and strides through the C ABI, for tensors whose TensorImpl is not the plain one. */
static bool
abi_dims_match(PyObject *tensor, const TensorCheck *check)
{
    void *handle = handle_of(tensor);
    int64_t dims, *have;
    if (torch_abi.dim(handle, &dims) != 0 || dims != check->dims || torch_abi.sizes(handle, &have) != 0
        || !dims_match(have, check->wanted, check->dims)) {
        return false;
    }
    return !check->strided
           || (torch_abi.strides(handle, &have) == 0 && dims_match(have, check->wanted + dims, check->dims));
}

static bool
twin_check(PyObject *tensor, const TensorCheck *check)
{
    PyObject *result = python_twin == NULL ? NULL : PyObject_CallFunctionObjArgs(python_twin, check->spec, tensor, NULL);
    bool holds = result == Py_True;
    Py_XDECREF(result);
    PyErr_Clear();
    return holds;
}

bool
tensor_check(PyObject *tensor, const TensorCheck *check)
{
    if (Py_TYPE(tensor) != check->cls) {
        return false;
    }
    if (!layout.verified) {
        return twin_check(tensor, check);
    }
    const uint64_t *impl = impl_of(tensor);
    if (impl == NULL || impl[layout.keys] != check->keys || (uint32_t)impl[layout.facts] != check->facts) {
        return false;
    }
    if (check->dims >= 0) {
        if (!check->direct) {
            if (!abi_dims_match(tensor, check)) {
                return false;
            }
        }
        else {
            const int64_t *sizes, *strides;
            if ((int64_t)impl[layout.dims] != check->dims) {
                return false;
            }
            direct_dims(impl, check->dims, &sizes, &strides);
            if (!dims_match(sizes, check->wanted, check->dims)
                || (check->strided && !dims_match(strides, check->wanted + check->dims, check->dims))) {
                return false;
            }
        }
    }
    return torch_abi.requires_grad(impl) == check->requires_grad
           && (check->leaf < 0 || torch_abi.is_leaf(handle_of(tensor)) == (check->leaf == 1));
}

bool
tensor_layout_verified(void)
{
    return layout.verified;
}
