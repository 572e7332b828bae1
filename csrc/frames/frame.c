/* Frame: the interpreter's handle on a CPython frame that arrived in the hook. */
#include "frames.h"

static _PyInterpreterFrame *raw_of(Frame *self) {
    if (!self->frame) {
        PyErr_SetString(PyExc_RuntimeError, "the frame has left the hook");
    }
    return self->frame;
}

/* CPython's frame functions rely on the cells of free variables being there once a frame has started. */
static void keep_closure(_PyInterpreterFrame *raw) {
    PyCodeObject *code = raw->f_code;
    PyObject *closure = raw->f_func->func_closure;
    for (int i = 0; i < code->co_nfreevars && closure; i++) {
        PyObject **slot = &raw->localsplus[code->co_nlocalsplus - code->co_nfreevars + i];
        Py_XSETREF(*slot, Py_NewRef(PyTuple_GET_ITEM(closure, i)));
    }
}

/* take() -> list: moves locals, cells, free variables and any saved stack out of the CPython frame (UNBOUND for NULL). */
static PyObject *frame_take(Frame *self, PyObject *ignored) {
    _PyInterpreterFrame *raw = raw_of(self);
    if (!raw) {
        return NULL;
    }
    int used = raw->stacktop;
    PyObject *values = PyList_New(used);
    if (!values) {
        return NULL;
    }
    for (int i = 0; i < used; i++) {
        PyObject *value = raw->localsplus[i];
        PyList_SET_ITEM(values, i, value ? value : Py_NewRef(stator_unbound));
        raw->localsplus[i] = NULL;
    }
    raw->stacktop = raw->f_code->co_nlocalsplus;
    keep_closure(raw);
    return values;
}

/* put(locals, stack): moves the state back, so that CPython and its C functions see a suspended or finished frame. */
static PyObject *frame_put(Frame *self, PyObject *const *args, Py_ssize_t nargs) {
    _PyInterpreterFrame *raw = raw_of(self);
    if (!raw) {
        return NULL;
    }
    if (nargs != 2 || !PyList_Check(args[0]) || !PyList_Check(args[1])) {
        PyErr_SetString(PyExc_TypeError, "put(locals, stack) takes two lists");
        return NULL;
    }
    Py_ssize_t fast = raw->f_code->co_nlocalsplus, depth = PyList_GET_SIZE(args[1]);
    if (PyList_GET_SIZE(args[0]) < fast || depth > raw->f_code->co_stacksize) {
        PyErr_SetString(PyExc_ValueError, "locals or stack do not fit the frame");
        return NULL;
    }
    for (Py_ssize_t i = 0; i < fast + depth; i++) {
        PyObject *value = i < fast ? PyList_GET_ITEM(args[0], i) : PyList_GET_ITEM(args[1], i - fast);
        PyObject *old = i < fast ? raw->localsplus[i] : NULL;
        raw->localsplus[i] = value == stator_unbound ? NULL : Py_NewRef(value);
        Py_XDECREF(old);
    }
    raw->stacktop = (int)(fast + depth);
    raw->prev_instr = _PyCode_CODE(raw->f_code) + self->lasti;
    Py_RETURN_NONE;
}

/* drop(): forget the locals lent by put(), the interpreter's list being the truth again. */
static PyObject *frame_drop(Frame *self, PyObject *ignored) {
    _PyInterpreterFrame *raw = raw_of(self);
    if (!raw) {
        return NULL;
    }
    int used = raw->stacktop;
    raw->stacktop = raw->f_code->co_nlocalsplus;
    for (int i = 0; i < used; i++) {
        Py_CLEAR(raw->localsplus[i]);
    }
    keep_closure(raw);
    Py_RETURN_NONE;
}

/* New reference to the frame object of the current instruction. */
static PyObject *frame_object(Frame *self) {
    _PyInterpreterFrame *raw = raw_of(self);
    if (!raw) {
        return NULL;
    }
    PyThreadState *ts = _PyThreadState_GET();
    _PyInterpreterFrame *current = current_frame(ts);
    int lasti = self->lasti < raw->f_code->_co_firsttraceable ? raw->f_code->_co_firsttraceable : self->lasti;
    raw->prev_instr = _PyCode_CODE(raw->f_code) + lasti;
    set_current_frame(ts, raw);
    PyObject *object = (PyObject *)PyThreadState_GetFrame(ts);
    set_current_frame(ts, current);
    if (!object && !PyErr_Occurred()) {
        PyErr_SetString(PyExc_RuntimeError, "no frame object");
    }
    return object;
}

/* add_traceback(exception): as CPython does when an exception leaves an instruction of this frame. */
static PyObject *frame_add_traceback(Frame *self, PyObject *error) {
    PyObject *object = frame_object(self);
    if (!object) {
        return NULL;
    }
    PyObject *next = PyException_GetTraceback(error);
    int lasti = PyFrame_GetLasti((PyFrameObject *)object);
    int line = PyFrame_GetLineNumber((PyFrameObject *)object);
    extern PyTypeObject PyTraceBack_Type;
    PyObject *traceback = PyObject_CallFunction((PyObject *)&PyTraceBack_Type, "OOii", next ? next : Py_None, object,
                                                lasti, line);
    Py_XDECREF(next);
    Py_DECREF(object);
    if (!traceback) {
        return NULL;
    }
    PyException_SetTraceback(error, traceback);
    Py_DECREF(traceback);
    Py_RETURN_NONE;
}

static PyObject *frame_get_object(Frame *self, void *closure) { return frame_object(self); }

enum { FUNCTION, CODE, GLOBALS, BUILTINS, NAMES, GENERATOR };

static PyObject *frame_part(Frame *self, void *which) {
    _PyInterpreterFrame *raw = raw_of(self);
    if (!raw) {
        return NULL;
    }
    PyObject *part = NULL;
    switch ((intptr_t)which) {
    case FUNCTION: part = (PyObject *)raw->f_func; break;
    case CODE: part = (PyObject *)raw->f_code; break;
    case GLOBALS: part = raw->f_globals; break;
    case BUILTINS: part = raw->f_builtins; break;
    case NAMES: part = raw->f_locals; break;
    case GENERATOR: part = frame_is_generator(raw) ? (PyObject *)frame_generator(raw) : NULL; break;
    }
    return Py_NewRef(part ? part : Py_None);
}

/* The exception being handled, as sys.exc_info() shows it to the captured program. */
static PyObject *frame_get_handled(Frame *self, void *closure) {
    PyObject *value = self->exc ? self->exc->exc_value : NULL;
    return Py_NewRef(value ? value : Py_None);
}

static int frame_set_handled(Frame *self, PyObject *value, void *closure) {
    if (!self->exc) {
        PyErr_SetString(PyExc_RuntimeError, "the frame has left the hook");
        return -1;
    }
    PyObject *old = self->exc->exc_value;
    self->exc->exc_value = Py_NewRef(value ? value : Py_None);
    Py_XDECREF(old);
    return 0;
}

/* The exception handled anywhere up the chain of generators: what a bare `raise` re-raises. */
static PyObject *frame_get_topmost(Frame *self, void *closure) {
    for (_PyErr_StackItem *item = self->exc; item; item = item->previous_item) {
        if (item->exc_value && item->exc_value != Py_None) {
            return Py_NewRef(item->exc_value);
        }
    }
    Py_RETURN_NONE;
}

static int frame_traverse(Frame *self, visitproc visit, void *arg) {
    Py_VISIT(self->outer);
    Py_VISIT(self->error);
    return 0;
}

static int frame_clear(Frame *self) {
    Py_CLEAR(self->outer);
    Py_CLEAR(self->error);
    return 0;
}

static void frame_dealloc(Frame *self) {
    PyObject_GC_UnTrack(self);
    frame_clear(self);
    Py_TYPE(self)->tp_free((PyObject *)self);
}

static PyMethodDef methods[] = {
    {"take", (PyCFunction)frame_take, METH_NOARGS, "move the CPython frame's locals and stack into a list"},
    {"put", (PyCFunction)(void (*)(void))frame_put, METH_FASTCALL, "put(locals, stack): copy them into the CPython frame"},
    {"drop", (PyCFunction)frame_drop, METH_NOARGS, "clear the CPython frame's locals and stack"},
    {"add_traceback", (PyCFunction)frame_add_traceback, METH_O, "add this frame to an exception's traceback"},
    {NULL},
};

static PyMemberDef members[] = {
    {"error", T_OBJECT, offsetof(Frame, error), 0, "exception of the last failed native call"},
    {"outer", T_OBJECT, offsetof(Frame, outer), READONLY, "the interpreted frame below"},
    {"lasti", T_INT, offsetof(Frame, lasti), 0, "index of the current instruction, in code units"},
    {"yielded", T_INT, offsetof(Frame, yielded), 0, "set when the frame leaves through a yield"},
    {"fresh", T_INT, offsetof(Frame, fresh), READONLY, "not the resumption of a generator"},
    {NULL},
};

static PyGetSetDef getset[] = {
    {"function", (getter)frame_part, NULL, NULL, (void *)FUNCTION},
    {"code", (getter)frame_part, NULL, NULL, (void *)CODE},
    {"globals", (getter)frame_part, NULL, NULL, (void *)GLOBALS},
    {"builtins", (getter)frame_part, NULL, NULL, (void *)BUILTINS},
    {"names", (getter)frame_part, NULL, "namespace of a class body or module, or None", (void *)NAMES},
    {"generator", (getter)frame_part, NULL, NULL, (void *)GENERATOR},
    {"object", (getter)frame_get_object, NULL, "the frame object", NULL},
    {"handled", (getter)frame_get_handled, (setter)frame_set_handled, "the exception being handled, or None", NULL},
    {"topmost", (getter)frame_get_topmost, NULL, "what a bare raise re-raises, or None", NULL},
    {NULL},
};

PyTypeObject StatorFrameType = {
    PyVarObject_HEAD_INIT(NULL, 0)
    .tp_name = "stator._frames.Frame",
    .tp_basicsize = sizeof(Frame),
    .tp_flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_BASETYPE | Py_TPFLAGS_HAVE_GC,
    .tp_doc = "A CPython frame executed by stator's interpreter.",
    .tp_dealloc = (destructor)frame_dealloc,
    .tp_traverse = (traverseproc)frame_traverse,
    .tp_clear = (inquiry)frame_clear,
    .tp_methods = methods,
    .tp_members = members,
    .tp_getset = getset,
};

/* make_frame(code, globals, lasti): a frame object that was never run, for a traceback, as if it had ended behind that
   instruction; the code must have no free variables. */
static PyObject *make_frame(PyObject *module, PyObject *const *args, Py_ssize_t nargs) {
    if (nargs != 3 || !PyCode_Check(args[0]) || !PyDict_Check(args[1]) || !PyLong_Check(args[2])) {
        PyErr_SetString(PyExc_TypeError, "make_frame(code, globals, lasti)");
        return NULL;
    }
    PyCodeObject *code = (PyCodeObject *)args[0];
    if (code->co_nfreevars) {
        PyErr_SetString(PyExc_ValueError, "the code has free variables");
        return NULL;
    }
    PyFrameObject *frame = PyFrame_New(_PyThreadState_GET(), code, args[1], NULL);
    long unit = PyLong_AsLong(args[2]) / (long)sizeof(_Py_CODEUNIT);
    if (frame && unit >= 0 && unit < Py_SIZE(code)) {
        frame->f_frame->prev_instr = _PyCode_CODE(code) + unit;
    }
    return (PyObject *)frame;
}

static PyMethodDef functions[] = {
    {"make_frame", (PyCFunction)(void (*)(void))make_frame, METH_FASTCALL, "make_frame(code, globals, lasti)"},
    {NULL},
};

int stator_frame_ready(PyObject *module) {
    return PyModule_AddFunctions(module, functions) < 0 ? -1 : PyModule_AddType(module, &StatorFrameType);
}
