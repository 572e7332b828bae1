/* Watched C functions: where native code calls one during a span, the call goes to stator, which has a stand-in for it or refuses. */
#include "frames.h"

#define KINDS (METH_VARARGS | METH_KEYWORDS | METH_NOARGS | METH_O | METH_FASTCALL | METH_METHOD)

static PyObject *call_callback;                      /* strong; set once by the package */
static vectorcallfunc original_by_kind[KINDS + 1];   /* CPython has one vectorcall function per calling convention */

static int kind_of(PyObject *function) { return ((PyCFunctionObject *)function)->m_ml->ml_flags & KINDS; }

static PyObject *keywords_of(PyObject *const *values, PyObject *names) {
    PyObject *keywords = PyDict_New();
    for (Py_ssize_t i = 0; keywords && names && i < PyTuple_GET_SIZE(names); i++) {
        if (PyDict_SetItem(keywords, PyTuple_GET_ITEM(names, i), values[i]) < 0) {
            Py_CLEAR(keywords);
        }
    }
    return keywords;
}

static PyObject *tuple_of(PyObject *const *values, Py_ssize_t count) {
    PyObject *tuple = PyTuple_New(count);
    for (Py_ssize_t i = 0; tuple && i < count; i++) {
        PyTuple_SET_ITEM(tuple, i, Py_NewRef(values[i]));
    }
    return tuple;
}

static vectorcallfunc original_type_call; /* of `type` itself */

static PyObject *call_original(PyObject *function, PyObject *const *args, size_t nargsf, PyObject *kwnames) {
    vectorcallfunc original = original_by_kind[kind_of(function)];
    if (original) {
        return original(function, args, nargsf, kwnames);
    }
    Py_ssize_t count = PyVectorcall_NARGS(nargsf);
    PyObject *tuple = tuple_of(args, count), *result = NULL;
    PyObject *keywords = kwnames && PyTuple_GET_SIZE(kwnames) ? keywords_of(args + count, kwnames) : NULL;
    if (tuple && !PyErr_Occurred()) {
        result = PyCFunction_Type.tp_call(function, tuple, keywords);
    }
    Py_XDECREF(tuple);
    Py_XDECREF(keywords);
    return result;
}

static PyObject *asked_call(PyObject *function, PyObject *const *args, size_t nargsf, PyObject *kwnames) {
    Py_ssize_t count = PyVectorcall_NARGS(nargsf);
    PyObject *tuple = tuple_of(args, count), *keywords = keywords_of(args + count, kwnames), *result = NULL;
    if (tuple && keywords) {
        result = stator_ask(call_callback, function, tuple, keywords);
    }
    Py_XDECREF(tuple);
    Py_XDECREF(keywords);
    return result;
}

static PyObject *watched_call(PyObject *function, PyObject *const *args, size_t nargsf, PyObject *kwnames) {
    if (!stator_asked() || !call_callback) {
        return call_original(function, args, nargsf, kwnames);
    }
    return asked_call(function, args, nargsf, kwnames);
}

/* `map(type, values)`: what stands for a tensor during a capture says that it is one. */
static PyObject *watched_type_call(PyObject *type, PyObject *const *args, size_t nargsf, PyObject *kwnames) {
    int asks = type == (PyObject *)&PyType_Type && PyVectorcall_NARGS(nargsf) == 1 && !kwnames && stator_asked();
    return (asks ? asked_call : original_type_call)(type, args, nargsf, kwnames);
}

static int is_watched(PyObject *function) {
    return PyCFunction_Check(function) && ((PyCFunctionObject *)function)->vectorcall == watched_call;
}

/* A call that stator makes itself: past the watch on the function called. */
PyObject *stator_vectorcall(PyObject *function, PyObject *const *args, size_t nargsf, PyObject *kwnames) {
    return is_watched(function) ? call_original(function, args, nargsf, kwnames) : PyObject_Vectorcall(function, args, nargsf, kwnames);
}

PyObject *stator_call(PyObject *function, PyObject *args, PyObject *kwargs) {
    if (!is_watched(function)) {
        return PyObject_Call(function, args, kwargs);
    }
    if (!original_by_kind[kind_of(function)]) {
        return PyCFunction_Type.tp_call(function, args, kwargs);
    }
    PyObject *values = PySequence_List(args), *names = PyTuple_New(kwargs ? PyDict_GET_SIZE(kwargs) : 0), *result = NULL;
    PyObject *key, *value;
    Py_ssize_t at = 0, count = 0;
    while (values && names && kwargs && PyDict_Next(kwargs, &at, &key, &value)) {
        if (!PyUnicode_Check(key)) {
            PyErr_SetString(PyExc_TypeError, "keywords must be strings");
            break;
        }
        PyTuple_SET_ITEM(names, count++, Py_NewRef(key));
        if (PyList_Append(values, value) < 0) {
            break;
        }
    }
    if (values && names && !PyErr_Occurred()) {
        PyObject **items = ((PyListObject *)values)->ob_item;
        result = call_original(function, items, PyTuple_GET_SIZE(args), count ? names : NULL);
    }
    Py_XDECREF(values);
    Py_XDECREF(names);
    return result;
}

/* watch_function(function) -> whether it was not watched before */
static PyObject *watch_function(PyObject *module, PyObject *function) {
    if (!PyCFunction_Check(function) || is_watched(function)) {
        Py_RETURN_FALSE;
    }
    original_by_kind[kind_of(function)] = ((PyCFunctionObject *)function)->vectorcall;
    ((PyCFunctionObject *)function)->vectorcall = watched_call;
    Py_RETURN_TRUE;
}

static PyObject *unwatch_function(PyObject *module, PyObject *function) {
    if (is_watched(function)) {
        ((PyCFunctionObject *)function)->vectorcall = original_by_kind[kind_of(function)];
    }
    Py_RETURN_NONE;
}

static PyObject *set_call_callback(PyObject *module, PyObject *callback) {
    Py_XSETREF(call_callback, Py_NewRef(callback));
    if (!original_type_call && PyType_Type.tp_vectorcall) {
        original_type_call = PyType_Type.tp_vectorcall;
        PyType_Type.tp_vectorcall = watched_type_call;
    }
    Py_RETURN_NONE;
}

static PyMethodDef methods[] = {
    {"watch_function", watch_function, METH_O, "route calls that native code makes of a C function through stator"},
    {"unwatch_function", unwatch_function, METH_O, "undo watch_function"},
    {"set_call_callback", set_call_callback, METH_O, "set_call_callback(call(function, args, kwargs)) for watched functions"},
    {NULL},
};

int stator_calls_ready(PyObject *module) { return PyModule_AddFunctions(module, methods); }
