/* functools.lru_cache: looking into a cache, and putting a result into it, without calling the cached function. */
#include "entry.h"

typedef struct Link {
    PyObject_HEAD
    struct Link *prev, *next;
    Py_hash_t hash;
    PyObject *key, *result;
} Link;

/* The first fields of CPython's object. */
typedef struct {
    Link root;
    ternaryfunc wrapper;
    int typed;
    PyObject *cache;
    Py_ssize_t hits;
    PyObject *func;
    Py_ssize_t maxsize;
    Py_ssize_t misses;
    PyObject *keyword_mark;
    PyTypeObject *link_type;
} Cached;

static PyTypeObject *cached_type; /* NULL if the layout is another one */

/* The key that a call has in the cache. */
static PyObject *
make_key(Cached *cached, PyObject *args, PyObject *kwargs)
{
    Py_ssize_t count = PyTuple_GET_SIZE(args), names = kwargs == Py_None ? 0 : PyDict_GET_SIZE(kwargs);
    if (!cached->typed && names == 0) {
        PyObject *only = count == 1 ? PyTuple_GET_ITEM(args, 0) : NULL;
        return Py_NewRef(only != NULL && (PyUnicode_CheckExact(only) || PyLong_CheckExact(only)) ? only : args);
    }
    Py_ssize_t size = count + (names ? 1 + 2 * names : 0) + (cached->typed ? count + names : 0), used = 0, at = 0;
    PyObject *key = PyTuple_New(size), *name, *value;
    if (key == NULL) {
        return NULL;
    }
    for (Py_ssize_t i = 0; i < count; i++) {
        PyTuple_SET_ITEM(key, used++, Py_NewRef(PyTuple_GET_ITEM(args, i)));
    }
    if (names) {
        PyTuple_SET_ITEM(key, used++, Py_NewRef(cached->keyword_mark));
        while (PyDict_Next(kwargs, &at, &name, &value)) {
            PyTuple_SET_ITEM(key, used++, Py_NewRef(name));
            PyTuple_SET_ITEM(key, used++, Py_NewRef(value));
        }
    }
    if (cached->typed) {
        for (Py_ssize_t i = 0; i < count; i++) {
            PyTuple_SET_ITEM(key, used++, Py_NewRef((PyObject *)Py_TYPE(PyTuple_GET_ITEM(args, i))));
        }
        at = 0;
        while (names && PyDict_Next(kwargs, &at, &name, &value)) {
            PyTuple_SET_ITEM(key, used++, Py_NewRef((PyObject *)Py_TYPE(value)));
        }
    }
    return key;
}

static int
check(PyObject *wrapper, PyObject *args, PyObject *kwargs)
{
    if (cached_type == NULL || Py_TYPE(wrapper) != cached_type || !PyTuple_CheckExact(args)
        || (kwargs != Py_None && !PyDict_CheckExact(kwargs))) {
        PyErr_SetString(PyExc_TypeError, "expected an lru_cache wrapper, a tuple, and a dict or None");
        return -1;
    }
    return 0;
}

/* cached_key(args, kwargs, wrapper) */
PyObject *
cached_key(PyObject *Py_UNUSED(module), PyObject *const *args, Py_ssize_t nargs)
{
    if (nargs != 3 || check(args[2], args[0], args[1]) < 0) {
        return nargs == 3 ? NULL : PyErr_Format(PyExc_TypeError, "cached_key takes 3 arguments");
    }
    return make_key((Cached *)args[2], args[0], args[1]);
}

/* cached_result(args, kwargs, default, wrapper) */
PyObject *
cached_result(PyObject *Py_UNUSED(module), PyObject *const *args, Py_ssize_t nargs)
{
    if (nargs != 4 || check(args[3], args[0], args[1]) < 0) {
        return nargs == 4 ? NULL : PyErr_Format(PyExc_TypeError, "cached_result takes 4 arguments");
    }
    Cached *cached = (Cached *)args[3];
    PyObject *key = make_key(cached, args[0], args[1]);
    PyObject *found = key == NULL ? NULL : PyDict_GetItemWithError(cached->cache, key);
    Py_XDECREF(key);
    if (found == NULL) {
        return PyErr_Occurred() ? NULL : Py_NewRef(args[2]);
    }
    return Py_NewRef(Py_TYPE(found) == cached->link_type ? ((Link *)found)->result : found);
}

static PyObject *
answer(PyObject *self, PyObject *Py_UNUSED(args), PyObject *Py_UNUSED(kwargs))
{
    return Py_NewRef(self);
}

static PyMethodDef answer_definition = {"answer", (PyCFunction)(void (*)(void))answer, METH_VARARGS | METH_KEYWORDS, NULL};

/* cached_store(wrapper, args, kwargs, result): a call of the wrapper whose function gives this result, if it is called.
 *
 * Hashing and comparing the key runs no Python code (the caller has seen to that), so no other thread can run while the
 * function is another one. */
PyObject *
cached_store(PyObject *Py_UNUSED(module), PyObject *const *args, Py_ssize_t nargs)
{
    if (nargs != 4 || check(args[0], args[1], args[2]) < 0) {
        return nargs == 4 ? NULL : PyErr_Format(PyExc_TypeError, "cached_store takes 4 arguments");
    }
    Cached *cached = (Cached *)args[0];
    PyObject *stand_in = PyCFunction_New(&answer_definition, args[3]);
    if (stand_in == NULL) {
        return NULL;
    }
    PyObject *function = cached->func;
    cached->func = stand_in;
    PyObject *result = PyObject_Call(args[0], args[1], args[2] == Py_None ? NULL : args[2]);
    cached->func = function;
    Py_DECREF(stand_in);
    return result;
}

/* Recognises the layout on a cache whose contents are known; an unknown one leaves the type unset. */
int
cached_init(void)
{
    PyObject *functools = PyImport_ImportModule("functools"), *builtins = PyEval_GetBuiltins();
    PyObject *function = builtins == NULL ? NULL : PyDict_GetItemString(builtins, "len");
    PyObject *decorate = functools == NULL ? NULL : PyObject_CallMethod(functools, "lru_cache", "i", 4);
    PyObject *wrapper = decorate == NULL || function == NULL ? NULL : PyObject_CallOneArg(decorate, function);
    PyObject *key = PyUnicode_FromString("abc");
    PyObject *result = wrapper == NULL || key == NULL ? NULL : PyObject_CallOneArg(wrapper, key);
    if (result != NULL && Py_TYPE(wrapper)->tp_basicsize >= (Py_ssize_t)sizeof(Cached)) {
        Cached *cached = (Cached *)wrapper;
        if (cached->func == function && cached->maxsize == 4 && cached->misses == 1 && cached->hits == 0
            && cached->cache != NULL && PyDict_CheckExact(cached->cache)) {
            PyObject *found = PyDict_GetItem(cached->cache, key);
            if (found != NULL && Py_TYPE(found) == cached->link_type && ((Link *)found)->result == result) {
                cached_type = (PyTypeObject *)Py_NewRef((PyObject *)Py_TYPE(wrapper));
            }
        }
    }
    Py_XDECREF(functools);
    Py_XDECREF(decorate);
    Py_XDECREF(wrapper);
    Py_XDECREF(key);
    Py_XDECREF(result);
    return PyErr_Occurred() ? -1 : 0;
}
