/* What iterators of itertools will give, read without advancing them: count, cycle, repeat, chain and islice over builtin ones. */
#include "entry.h"

static PyTypeObject *count_type, *cycle_type, *repeat_type, *chain_type, *islice_type;

/* What `__reduce__` answers: a new reference to a tuple of at least two items, the second a tuple; state NULL if none. */
static PyObject *
reduced(PyObject *iterator, PyObject **args, PyObject **state)
{
    PyObject *found = PyObject_CallMethod(iterator, "__reduce__", NULL);
    if (found != NULL
        && (!PyTuple_Check(found) || PyTuple_GET_SIZE(found) < 2 || !PyTuple_Check(PyTuple_GET_ITEM(found, 1)))) {
        PyErr_SetString(PyExc_TypeError, "an iterator with an unknown state");
        Py_CLEAR(found);
    }
    if (found != NULL) {
        *args = PyTuple_GET_ITEM(found, 1);
        *state = PyTuple_GET_SIZE(found) > 2 ? PyTuple_GET_ITEM(found, 2) : NULL;
    }
    return found;
}

/* Appends the next elements of an iterator to a list, until that has `most`. */
static int
take(PyObject *iterator, Py_ssize_t most, PyObject *out)
{
    Py_ssize_t start = 0;
    while (PyList_GET_SIZE(out) < most) {
        PyObject *window = upcoming_from(iterator, start);
        if (window == NULL) {
            return -1;
        }
        Py_ssize_t size = PyTuple_GET_SIZE(window), full = upcoming_size(start);
        for (Py_ssize_t i = 0; i < size && PyList_GET_SIZE(out) < most; i++) {
            if (PyList_Append(out, PyTuple_GET_ITEM(window, i)) < 0) {
                Py_DECREF(window);
                return -1;
            }
        }
        Py_DECREF(window);
        start += size;
        if (size < full) {
            break;
        }
    }
    return 0;
}

static int
gather_cycle(PyObject *args, PyObject *state, Py_ssize_t most, PyObject *out)
{
    if (PyTuple_GET_SIZE(args) != 1 || state == NULL || !PyTuple_Check(state) || PyTuple_GET_SIZE(state) != 2
        || !PyList_Check(PyTuple_GET_ITEM(state, 0))) {
        PyErr_SetString(PyExc_TypeError, "a cycle with an unknown state");
        return -1;
    }
    if (take(PyTuple_GET_ITEM(args, 0), most, out) < 0) {
        return -1;
    }
    PyObject *pool = PyList_GetSlice(PyTuple_GET_ITEM(state, 0), 0, PY_SSIZE_T_MAX);
    int again = PyObject_IsTrue(PyTuple_GET_ITEM(state, 1));
    if (pool != NULL && !again && PyList_SetSlice(pool, PyList_GET_SIZE(pool), PyList_GET_SIZE(pool), out) < 0) {
        Py_CLEAR(pool);
    }
    for (Py_ssize_t i = 0; pool != NULL && PyList_GET_SIZE(pool) > 0 && PyList_GET_SIZE(out) < most; i++) {
        if (PyList_Append(out, PyList_GET_ITEM(pool, i % PyList_GET_SIZE(pool))) < 0) {
            Py_CLEAR(pool);
        }
    }
    Py_XDECREF(pool);
    return pool == NULL ? -1 : 0;
}

/* Ints only: floats are added up one by one. */
static int
gather_count(PyObject *args, Py_ssize_t most, PyObject *out)
{
    PyObject *number = PyTuple_GET_SIZE(args) > 0 ? PyTuple_GET_ITEM(args, 0) : NULL;
    PyObject *step = PyTuple_GET_SIZE(args) > 1 ? Py_NewRef(PyTuple_GET_ITEM(args, 1)) : PyLong_FromLong(1);
    int failed = step == NULL || number == NULL || !PyLong_CheckExact(number) || !PyLong_CheckExact(step);
    if (failed && !PyErr_Occurred()) {
        PyErr_SetString(PyExc_TypeError, "a count of other numbers than ints");
    }
    number = failed ? NULL : Py_NewRef(number);
    for (Py_ssize_t i = 0; !failed && i < most; i++) {
        failed = PyList_Append(out, number) < 0;
        Py_SETREF(number, PyNumber_Add(number, step));
        failed = failed || number == NULL;
    }
    Py_XDECREF(number);
    Py_XDECREF(step);
    return failed ? -1 : 0;
}

static int
gather_repeat(PyObject *args, Py_ssize_t most, PyObject *out)
{
    Py_ssize_t left = PyTuple_GET_SIZE(args) > 1 ? PyLong_AsSsize_t(PyTuple_GET_ITEM(args, 1)) : most;
    if (left == -1 && PyErr_Occurred()) {
        return -1;
    }
    for (Py_ssize_t i = 0; i < left && i < most; i++) {
        if (PyList_Append(out, PyTuple_GET_ITEM(args, 0)) < 0) {
            return -1;
        }
    }
    return 0;
}

/* Whether starting to iterate runs no user code. */
static bool
is_builtin(PyObject *iterable)
{
    return PyList_CheckExact(iterable) || PyTuple_CheckExact(iterable) || PyUnicode_CheckExact(iterable)
           || PyBytes_CheckExact(iterable) || PyDict_CheckExact(iterable) || PyAnySet_CheckExact(iterable)
           || Py_IS_TYPE(iterable, &PyRange_Type);
}

enum { MOST_ITERABLES = 64 };

static int
gather_chain(PyObject *state, Py_ssize_t most, PyObject *out)
{
    if (state == NULL) {
        return 0;
    }
    if (!PyTuple_Check(state) || PyTuple_GET_SIZE(state) < 1) {
        PyErr_SetString(PyExc_TypeError, "a chain with an unknown state");
        return -1;
    }
    if (PyTuple_GET_SIZE(state) > 1 && take(PyTuple_GET_ITEM(state, 1), most, out) < 0) {
        return -1;
    }
    PyObject *iterables = PyList_New(0);
    int failed = iterables == NULL || take(PyTuple_GET_ITEM(state, 0), MOST_ITERABLES, iterables) < 0;
    if (!failed && PyList_GET_SIZE(iterables) == MOST_ITERABLES) {
        PyErr_SetString(PyExc_TypeError, "a chain of many");
        failed = 1;
    }
    for (Py_ssize_t i = 0; !failed && i < PyList_GET_SIZE(iterables) && PyList_GET_SIZE(out) < most; i++) {
        PyObject *iterable = PyList_GET_ITEM(iterables, i), *iterator = NULL;
        if (!is_builtin(iterable)) {
            PyErr_SetString(PyExc_TypeError, "a chain over something unknown");
        }
        else {
            iterator = PyObject_GetIter(iterable);
        }
        failed = iterator == NULL || take(iterator, most, out) < 0;
        Py_XDECREF(iterator);
    }
    Py_XDECREF(iterables);
    return failed ? -1 : 0;
}

static int
gather_islice(PyObject *args, PyObject *state, Py_ssize_t most, PyObject *out)
{
    if (PyTuple_GET_SIZE(args) != 4) {
        return 0; /* over */
    }
    PyObject *end = PyTuple_GET_ITEM(args, 2);
    Py_ssize_t next = PyLong_AsSsize_t(PyTuple_GET_ITEM(args, 1)), step = PyLong_AsSsize_t(PyTuple_GET_ITEM(args, 3));
    Py_ssize_t stop = end == Py_None ? PY_SSIZE_T_MAX : PyLong_AsSsize_t(end);
    Py_ssize_t count = state == NULL ? 0 : PyLong_AsSsize_t(state);
    if (PyErr_Occurred()) {
        return -1;
    }
    if (step < 1 || next < count || next - count > 1 << 20 || step > 1 << 16) {
        PyErr_SetString(PyExc_TypeError, "an islice that is far away");
        return -1;
    }
    PyObject *below = PyList_New(0);
    int failed = below == NULL || take(PyTuple_GET_ITEM(args, 0), next - count + (most - 1) * step + 1, below) < 0;
    for (Py_ssize_t k = 0; !failed && k < most && next + k * step < stop; k++) {
        Py_ssize_t at = next - count + k * step;
        if (at >= PyList_GET_SIZE(below)) {
            break;
        }
        failed = PyList_Append(out, PyList_GET_ITEM(below, at)) < 0;
    }
    Py_XDECREF(below);
    return failed ? -1 : 0;
}

bool
itertools_known(PyTypeObject *type)
{
    return type == count_type || type == cycle_type || type == repeat_type || type == chain_type || type == islice_type;
}

/* A window of the elements, see upcoming.c. */
PyObject *
itertools_window(PyObject *iterator, Py_ssize_t start)
{
    PyTypeObject *type = Py_TYPE(iterator);
    Py_ssize_t most = start + upcoming_size(start);
    PyObject *args, *state, *whole = reduced(iterator, &args, &state), *out = whole == NULL ? NULL : PyList_New(0);
    int failed = out == NULL                ? -1
                 : type == count_type  ? gather_count(args, most, out)
                 : type == cycle_type  ? gather_cycle(args, state, most, out)
                 : type == repeat_type ? gather_repeat(args, most, out)
                 : type == chain_type  ? gather_chain(state, most, out)
                                       : gather_islice(args, state, most, out);
    PyObject *found = NULL;
    if (!failed) {
        PyObject *part = PyList_GetSlice(out, start, most);
        found = part == NULL ? NULL : PyList_AsTuple(part);
        Py_XDECREF(part);
    }
    Py_XDECREF(out);
    Py_XDECREF(whole);
    return found;
}

/* A new list of what an iterator goes over: iterators, and what it will iterate. */
PyObject *
itertools_below(PyObject *iterator)
{
    PyTypeObject *type = Py_TYPE(iterator);
    PyObject *args, *state, *whole = reduced(iterator, &args, &state), *out = whole == NULL ? NULL : PyList_New(0);
    int failed = out == NULL;
    if (!failed && type == cycle_type) {
        bool again = state != NULL && PyTuple_Check(state) && PyTuple_GET_SIZE(state) == 2
                     && PyTuple_GET_ITEM(state, 1) == Py_True; /* then the iterator was made for this answer */
        failed = !again && PyList_Append(out, PyTuple_GET_ITEM(args, 0)) < 0;
    }
    else if (!failed && type == islice_type && PyTuple_GET_SIZE(args) == 4) {
        failed = PyList_Append(out, PyTuple_GET_ITEM(args, 0)) < 0;
    }
    else if (!failed && type == chain_type && state != NULL && PyTuple_Check(state)) {
        PyObject *iterables = PyList_New(0);
        failed = iterables == NULL || take(PyTuple_GET_ITEM(state, 0), MOST_ITERABLES, iterables) < 0;
        for (Py_ssize_t i = PyTuple_GET_SIZE(state) - 1; !failed && i >= 0; i--) {
            failed = PyList_Append(out, PyTuple_GET_ITEM(state, i)) < 0;
        }
        failed = failed || PyList_SetSlice(out, PyList_GET_SIZE(out), PyList_GET_SIZE(out), iterables) < 0;
        Py_XDECREF(iterables);
    }
    if (failed) {
        Py_CLEAR(out);
    }
    Py_XDECREF(whole);
    return out;
}

int
itertools_init(void)
{
    PyObject *module = PyImport_ImportModule("itertools");
    const char *const names[] = {"count", "cycle", "repeat", "chain", "islice"};
    PyTypeObject **const types[] = {&count_type, &cycle_type, &repeat_type, &chain_type, &islice_type};
    for (size_t i = 0; module != NULL && i < Py_ARRAY_LENGTH(names); i++) {
        PyObject *found = PyObject_GetAttrString(module, names[i]);
        if (found == NULL || !PyType_Check(found)) {
            Py_XDECREF(found);
            Py_CLEAR(module);
            break;
        }
        *types[i] = (PyTypeObject *)found; /* kept for ever */
    }
    Py_XDECREF(module);
    return module == NULL ? -1 : 0;
}
