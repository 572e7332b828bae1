/* The number that an enumerate gives next: read, and put there, without touching the iterator below it. */
#include "entry.h"

static bool layout_known;

/* Borrowed, or NULL with an exception: an exact enumerate that counts by machine numbers. */
static EnumerateIterator *
counter(PyObject *object)
{
    EnumerateIterator *found = (EnumerateIterator *)object;
    if (!layout_known || !Py_IS_TYPE(object, &PyEnum_Type) || found->index == PY_SSIZE_T_MAX) {
        PyErr_SetString(PyExc_TypeError, "an enumerate of another kind");
        return NULL;
    }
    return found;
}

/* enumerate_count(iterator) -> the number that it gives next. */
PyObject *
enumerate_count(PyObject *module, PyObject *object)
{
    const EnumerateIterator *found = counter(object);
    return found == NULL ? NULL : PyLong_FromSsize_t(found->index);
}

/* recount(iterator, number): it gives this number next. */
PyObject *
recount(PyObject *module, PyObject *args)
{
    PyObject *object;
    Py_ssize_t number;
    if (!PyArg_ParseTuple(args, "On:recount", &object, &number)) {
        return NULL;
    }
    EnumerateIterator *found = counter(object);
    if (found == NULL) {
        return NULL;
    }
    found->index = number;
    Py_RETURN_NONE;
}

int
counting_init(void)
{
    PyObject *tried = PyObject_CallFunction((PyObject *)&PyEnum_Type, "()i", 1234567);
    if (tried == NULL) {
        return -1;
    }
    layout_known = Py_TYPE(tried)->tp_basicsize == sizeof(EnumerateIterator) && ((EnumerateIterator *)tried)->index == 1234567;
    Py_DECREF(tried);
    return 0;
}
