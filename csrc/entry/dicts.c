/* Tables of dicts: where keys lie in them tells which ones were taken out and put in again. */
#include "entry.h"

/* keys_from(dict, place) -> list of the keys that lie at this place of the table or behind it, in order. */
PyObject *
keys_from(PyObject *Py_UNUSED(module), PyObject *args)
{
    PyObject *dict, *key;
    Py_ssize_t start, place = 0;
    if (!PyArg_ParseTuple(args, "O!n:keys_from", &PyDict_Type, &dict, &start)) {
        return NULL;
    }
    PyObject *keys = PyList_New(0);
    while (keys != NULL && PyDict_Next(dict, &place, &key, NULL)) {
        if (place > start && PyList_Append(keys, key) < 0) { /* `place` is behind the key */
            Py_CLEAR(keys);
        }
    }
    return keys;
}

/* dict_version(dict) -> a number that no other dict and no other state of it has. */
PyObject *
dict_version(PyObject *Py_UNUSED(module), PyObject *dict)
{
    if (!PyDict_Check(dict)) {
        PyErr_SetString(PyExc_TypeError, "a dict is needed");
        return NULL;
    }
    return PyLong_FromUnsignedLongLong(dict_tag(dict));
}
