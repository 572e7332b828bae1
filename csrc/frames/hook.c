/* The frame hook: frames that native code starts on behalf of a captured program go to the interpreter. */
#include "frames.h"
#include <pthread.h>

_Thread_local Thread stator_thread;
static int armed_threads; /* spans now open over all threads; guarded by the GIL */
static _Thread_local int own_spans; /* those of this thread */
static Py_ssize_t extra_index = -1;

static PyObject *own_folder; /* file name prefix of stator's own code; strong */

CodeMark stator_code_mark(PyCodeObject *code) {
    void *extra = NULL;
    _PyCode_GetExtra((PyObject *)code, extra_index, &extra);
    if ((intptr_t)extra == CODE_UNKNOWN) {
        int own = own_folder && PyUnicode_Tailmatch(code->co_filename, own_folder, 0, PY_SSIZE_T_MAX, -1) == 1;
        extra = (void *)(intptr_t)(own ? CODE_SKIPPED : CODE_TAKEN);
        _PyCode_SetExtra((PyObject *)code, extra_index, extra);
    }
    return (CodeMark)(intptr_t)extra;
}

/* set_own_folder(prefix): code from files below it is stator's own and never captured. */
static PyObject *set_own_folder(PyObject *module, PyObject *prefix) {
    Py_XSETREF(own_folder, Py_NewRef(prefix));
    Py_RETURN_NONE;
}

static PyObject *own_error; /* the class of stator's own exceptions */

/* set_own_error(cls): its instances never pass for exceptions of the captured program. */
static PyObject *set_own_error(PyObject *module, PyObject *cls) {
    Py_XSETREF(own_error, Py_NewRef(cls));
    Py_RETURN_NONE;
}

int stator_skip_code(PyCodeObject *code) { return stator_code_mark(code) == CODE_SKIPPED; }

/* Interpretation nests several C calls per Python call: stop well before the C stack ends. */
static int stack_exhausted(void) {
    char here;
    if (!stator_thread.stack_limit) {
        pthread_attr_t attributes;
        void *base = NULL;
        size_t size = 0;
        if (pthread_getattr_np(pthread_self(), &attributes) == 0) {
            pthread_attr_getstack(&attributes, &base, &size);
            pthread_attr_destroy(&attributes);
        }
        stator_thread.stack_limit = base ? (char *)base + 512 * 1024 : (char *)1;
    }
    return &here < stator_thread.stack_limit;
}

/* New reference to the Frame for an arriving frame, or NULL with an error set. */
static Frame *frame_arrives(PyThreadState *ts, _PyInterpreterFrame *raw) {
    PyTypeObject *type = (PyTypeObject *)stator_thread.frame_type;
    Frame *self = (Frame *)type->tp_alloc(type, 0);
    if (!self) {
        return NULL;
    }
    self->frame = raw;
    self->exc = ts->exc_info;
    self->outer = stator_thread.top;
    Py_XINCREF(self->outer);
    self->fresh = !frame_is_generator(raw) || frame_generator(raw)->gi_frame_state == FRAME_CREATED
                  || raw->prev_instr <= _PyCode_CODE(raw->f_code) + raw->f_code->_co_firsttraceable - 1;
    self->lasti = (int)(raw->prev_instr - _PyCode_CODE(raw->f_code));
    if (PyErr_Occurred()) { /* generator.throw(): the exception to raise at the yield */
        PyObject *type_, *value, *traceback;
        PyErr_Fetch(&type_, &value, &traceback);
        PyErr_NormalizeException(&type_, &value, &traceback);
        if (traceback) {
            PyException_SetTraceback(value, traceback);
        }
        self->error = value;
        Py_XDECREF(type_);
        Py_XDECREF(traceback);
    }
    return self;
}

/* stator's own code raised: keep the exception, and unwind native code with one it does not swallow. */
PyObject *stator_gave_up(void) {
    PyObject *type, *value, *traceback;
    PyErr_Fetch(&type, &value, &traceback);
    if (!stator_thread.abandoned) {
        PyErr_NormalizeException(&type, &value, &traceback);
        if (traceback) {
            PyException_SetTraceback(value, traceback);
        }
        stator_thread.abandoned = Py_NewRef(value);
    }
    Py_XDECREF(type);
    Py_XDECREF(value);
    Py_XDECREF(traceback);
    PyErr_SetNone(PyExc_SystemExit);
    return NULL;
}

/* Turn what the interpreter left in `self` into what CPython expects of an evaluated frame. Steals `result`. */
static PyObject *frame_leaves(Frame *self, PyObject *result) {
    if (!result) {
        return stator_gave_up();
    }
    if (self->yielded) {
        frame_generator(self->frame)->gi_frame_state = FRAME_SUSPENDED;
        return result;
    }
    if (result == stator_failed) {
        PyObject *error = self->error;
        self->error = NULL;
        Py_DECREF(result);
        PyObject *traceback = PyException_GetTraceback(error);
        Py_INCREF(Py_TYPE(error));
        PyErr_Restore((PyObject *)Py_TYPE(error), error, traceback);
        return NULL;
    }
    return result;
}

static PyObject *interpret(PyThreadState *ts, _PyInterpreterFrame *raw) {
    _PyErr_StackItem *user_exc = ts->exc_info;
    _PyErr_StackItem own_exc = {.exc_value = NULL, .previous_item = user_exc};
    _PyInterpreterFrame *caller = current_frame(ts);
    Frame *self = frame_arrives(ts, raw);
    if (!self) {
        return stator_gave_up();
    }
    raw->previous = caller;
    if (!stator_thread.top) { /* the root: hide stator's own frames from the captured program */
        while (raw->previous && stator_skip_code(raw->previous->f_code)) {
            raw->previous = raw->previous->previous;
        }
    }
    int recursion = ts->recursion_remaining, user_recursion = stator_thread.user_recursion;
    PyObject *handled = Py_XNewRef(user_exc->exc_value);
    stator_thread.user_recursion = recursion - 1;
    stator_thread.top = self;
    stator_thread.armed = 0;
    stator_hook_remove(stator_thread.tracing);
    ts->exc_info = &own_exc;
    ts->recursion_remaining = 100000;

    PyObject *result = PyObject_CallOneArg(stator_thread.interpret, (PyObject *)self);

    Py_CLEAR(own_exc.exc_value);
    if (!result) { /* given up, perhaps in the middle of an except block */
        Py_XSETREF(user_exc->exc_value, Py_XNewRef(handled));
    }
    Py_XDECREF(handled);
    ts->exc_info = user_exc;
    ts->recursion_remaining = recursion;
    stator_thread.user_recursion = user_recursion;
    stator_thread.top = self->outer;
    result = frame_leaves(self, result);
    if (!result && stator_thread.abandoned && stator_thread.ending && stator_thread.ending == self->outer) {
        PyErr_Clear();
        result = Py_NewRef(Py_None);
    }
    stator_hook_install();
    stator_thread.armed = 1;
    self->frame = NULL;
    self->exc = NULL;
    Py_DECREF(self);
    return result;
}

/* Whether a frame is of a function in gc.callbacks that the collector calls, wherever the program just is. */
static int is_told_of_collection(PyThreadState *ts, _PyInterpreterFrame *raw) {
    PyObject *told = told_of_collection(ts);
    for (Py_ssize_t i = 0; told && PyList_CheckExact(told) && i < PyList_GET_SIZE(told); i++) {
        PyObject *one = PyList_GET_ITEM(told, i);
        PyObject *function = PyMethod_Check(one) ? PyMethod_GET_FUNCTION(one) : one;
        if (function == (PyObject *)raw->f_func) {
            return 1;
        }
    }
    return 0;
}

/* Whether a function that traces or profiles the thread runs, or what it calls, which was not there when the span began. */
static int is_watching(PyThreadState *ts) { return tracing_depth(ts) > stator_thread.tracing; }

/* apart() -> whether code runs on this thread that is no part of the program: a function in gc.callbacks, or one that
   traces or profiles, or what they call. */
static PyObject *apart(PyObject *module, PyObject *ignored) {
    PyThreadState *ts = PyThreadState_Get();
    if (is_watching(ts)) {
        Py_RETURN_TRUE;
    }
    _PyInterpreterFrame *raw = told_of_collection(ts) ? current_frame(ts) : NULL;
    while (raw && !is_told_of_collection(ts, raw)) {
        raw = raw->previous;
    }
    return PyBool_FromLong(raw != NULL);
}

/* Runs a frame and all below it as if nothing was captured or compiled. */
static PyObject *run_apart(PyThreadState *ts, _PyInterpreterFrame *raw, int throwflag) {
    PyObject *below = stator_thread.below;
    int armed = stator_thread.armed, tracing = stator_thread.tracing;
    stator_thread.below = NULL;
    stator_thread.armed = 0;
    PyObject *result = _PyEval_EvalFrameDefault(ts, raw, throwflag);
    stator_thread.armed = armed;
    stator_thread.below = below;
    stator_thread.tracing = tracing;
    return result;
}

static PyObject *hook(PyThreadState *ts, _PyInterpreterFrame *raw, int throwflag) {
    if (is_watching(ts) || is_told_of_collection(ts, raw)) {
        return run_apart(ts, raw, throwflag);
    }
    if (!stator_thread.armed) {
        return stator_thread.below ? stator_below(ts, raw, throwflag) : _PyEval_EvalFrameDefault(ts, raw, throwflag);
    }
    CodeMark mark = stator_code_mark(raw->f_code);
    if (mark == CODE_TRANSPARENT) {
        return _PyEval_EvalFrameDefault(ts, raw, throwflag);
    }
    if (mark == CODE_SKIPPED) {
        stator_thread.armed = 0;
        PyObject *result = _PyEval_EvalFrameDefault(ts, raw, throwflag);
        stator_thread.armed = 1;
        /* native code called a stand-in, and might swallow its error or raise another one instead */
        return result || !own_error || !PyErr_ExceptionMatches(own_error) ? result : stator_gave_up();
    }
    if (stator_thread.abandoned) {
        if (!PyErr_Occurred()) {
            PyErr_SetNone(PyExc_SystemExit);
        }
        return NULL;
    }
    int makes_generator = raw->f_code->co_flags & (CO_GENERATOR | CO_COROUTINE | CO_ASYNC_GENERATOR);
    if (makes_generator && !frame_is_generator(raw)) { /* only as far as RETURN_GENERATOR */
        PyObject *made = _PyEval_EvalFrameDefault(ts, raw, throwflag);
        if (made && stator_note_generator(made) < 0) {
            Py_CLEAR(made);
        }
        return made;
    }
    if (stator_thread.user_recursion <= 0 || ts->recursion_remaining <= 1 || stack_exhausted()) {
        PyErr_Clear();
        PyErr_SetString(PyExc_RecursionError, "maximum recursion depth exceeded");
        return NULL;
    }
    return interpret(ts, raw);
}

/* Gives how many functions that trace or profile ran around what is going on so far, for `stator_hook_remove`. */
int stator_hook_install(void) {
    int before = stator_thread.tracing;
    own_spans++;
    stator_thread.tracing = tracing_depth(PyThreadState_Get());
    if (armed_threads++ == 0) {
        _PyInterpreterState_SetEvalFrameFunc(PyInterpreterState_Get(), hook);
    }
    return before;
}

void stator_hook_remove(int before) {
    own_spans--;
    stator_thread.tracing = before;
    if (--armed_threads == 0) {
        _PyInterpreterState_SetEvalFrameFunc(PyInterpreterState_Get(), _PyEval_EvalFrameDefault);
    }
}

/* forget_threads(): in the child of a fork, whose other threads are no more. */
static PyObject *forget_threads(PyObject *module, PyObject *ignored) {
    if (armed_threads > 0 && own_spans == 0) {
        _PyInterpreterState_SetEvalFrameFunc(PyInterpreterState_Get(), _PyEval_EvalFrameDefault);
    }
    armed_threads = own_spans;
    Py_RETURN_NONE;
}

/* mark_code(code, mark): what the hook does with frames of this code. */
static PyObject *mark_code(PyObject *module, PyObject *args) {
    PyObject *code;
    int mark;
    if (!PyArg_ParseTuple(args, "O!i:mark_code", &PyCode_Type, &code, &mark)) {
        return NULL;
    }
    if (_PyCode_SetExtra(code, extra_index, (void *)(intptr_t)mark) < 0) {
        return NULL;
    }
    Py_RETURN_NONE;
}

/* is_skipped(code) -> whether CPython runs frames of this code in any case. */
static PyObject *is_skipped(PyObject *module, PyObject *code) {
    if (!PyCode_Check(code)) {
        PyErr_SetString(PyExc_TypeError, "is_skipped(code)");
        return NULL;
    }
    return PyBool_FromLong(stator_skip_code((PyCodeObject *)code));
}

/* armed() -> spans open over all threads; 0: CPython evaluates frames without the hook. */
static PyObject *armed(PyObject *module, PyObject *ignored) {
    return PyLong_FromLong(armed_threads);
}

PyMethodDef stator_hook_methods[] = {
    {"apart", apart, METH_NOARGS, "whether a function in gc.callbacks, or one that traces, runs on this thread"},
    {"forget_threads", forget_threads, METH_NOARGS, "in the child of a fork: no other thread has open spans"},
    {"armed", armed, METH_NOARGS, "how many spans are open over all threads"},
    {"set_own_folder", set_own_folder, METH_O, "code from files with this prefix is stator's own"},
    {"set_own_error", set_own_error, METH_O, "exceptions of this class are stator's own"},
    {"mark_code", mark_code, METH_VARARGS, "mark_code(code, TAKEN | SKIPPED | TRANSPARENT)"},
    {"is_skipped", is_skipped, METH_O, "whether CPython runs frames of this code in any case"},
    {NULL},
};

int stator_hook_ready(PyObject *module) {
    extra_index = _PyEval_RequestCodeExtraIndex(NULL);
    if (extra_index < 0) {
        PyErr_SetString(PyExc_RuntimeError, "no free code-extra slot");
        return -1;
    }
    if (PyModule_AddIntConstant(module, "TAKEN", CODE_TAKEN) < 0 || PyModule_AddIntConstant(module, "SKIPPED", CODE_SKIPPED) < 0
        || PyModule_AddIntConstant(module, "TRANSPARENT", CODE_TRANSPARENT) < 0) {
        return -1;
    }
    return PyModule_AddFunctions(module, stator_hook_methods);
}
