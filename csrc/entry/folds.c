/* What `sum`, `min`, `torch.tensor` and the like make of lists of plain numbers; no user code runs. */
#include "entry.h"

static bool
is_plain_numbers(PyObject *object)
{
    if (!PyList_CheckExact(object)) {
        return false;
    }
    for (Py_ssize_t i = 0; i < PyList_GET_SIZE(object); i++) {
        PyObject *item = PyList_GET_ITEM(object, i);
        if (!PyFloat_CheckExact(item) && !PyLong_CheckExact(item)) {
            return false;
        }
    }
    return true;
}

/* fold(function, list): what the function makes of it, None if there is more than plain numbers in it, or none. */
static PyObject *
fold(PyObject *function, PyObject *object)
{
    if (!is_plain_numbers(object) || PyList_GET_SIZE(object) == 0) {
        Py_RETURN_NONE;
    }
    return PyObject_CallOneArg(function, object);
}

static PyMethodDef fold_method = {"fold", fold, METH_O, "fold(list) -> what a builtin makes of plain numbers, or None"};

/* plain_fold(function): `fold` for a function written in C. */
PyObject *
plain_fold(PyObject *Py_UNUSED(module), PyObject *function)
{
    if (PyFunction_Check(function) || !PyCallable_Check(function)) {
        PyErr_SetString(PyExc_TypeError, "plain_fold takes a function written in C");
        return NULL;
    }
    return PyCFunction_New(&fold_method, function);
}
