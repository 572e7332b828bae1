/* Equality of constants that never runs user code: exact builtin types only, everything else by identity. */
#include "entry.h"

#define MAX_DEPTH 32

static PyTypeObject *device_type;
static PyTypeObject *size_type;

static bool
scalar_type(PyTypeObject *type)
{
    return type == &PyUnicode_Type || type == &PyLong_Type || type == &PyFloat_Type || type == &PyBool_Type
           || type == &PyBytes_Type || type == &PyComplex_Type || type == Py_TYPE(Py_None)
           || type == Py_TYPE(Py_Ellipsis) || type == Py_TYPE(Py_NotImplemented);
}

/* Comparing these with one another runs no user code: constants, objects that are equal to themselves alone, C functions. */
static bool
comparable(PyObject *object, int depth)
{
    PyTypeObject *type = Py_TYPE(object);
    if (scalar_type(type) || type == device_type || type == &PyRange_Type || type == &PyCFunction_Type
        || type->tp_richcompare == PyBaseObject_Type.tp_richcompare) {
        return true;
    }
    if (depth == 0) {
        return false;
    }
    if (type == &PyTuple_Type || type == size_type) {
        for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(object); i++) {
            if (!comparable(PyTuple_GET_ITEM(object, i), depth - 1)) {
                return false;
            }
        }
        return true;
    }
    if (type == &PyFrozenSet_Type) {
        Py_ssize_t at = 0;
        PyObject *item;
        Py_hash_t hash;
        while (_PySet_NextEntry(object, &at, &item, &hash)) {
            if (!comparable(item, depth - 1)) {
                return false;
            }
        }
        return true;
    }
    return false;
}

int
key_equal(PyObject *stored, PyObject *key)
{
    if (stored == key) {
        return 1;
    }
    if (!comparable(stored, MAX_DEPTH) || !comparable(key, MAX_DEPTH)) {
        return -1;
    }
    return PyObject_RichCompareBool(stored, key, Py_EQ);
}

static bool same(PyObject *object, PyObject *key, int depth);

static bool
same_bits(double left, double right)
{
    return memcmp(&left, &right, sizeof(double)) == 0;
}

static bool
same_items(PyObject *object, PyObject *key, int depth)
{
    Py_ssize_t size = PyTuple_GET_SIZE(key);
    if (PyTuple_GET_SIZE(object) != size) {
        return false;
    }
    for (Py_ssize_t i = 0; i < size; i++) {
        if (!same(PyTuple_GET_ITEM(object, i), PyTuple_GET_ITEM(key, i), depth)) {
            return false;
        }
    }
    return true;
}

/* Equal and in the same order: a program can tell the difference. */
static bool
same_sets(PyObject *object, PyObject *key, int depth)
{
    if (PySet_GET_SIZE(object) != PySet_GET_SIZE(key)) {
        return false;
    }
    Py_ssize_t at = 0, here = 0;
    PyObject *item, *wanted;
    Py_hash_t hash;
    while (_PySet_NextEntry(key, &at, &wanted, &hash)) {
        if (!_PySet_NextEntry(object, &here, &item, &hash) || !same(item, wanted, depth)) {
            return false;
        }
    }
    return true;
}

/* Equal ranges can differ in `stop`, so the three numbers are compared. */
static bool
same_ranges(PyObject *object, PyObject *key)
{
    static const char *const parts[] = {"start", "stop", "step"};
    bool equal = true;
    for (int i = 0; equal && i < 3; i++) {
        PyObject *left = PyObject_GetAttrString(object, parts[i]);
        PyObject *right = PyObject_GetAttrString(key, parts[i]);
        equal = left != NULL && right != NULL && same(left, right, 0);
        Py_XDECREF(left);
        Py_XDECREF(right);
    }
    PyErr_Clear();
    return equal;
}

static bool
same(PyObject *object, PyObject *key, int depth)
{
    if (object == key) {
        return true;
    }
    PyTypeObject *type = Py_TYPE(key);
    if (Py_TYPE(object) != type) {
        return false;
    }
    if (type == &PyFloat_Type) {
        return same_bits(PyFloat_AS_DOUBLE(object), PyFloat_AS_DOUBLE(key));
    }
    if (type == &PyComplex_Type) {
        Py_complex left = PyComplex_AsCComplex(object), right = PyComplex_AsCComplex(key);
        return same_bits(left.real, right.real) && same_bits(left.imag, right.imag);
    }
    if (scalar_type(type) || type == device_type) {
        return PyObject_RichCompareBool(object, key, Py_EQ) == 1;
    }
    if (depth == 0) {
        return false;
    }
    if (type == &PyTuple_Type || type == size_type) {
        return same_items(object, key, depth - 1);
    }
    if (type == &PyFrozenSet_Type) {
        return same_sets(object, key, depth - 1);
    }
    if (type == &PySlice_Type) {
        PySliceObject *left = (PySliceObject *)object, *right = (PySliceObject *)key;
        return same(left->start, right->start, depth - 1) && same(left->stop, right->stop, depth - 1)
               && same(left->step, right->step, depth - 1);
    }
    return type == &PyRange_Type && same_ranges(object, key);
}

bool
constant_same(PyObject *object, PyObject *key)
{
    return same(object, key, MAX_DEPTH);
}

/* Keeps the two torch types whose instances are constants too. */
int
constants_init(PyObject *torch)
{
    device_type = (PyTypeObject *)PyObject_GetAttrString(torch, "device");
    size_type = (PyTypeObject *)PyObject_GetAttrString(torch, "Size");
    return device_type == NULL || size_type == NULL ? -1 : 0;
}
