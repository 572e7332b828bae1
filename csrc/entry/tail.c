/* Tail: what an entry function returns whose capture stopped at a break. It says which instruction to execute in
   CPython and where to go on; the outermost call does both in a loop, so that loops with breaks do not nest. A call
   that CPython runs whole is one too, without a place to go on: so no frame of stator lies below the program's. */
#include "entry.h"
#include <stddef.h>

typedef struct {
    PyObject_VAR_HEAD
    PyObject *items[1]; /* owned: step, state, edges, owner of the frames below, then the values that every continuation
                           takes; or function, argument, None, owner, and perhaps keywords: then the argument is a tuple of them */
} Tail;

enum { STEP, STATE, EDGES, OWNER, CARRIED };
enum { FEW_VALUES = 48 };

static PyObject *runner; /* owned: runner(owner, step, state) executes the instruction */

static void
tail_dealloc(Tail *self)
{
    for (Py_ssize_t i = 0; i < Py_SIZE(self); i++) {
        Py_XDECREF(self->items[i]);
    }
    Py_TYPE(self)->tp_free(self);
}

PyTypeObject Tail_Type = {
    PyVarObject_HEAD_INIT(NULL, 0)
    .tp_name = "stator._entry.Tail",
    .tp_basicsize = offsetof(Tail, items),
    .tp_itemsize = sizeof(PyObject *),
    .tp_flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_DISALLOW_INSTANTIATION,
    .tp_doc = "An instruction to execute in CPython, and where to go on.",
    .tp_dealloc = (destructor)tail_dealloc,
};

/* tail(step, state, edges, owner, *carried) */
PyObject *
tail_new(PyObject *Py_UNUSED(module), PyObject *const *args, Py_ssize_t nargs)
{
    if (nargs < CARRIED || !PyTuple_Check(args[EDGES])) {
        PyErr_SetString(PyExc_TypeError, "tail(step, state, edges, owner, *carried)");
        return NULL;
    }
    Tail *self = PyObject_NewVar(Tail, &Tail_Type, nargs);
    for (Py_ssize_t i = 0; self != NULL && i < nargs; i++) {
        self->items[i] = Py_NewRef(args[i]);
    }
    return (PyObject *)self;
}

/* tail_call(owner, function, argument) or tail_call(owner, function, arguments, keywords) */
PyObject *
tail_call(PyObject *Py_UNUSED(module), PyObject *const *args, Py_ssize_t nargs)
{
    if (nargs != 3 && nargs != 4) {
        PyErr_SetString(PyExc_TypeError, "tail_call(owner, function, argument), or arguments and keywords");
        return NULL;
    }
    Tail *self = PyObject_NewVar(Tail, &Tail_Type, nargs + 1);
    if (self != NULL) {
        self->items[STEP] = Py_NewRef(args[1]);
        self->items[STATE] = Py_NewRef(args[2]);
        self->items[EDGES] = Py_NewRef(Py_None);
        self->items[OWNER] = Py_NewRef(args[0]);
        if (nargs == 4) {
            self->items[CARRIED] = Py_NewRef(args[3]);
        }
    }
    return (PyObject *)self;
}

/* set_step_runner(runner) */
PyObject *
tail_set_runner(PyObject *Py_UNUSED(module), PyObject *function)
{
    Py_XSETREF(runner, Py_NewRef(function));
    Py_RETURN_NONE;
}

/* Calls the function or the step: a new reference, or NULL. A step below which nobody takes frames needs no runner. */
static PyObject *
run(Tail *self)
{
    if (self->items[OWNER] == Py_None && self->items[EDGES] != Py_None) {
        return PyObject_CallOneArg(self->items[STEP], self->items[STATE]);
    }
    PyObject *arguments[5] = {NULL, self->items[OWNER], self->items[STEP], self->items[STATE], NULL};
    size_t count = 3;
    if (self->items[EDGES] == Py_None && Py_SIZE(self) > CARRIED) {
        arguments[++count] = self->items[CARRIED];
    }
    return PyObject_Vectorcall(runner, arguments + 1, count | PY_VECTORCALL_ARGUMENTS_OFFSET, NULL);
}

/* Executes the instruction: (*results, edge), or NULL. */
static PyObject *
execute(Tail *self)
{
    PyObject *out = run(self);
    Py_CLEAR(self->items[STATE]);
    if (out != NULL && (!PyTuple_Check(out) || PyTuple_GET_SIZE(out) < 1)) {
        Py_DECREF(out);
        PyErr_SetString(PyExc_SystemError, "a step returned something else than results and an edge");
        return NULL;
    }
    return out;
}

/* Goes on along the edge that was taken. */
static PyObject *
follow(Tail *self, PyObject *out)
{
    Py_ssize_t results = PyTuple_GET_SIZE(out) - 1, carried = Py_SIZE(self) - CARRIED, count = results + carried;
    Py_ssize_t edge = PyLong_AsSsize_t(PyTuple_GET_ITEM(out, results));
    if (edge >= 0 && edge < PyTuple_GET_SIZE(self->items[EDGES]) && results == 1
        && PyTuple_GET_ITEM(self->items[EDGES], edge) == Py_True) { /* nothing is left but to return it */
        return Py_NewRef(PyTuple_GET_ITEM(out, 0));
    }
    if (edge < 0 || edge >= PyTuple_GET_SIZE(self->items[EDGES])
        || !Py_IS_TYPE(PyTuple_GET_ITEM(self->items[EDGES], edge), &Compiled_Type)) {
        PyErr_SetString(PyExc_SystemError, "a step left by an edge that leads nowhere");
        return NULL;
    }
    PyObject *few[FEW_VALUES + 1];
    PyObject **values = count <= FEW_VALUES ? few : PyMem_Malloc((count + 1) * sizeof(PyObject *));
    if (values == NULL) {
        return PyErr_NoMemory();
    }
    for (Py_ssize_t i = 0; i < count; i++) {
        values[i + 1] = i < results ? PyTuple_GET_ITEM(out, i) : self->items[CARRIED + i - results];
    }
    PyObject *result = compiled_enter(PyTuple_GET_ITEM(self->items[EDGES], edge), values + 1, count, NULL);
    if (values != few) {
        PyMem_Free(values);
    }
    return result;
}

/* The result of a call, once nothing is left to go on with. Steals `result`. */
PyObject *
tail_settle(PyObject *result)
{
    while (result != NULL && Py_IS_TYPE(result, &Tail_Type)) {
        Tail *self = (Tail *)result;
        if (self->items[EDGES] == Py_None) {
            result = run(self);
            Py_DECREF(self);
            break;
        }
        PyObject *out = execute(self);
        result = out == NULL ? NULL : follow(self, out);
        Py_XDECREF(out);
        Py_DECREF(self);
    }
    if (result == NULL) {
        traceback_clean();
    }
    return result;
}
