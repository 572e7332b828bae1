/* Tensor metadata without torch's C++ headers.
 *
 * The Python object of a tensor is a header followed by the pointer to the TensorImpl. Where the fields lie in the
 * TensorImpl is learned from probe tensors (tensor_learn) and used only if every probe agrees; metadata that a
 * TensorImpl subclass may compute goes through the exported C ABI. If anything is unknown, the Python twin answers. */
#include "tensor.h"
#include <dlfcn.h>

typedef int32_t (*read_int32)(void *handle, int32_t *out);
typedef int32_t (*read_int64)(void *handle, int64_t *out);
typedef int32_t (*read_array)(void *handle, int64_t **out);

static struct {
    read_int32 dtype, device_type, device_index, layout;
    read_int64 dim;
    read_array sizes, strides;
    bool (*is_leaf)(const void *handle);
} torch_abi;

TensorLayout tensor_layout;

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
    {"_ZNK2at10TensorBase7is_leafEv", &torch_abi.is_leaf},
    {"_ZNK3c1010TensorImpl13requires_gradEv", &tensor_layout.requires_grad},
};
static bool symbols_found;
static PyObject *python_twin;

int
tensor_init(void *library)
{
    symbols_found = true;
    for (size_t i = 0; i < Py_ARRAY_LENGTH(symbols); i++) {
        void *found = dlsym(library, symbols[i].symbol);
        memcpy(symbols[i].target, &found, sizeof(found));
        symbols_found = symbols_found && found != NULL;
    }
    return 0;
}

bool
tensor_symbols_found(void)
{
    return symbols_found;
}

bool
tensor_layout_verified(void)
{
    return tensor_layout.verified;
}

/* dtype, device type, device index, layout as torch numbers them. */
bool
tensor_read_raw(PyObject *tensor, int32_t raw[4])
{
    void *handle = tensor_handle(tensor);
    return torch_abi.dtype(handle, &raw[0]) == 0 && torch_abi.device_type(handle, &raw[1]) == 0
           && torch_abi.device_index(handle, &raw[2]) == 0 && torch_abi.layout(handle, &raw[3]) == 0;
}

/* The first three of them as they lie in the TensorImpl. */
uint32_t
tensor_pack_facts(const int32_t raw[4])
{
    return (uint32_t)(uint16_t)raw[0] | (uint32_t)(uint8_t)raw[1] << 16 | (uint32_t)(uint8_t)raw[2] << 24;
}

/* The numbers of tensor_read_raw; zeros if the ABI is missing. */
PyObject *
tensor_raw(PyObject *Py_UNUSED(module), PyObject *tensor)
{
    int32_t raw[4] = {0};
    if (symbols_found && !tensor_read_raw(tensor, raw)) {
        PyErr_SetString(PyExc_ValueError, "tensor has no readable metadata");
        return NULL;
    }
    return Py_BuildValue("(iiii)", raw[0], raw[1], raw[2], raw[3]);
}

/* Copies a tuple of ints (None: any) to `out`. */
int
tensor_copy_dims(PyObject *tuple, Py_ssize_t size, int64_t *out)
{
    if (PyTuple_GET_SIZE(tuple) != size) {
        PyErr_SetString(PyExc_ValueError, "sizes and strides differ in length");
        return -1;
    }
    for (Py_ssize_t i = 0; i < size; i++) {
        PyObject *item = PyTuple_GET_ITEM(tuple, i);
        out[i] = item == Py_None ? ANY_SIZE : PyLong_AsLongLong(item);
    }
    return PyErr_Occurred() ? -1 : 0;
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
    return PyUnicode_FromString(tensor_layout.verified ? "direct" : "python");
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
    check->facts = tensor_pack_facts(raw);
    check->requires_grad = grad == Py_True;
    check->leaf = leaf == Py_None ? -1 : leaf == Py_True;
    check->strided = strides != Py_None;
    check->direct = plain == Py_True && check->leaf < 0 && check->dims >= 0 && tensor_layout.verified;
    if (PyErr_Occurred()) {
        return -1;
    }
    if (check->dims < 0) {
        return 0;
    }
    if (tensor_copy_dims(sizes, check->dims, check->wanted) < 0) {
        return -1;
    }
    return check->strided ? tensor_copy_dims(strides, check->dims, check->wanted + check->dims) : 0;
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

/* Sizes and strides through the C ABI, for tensors whose TensorImpl is not the plain one. */
static bool
abi_dims_match(PyObject *tensor, const TensorCheck *check)
{
    void *handle = tensor_handle(tensor);
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
    forgive();
    return holds;
}

bool
tensor_check_slowly(PyObject *tensor, const TensorCheck *check)
{
    if (!tensor_layout.verified) {
        return twin_check(tensor, check);
    }
    const uint64_t *impl = tensor_impl(tensor);
    if (impl == NULL || impl[tensor_layout.keys] != check->keys || (uint32_t)impl[tensor_layout.facts] != check->facts) {
        return false;
    }
    return (check->dims < 0 || abi_dims_match(tensor, check)) && tensor_needs_grad(impl) == check->requires_grad
           && (check->leaf < 0 || torch_abi.is_leaf(tensor_handle(tensor)) == (check->leaf == 1));
}

/* One size or stride of a strided tensor; false if it has no such dimension. */
bool
tensor_number(PyObject *tensor, bool stride, int32_t index, int64_t *out)
{
    int64_t dims, *have;
    if (!symbols_found) {
        PyObject *number = PyObject_CallMethod(tensor, stride ? "stride" : "size", "i", index);
        *out = number == NULL ? 0 : PyLong_AsLongLong(number);
        Py_XDECREF(number);
        bool known = !PyErr_Occurred();
        PyErr_Clear();
        return known;
    }
    void *handle = tensor_handle(tensor);
    if (torch_abi.dim(handle, &dims) != 0 || index >= dims
        || (stride ? torch_abi.strides : torch_abi.sizes)(handle, &have) != 0) {
        return false;
    }
    *out = have[index];
    return true;
}

/* The addresses a check reads behind the Python object: parts of the TensorImpl, and its gradient's flag. */
const char **
tensor_lines(PyObject *tensor, const char **out)
{
    const uint64_t *impl = tensor_impl(tensor);
    *out++ = (const char *)tensor_handle(tensor);
    *out++ = (const char *)(impl + tensor_layout.grad);
    *out++ = (const char *)(impl + tensor_layout.dims + 2);
    *out++ = (const char *)(impl + tensor_layout.keys);
    *out++ = impl == NULL ? NULL : (const char *)(uintptr_t)impl[tensor_layout.grad] + tensor_layout.grad_flag;
    return out;
}
