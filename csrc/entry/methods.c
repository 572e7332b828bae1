/* Methods that C has bound: two of one name and receiver may be those of two classes. */
#include "entry.h"

/* method_code(method) -> the address of the C function behind a builtin function or method; 0 for anything else. */
PyObject *
method_code(PyObject *Py_UNUSED(module), PyObject *method)
{
    if (!PyCFunction_Check(method)) {
        return PyLong_FromLong(0);
    }
    return PyLong_FromVoidPtr((void *)PyCFunction_GET_FUNCTION(method));
}
