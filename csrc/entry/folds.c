/* What `sum`, `min`, `torch.tensor` and the like make of lists of plain numbers; no user code runs. */
#include "entry.h"

enum { OTHERS, BOOLS, INTS, FLOATS };

/* The kind of number that all of a list can be: OTHERS if there is more in it, or nothing. */
static int
kind_of_numbers(PyObject *object)
{
    if (!PyList_CheckExact(object)) {
        return OTHERS;
    }
    int kind = OTHERS;
    for (Py_ssize_t i = 0; i < PyList_GET_SIZE(object); i++) {
        PyObject *item = PyList_GET_ITEM(object, i);
        int found = PyFloat_CheckExact(item) ? FLOATS : PyLong_CheckExact(item) ? INTS : PyBool_Check(item) ? BOOLS : OTHERS;
        if (found == OTHERS) {
            return OTHERS;
        }
        kind = found > kind ? found : kind;
    }
    return kind;
}

/* plain_kind(list): 0 for anything but a list of plain numbers; 1 for bools, 2 with ints, 3 with floats in it. */
PyObject *
plain_kind(PyObject *Py_UNUSED(module), PyObject *object)
{
    return PyLong_FromLong(kind_of_numbers(object));
}

/* fold(function, list): what the function makes of it, None if there is more than plain numbers in it, or none. */
static PyObject *
fold(PyObject *function, PyObject *object)
{
    if (kind_of_numbers(object) == OTHERS) {
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
