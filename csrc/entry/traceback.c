/* Tracebacks of exceptions that leave compiled code: the user's frames only.
   In C, so that no signal handler runs, and perhaps raises, while an exception is on its way out. */
#include "entry.h"
#include <frameobject.h>

static PyObject *own_prefixes; /* owned: tuple of file name prefixes of stator's own code */
static PyObject *own_errors;   /* owned: class of errors that keep their traceback */

/* set_own_frames(prefixes, errors) */
PyObject *
traceback_set_own(PyObject *Py_UNUSED(module), PyObject *const *args, Py_ssize_t nargs)
{
    if (nargs != 2 || !PyTuple_Check(args[0]) || !PyExceptionClass_Check(args[1])) {
        PyErr_SetString(PyExc_TypeError, "set_own_frames(prefixes, errors)");
        return NULL;
    }
    Py_XSETREF(own_prefixes, Py_NewRef(args[0]));
    Py_XSETREF(own_errors, Py_NewRef(args[1]));
    Py_RETURN_NONE;
}

static bool
is_own(PyTracebackObject *entry)
{
    PyCodeObject *code = PyFrame_GetCode(entry->tb_frame);
    bool own = false;
    for (Py_ssize_t i = 0; !own && i < PyTuple_GET_SIZE(own_prefixes); i++) {
        own = PyUnicode_Tailmatch(code->co_filename, PyTuple_GET_ITEM(own_prefixes, i), 0, PY_SSIZE_T_MAX, -1) == 1;
    }
    Py_DECREF(code);
    return own;
}

/* Takes stator's own frames out of the chain and puts them into the list; the first that is left, borrowed from the
   chain, NULL for none. */
static PyObject *
unlink_own(PyObject *chain, PyObject *own)
{
    PyTracebackObject *first = NULL, *last = NULL, *next;
    for (PyTracebackObject *entry = (PyTracebackObject *)chain; entry != NULL; entry = next) {
        next = entry->tb_next;
        if (is_own(entry)) {
            if (own == NULL || PyList_Append(own, (PyObject *)entry->tb_frame) < 0) {
                PyErr_Clear();
            }
            continue;
        }
        if (last == NULL) {
            first = entry;
        }
        else if (last->tb_next != entry) {
            Py_XSETREF(last->tb_next, (PyTracebackObject *)Py_NewRef(entry));
        }
        last = entry;
    }
    if (last != NULL) {
        Py_CLEAR(last->tb_next);
    }
    return (PyObject *)first;
}

/* What stator's frames hold of the program's ends with the call: the frames of the traceback know them as callers. */
static void
clear_frames(PyObject *frames)
{
    for (Py_ssize_t i = 0; frames != NULL && i < PyList_GET_SIZE(frames); i++) {
        PyObject *done = PyObject_CallMethod(PyList_GET_ITEM(frames, i), "clear", NULL);
        if (done == NULL) {
            PyErr_Clear(); /* it is still running */
        }
        Py_XDECREF(done);
    }
}

/* The same for the exception that is set now, unless it is stator's own. */
void
traceback_clean(void)
{
    PyObject *type, *value, *traceback, *own = NULL;
    PyErr_Fetch(&type, &value, &traceback);
    PyErr_NormalizeException(&type, &value, &traceback);
    if (traceback != NULL && own_prefixes != NULL && !PyErr_GivenExceptionMatches(value, own_errors)) {
        own = PyList_New(0);
        PyObject *first = Py_XNewRef(unlink_own(traceback, own));
        Py_SETREF(traceback, first);
    }
    PyException_SetTraceback(value, traceback == NULL ? Py_None : traceback);
    clear_frames(own);
    Py_XDECREF(own);
    PyErr_Restore(type, value, traceback);
}
