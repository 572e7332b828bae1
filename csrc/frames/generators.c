/* Suspended generators and coroutines: their state as values, others with the same state, and a state put into them. */
#include "frames.h"
#include <opcode.h>

static PyGenObject *suspendable(PyObject *object) {
    if (!PyGen_CheckExact(object) && !PyCoro_CheckExact(object)) {
        PyErr_SetString(PyExc_TypeError, "not a generator or coroutine");
        return NULL;
    }
    return (PyGenObject *)object;
}

static _PyInterpreterFrame *frame_of(PyGenObject *generator) { return (_PyInterpreterFrame *)generator->gi_iframe; }

static int unit_of(PyGenObject *generator) {
    _PyInterpreterFrame *raw = frame_of(generator);
    return generator->gi_frame_state == FRAME_CREATED ? -1 : (int)(raw->prev_instr - _PyCode_CODE(raw->f_code));
}

/* Borrowed; UNBOUND for NULL. */
static PyObject *value_at(_PyInterpreterFrame *raw, int i) { return raw->localsplus[i] ? raw->localsplus[i] : stator_unbound; }

/* Borrowed; None for none. */
static PyObject *handled_by(PyGenObject *generator) {
    PyObject *handled = generator->gi_exc_state.exc_value;
    return handled ? handled : Py_None;
}

/* generator_state(generator) -> (function, unit or -1, localsplus, stack, handled, name, qualname) of one that does not
   run; None if it is over. UNBOUND stands for NULL. */
static PyObject *generator_state(PyObject *module, PyObject *object) {
    PyGenObject *generator = suspendable(object);
    if (!generator) {
        return NULL;
    }
    if (generator->gi_frame_state >= FRAME_COMPLETED) {
        Py_RETURN_NONE;
    }
    if (generator->gi_frame_state == FRAME_EXECUTING) {
        PyErr_SetString(PyExc_ValueError, "the generator is running");
        return NULL;
    }
    _PyInterpreterFrame *raw = frame_of(generator);
    int fast = raw->f_code->co_nlocalsplus, used = raw->stacktop;
    PyObject *parts[2] = {PyList_New(fast), PyList_New(used - fast)};
    for (int i = 0; parts[0] && parts[1] && i < used; i++) {
        PyList_SET_ITEM(parts[i >= fast], i < fast ? i : i - fast, Py_NewRef(value_at(raw, i)));
    }
    if (!parts[0] || !parts[1]) {
        Py_XDECREF(parts[0]);
        Py_XDECREF(parts[1]);
        return NULL;
    }
    return Py_BuildValue("(OiNNOOO)", raw->f_func, unit_of(generator), parts[0], parts[1], handled_by(generator),
                         generator->gi_name, generator->gi_qualname);
}

/* generator_values(generator) -> the same as one tuple for guards: function, handled, unit, which values there are, and
   the values, None for NULL; an empty one if it runs or is over. */
static PyObject *generator_values(PyObject *module, PyObject *object) {
    PyGenObject *generator = suspendable(object);
    if (!generator) {
        return NULL;
    }
    if (generator->gi_frame_state >= FRAME_EXECUTING) {
        return PyTuple_New(0);
    }
    _PyInterpreterFrame *raw = frame_of(generator);
    int used = raw->stacktop;
    PyObject *values = PyTuple_New(4 + used), *shape = PyBytes_FromStringAndSize(NULL, used);
    PyObject *unit = PyLong_FromLong(unit_of(generator));
    if (!values || !shape || !unit) {
        Py_XDECREF(values);
        Py_XDECREF(shape);
        Py_XDECREF(unit);
        return NULL;
    }
    PyTuple_SET_ITEM(values, 0, Py_NewRef((PyObject *)raw->f_func));
    PyTuple_SET_ITEM(values, 1, Py_NewRef(handled_by(generator)));
    PyTuple_SET_ITEM(values, 2, unit);
    PyTuple_SET_ITEM(values, 3, shape);
    for (int i = 0; i < used; i++) {
        PyBytes_AS_STRING(shape)[i] = raw->localsplus[i] != NULL;
        PyTuple_SET_ITEM(values, 4 + i, Py_NewRef(raw->localsplus[i] ? raw->localsplus[i] : Py_None));
    }
    return values;
}

/* Where a frame is that has only made its generator. */
static int first_unit(PyCodeObject *code) {
    _Py_CODEUNIT *units = _PyCode_CODE(code);
    for (int i = 0; i < Py_SIZE(code); i++) {
        if (_Py_OPCODE(units[i]) == RETURN_GENERATOR) {
            return i;
        }
    }
    return -1;
}

/* Put a state into one that does not run, and may be over. What it held before ends last. */
static int put_state(PyGenObject *generator, PyObject *function, int unit, PyObject *values, PyObject *stack, PyObject *handled) {
    PyCodeObject *code = generator->gi_code;
    if (!PyFunction_Check(function) || ((PyFunctionObject *)function)->func_code != (PyObject *)code || !PyTuple_Check(values)
        || !PyTuple_Check(stack) || PyTuple_GET_SIZE(values) != code->co_nlocalsplus || PyTuple_GET_SIZE(stack) > code->co_stacksize
        || unit < -1 || unit >= Py_SIZE(code) || generator->gi_frame_state == FRAME_EXECUTING) {
        PyErr_SetString(PyExc_ValueError, "the state does not fit the generator");
        return -1;
    }
    _PyInterpreterFrame *raw = frame_of(generator);
    int fast = code->co_nlocalsplus, depth = (int)PyTuple_GET_SIZE(stack), ended = generator->gi_frame_state >= FRAME_CLEARED;
    PyObject *before = PyTuple_New(ended ? 0 : raw->stacktop);
    if (!before) {
        return -1;
    }
    if (ended) {
        _PyFrame_InitializeSpecials(raw, (PyFunctionObject *)Py_NewRef(function), NULL, fast);
        raw->owner = FRAME_OWNED_BY_GENERATOR;
        raw->previous = NULL;
    }
    for (int i = 0; i < PyTuple_GET_SIZE(before); i++) {
        PyTuple_SET_ITEM(before, i, raw->localsplus[i] ? raw->localsplus[i] : Py_NewRef(Py_None));
    }
    for (int i = 0; i < fast + depth; i++) {
        PyObject *value = i < fast ? PyTuple_GET_ITEM(values, i) : PyTuple_GET_ITEM(stack, i - fast);
        raw->localsplus[i] = value == stator_unbound ? NULL : Py_NewRef(value);
    }
    raw->stacktop = fast + depth;
    raw->prev_instr = _PyCode_CODE(code) + (unit < 0 ? first_unit(code) : unit);
    generator->gi_frame_state = unit < 0 ? FRAME_CREATED : FRAME_SUSPENDED;
    PyObject *handled_before = generator->gi_exc_state.exc_value;
    generator->gi_exc_state.exc_value = handled == Py_None ? NULL : Py_NewRef(handled);
    Py_XDECREF(handled_before);
    Py_DECREF(before);
    return 0;
}

/* put_generator(generator, function, unit, localsplus, stack, handled): as `generator_state` gives them, in tuples. */
static PyObject *put_generator(PyObject *module, PyObject *args) {
    PyObject *object, *function, *values, *stack, *handled;
    int unit;
    if (!PyArg_ParseTuple(args, "OOiOOO:put_generator", &object, &function, &unit, &values, &stack, &handled)) {
        return NULL;
    }
    PyGenObject *generator = suspendable(object);
    if (!generator || put_state(generator, function, unit, values, stack, handled) < 0) {
        return NULL;
    }
    Py_RETURN_NONE;
}

/* make_generator(function, name, qualname, unit, localsplus, stack, handled) -> another one in that state. */
static PyObject *make_generator(PyObject *module, PyObject *args) {
    PyObject *function, *name, *qualname, *values, *stack, *handled;
    int unit;
    if (!PyArg_ParseTuple(args, "O!UUiOOO:make_generator", &PyFunction_Type, &function, &name, &qualname, &unit, &values, &stack, &handled)) {
        return NULL;
    }
    PyCodeObject *code = (PyCodeObject *)((PyFunctionObject *)function)->func_code;
    int kind = code->co_flags & (CO_GENERATOR | CO_COROUTINE | CO_ASYNC_GENERATOR);
    if (kind != CO_GENERATOR && kind != CO_COROUTINE) {
        PyErr_SetString(PyExc_TypeError, "not the function of a generator or coroutine");
        return NULL;
    }
    PyTypeObject *type = kind == CO_GENERATOR ? &PyGen_Type : &PyCoro_Type;
    PyGenObject *made = PyObject_GC_NewVar(PyGenObject, type, code->co_nlocalsplus + code->co_stacksize);
    if (!made) {
        return NULL;
    }
    made->gi_code = (PyCodeObject *)Py_NewRef(code);
    made->gi_weakreflist = NULL;
    made->gi_name = Py_NewRef(name);
    made->gi_qualname = Py_NewRef(qualname);
    made->gi_exc_state.exc_value = NULL;
    made->gi_exc_state.previous_item = NULL;
    made->gi_origin_or_finalizer = NULL;
    made->gi_hooks_inited = made->gi_closed = made->gi_running_async = 0;
    made->gi_frame_state = FRAME_CLEARED;
    PyObject_GC_Track((PyObject *)made); /* which its end relies on */
    if (put_state(made, function, unit, values, stack, handled) < 0) {
        Py_DECREF(made);
        return NULL;
    }
    return (PyObject *)made;
}

/* end_generator(generator): one that does not run is over, without running any code of its own. */
static PyObject *end_generator(PyObject *module, PyObject *object) {
    PyGenObject *generator = suspendable(object);
    if (!generator) {
        return NULL;
    }
    if (generator->gi_frame_state >= FRAME_EXECUTING) {
        Py_RETURN_NONE;
    }
    PyCodeObject *code = generator->gi_code;
    PyObject *values = PyTuple_New(code->co_nlocalsplus), *stack = PyTuple_New(0);
    for (int i = 0; values && i < code->co_nlocalsplus; i++) {
        PyTuple_SET_ITEM(values, i, Py_NewRef(stator_unbound));
    }
    PyObject *function = Py_NewRef((PyObject *)frame_of(generator)->f_func), *result = NULL;
    if (values && stack && put_state(generator, function, -1, values, stack, Py_None) == 0) {
        result = PyObject_CallMethod(object, "close", NULL); /* nothing handles its exception at the start */
    }
    Py_XDECREF(values);
    Py_XDECREF(stack);
    Py_DECREF(function);
    return result;
}

/* discard_generators(references): those still alive end without running any code of theirs. */
static PyObject *discard_generators(PyObject *module, PyObject *references) {
    for (Py_ssize_t i = 0; PyList_Check(references) && i < PyList_GET_SIZE(references); i++) {
        PyObject *object = PyWeakref_GetObject(PyList_GET_ITEM(references, i));
        if (object && object != Py_None && ((PyGenObject *)object)->gi_frame_state < FRAME_EXECUTING) {
            ((PyGenObject *)object)->gi_frame_state = FRAME_COMPLETED;
        }
    }
    PyErr_Clear();
    Py_RETURN_NONE;
}

static PyMethodDef functions[] = {
    {"discard_generators", discard_generators, METH_O, "end the generators in a list of weak references, unobserved"},
    {"end_generator", end_generator, METH_O, "a suspended generator is over, unobserved"},
    {"generator_state", generator_state, METH_O, "generator_state(generator) -> (function, unit, localsplus, stack, handled, name, qualname)"},
    {"generator_values", generator_values, METH_O, "generator_values(generator) -> (function, handled, unit, shape, *values)"},
    {"make_generator", make_generator, METH_VARARGS, "make_generator(function, name, qualname, unit, localsplus, stack, handled)"},
    {"put_generator", put_generator, METH_VARARGS, "put_generator(generator, function, unit, localsplus, stack, handled)"},
    {NULL},
};

int stator_generators_ready(PyObject *module) { return PyModule_AddFunctions(module, functions); }
