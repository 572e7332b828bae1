/* Spans: native calls made for the captured program, under the thread state that program would see. */
#include "frames.h"

PyObject *stator_failed;
PyObject *stator_unbound;

void stator_span_enter(PyThreadState *ts, Span *span) {
    Frame *top = stator_thread.top;
    span->exc = ts->exc_info;
    span->current = current_frame(ts);
    span->recursion = ts->recursion_remaining;
    span->armed = stator_thread.armed;
    if (top) {
        ts->exc_info = top->exc;
        set_current_frame(ts, top->frame);
        top->frame->prev_instr = _PyCode_CODE(top->frame->f_code) + top->lasti;
        ts->recursion_remaining = stator_thread.user_recursion;
    }
    if (!span->armed) {
        stator_thread.armed = 1;
        span->tracing = stator_hook_install();
    }
}

void stator_span_leave(PyThreadState *ts, Span *span) {
    if (!span->armed) {
        stator_thread.armed = 0;
        stator_hook_remove(span->tracing);
    }
    ts->exc_info = span->exc;
    set_current_frame(ts, span->current);
    ts->recursion_remaining = span->recursion;
}

/* The outcome of a native call for the interpreter: the result, FAILED with `error` set on the frame, or stator's own
   exception if one is on its way out. Steals `result`. */
PyObject *stator_span_result(PyObject *result) {
    if (stator_thread.abandoned) {
        Py_XDECREF(result);
        PyErr_Clear();
        PyObject *error = stator_thread.abandoned;
        stator_thread.abandoned = NULL;
        PyObject *traceback = PyException_GetTraceback(error);
        Py_INCREF(Py_TYPE(error));
        PyErr_Restore((PyObject *)Py_TYPE(error), error, traceback);
        return NULL;
    }
    if (result) {
        return result;
    }
    PyObject *type, *value, *traceback;
    PyErr_Fetch(&type, &value, &traceback);
    PyErr_NormalizeException(&type, &value, &traceback);
    if (traceback) {
        PyException_SetTraceback(value, traceback);
    }
    Py_XDECREF(type);
    Py_XDECREF(traceback);
    Py_XSETREF(stator_thread.top->error, value);
    return Py_NewRef(stator_failed);
}

static PyObject *native(PyObject *module, PyObject *const *args, Py_ssize_t nargs, PyObject *kwnames) {
    PyThreadState *ts = _PyThreadState_GET();
    Span span;
    if (nargs < 1) {
        PyErr_SetString(PyExc_TypeError, "native() needs a callable");
        return NULL;
    }
    stator_span_enter(ts, &span);
    PyObject *result = stator_vectorcall(args[0], args + 1, nargs - 1, kwnames);
    stator_span_leave(ts, &span);
    return stator_span_result(result);
}

static PyObject *native_apply(PyObject *module, PyObject *const *args, Py_ssize_t nargs) {
    PyThreadState *ts = _PyThreadState_GET();
    Span span;
    if (nargs != 3) {
        PyErr_SetString(PyExc_TypeError, "native_apply(callable, args, kwargs)");
        return NULL;
    }
    stator_span_enter(ts, &span);
    PyObject *result = stator_call(args[0], args[1], args[2] == Py_None ? NULL : args[2]);
    stator_span_leave(ts, &span);
    return stator_span_result(result);
}

/* send(receiver, value) -> (finished, value), or FAILED */
static PyObject *send(PyObject *module, PyObject *const *args, Py_ssize_t nargs) {
    PyThreadState *ts = _PyThreadState_GET();
    Span span;
    if (nargs != 2) {
        PyErr_SetString(PyExc_TypeError, "send(receiver, value)");
        return NULL;
    }
    PyObject *result = NULL;
    stator_span_enter(ts, &span);
    PySendResult status = PyIter_Send(args[0], args[1], &result);
    stator_span_leave(ts, &span);
    if (status == PYGEN_ERROR || stator_thread.abandoned) {
        return stator_span_result(result);
    }
    return Py_BuildValue("(NN)", PyBool_FromLong(status == PYGEN_RETURN), result);
}

static void stop_noting(void) {
    PyObject *type, *value, *traceback;
    PyErr_Fetch(&type, &value, &traceback);
    if (stator_note_classes(-1) < 0) {
        PyErr_WriteUnraisable(NULL);
    }
    PyErr_Restore(type, value, traceback);
}

/* capture(interpret, frame_type, inside_types, generators, instances, function, args, kwargs) -> (returned, value or exception): the
   root call; its frames go to interpret(frame). Raises only what stator itself raised. */
static PyObject *capture(PyObject *module, PyObject *const *args, Py_ssize_t nargs) {
    if (nargs != 8 || !PyDict_Check(args[3]) || !PySet_Check(args[4])) {
        PyErr_SetString(PyExc_TypeError, "capture(interpret, frame_type, inside_types, generators, instances, function, args, kwargs)");
        return NULL;
    }
    if (!PyDict_Check(args[2]) || !PyType_Check(args[1]) || !PyType_IsSubtype((PyTypeObject *)args[1], &StatorFrameType)) {
        PyErr_SetString(PyExc_TypeError, "frame_type must be a subclass of Frame, inside_types a dict");
        return NULL;
    }
    if (stator_note_classes(1) < 0) {
        return NULL;
    }
    PyThreadState *ts = _PyThreadState_GET();
    int collects = collect_at(ts, 0); /* else finalizers of strangers would run as part of the captured program */
    char *limit = stator_thread.stack_limit;
    Thread saved = stator_thread;
    stator_thread = (Thread){.interpret = args[0], .frame_type = args[1], .inside_types = args[2], .generators = args[3],
                             .instances = args[4], .capturing = saved.capturing + 1,
                             .user_recursion = ts->recursion_remaining, .stack_limit = limit, .tracing = tracing_depth(ts)};
    Span span;
    stator_span_enter(ts, &span);
    PyObject *result = PyObject_Call(args[5], args[6], args[7] == Py_None ? NULL : args[7]);
    stator_span_leave(ts, &span);
    int gave_up = stator_thread.abandoned != NULL, raised = result == NULL && !gave_up;
    if (raised) {
        PyObject *type, *traceback;
        PyErr_Fetch(&type, &result, &traceback);
        PyErr_NormalizeException(&type, &result, &traceback);
        if (traceback) {
            PyException_SetTraceback(result, traceback);
        }
        Py_XDECREF(type);
        Py_XDECREF(traceback);
    } else if (gave_up) {
        result = stator_span_result(result);
    }
    stator_discard_instances(args[4]); /* before anything of them dies unobserved */
    limit = stator_thread.stack_limit;
    stator_thread = saved;
    stator_thread.stack_limit = limit;
    stop_noting();
    collect_at(ts, collects);
    return gave_up ? NULL : Py_BuildValue("(NN)", PyBool_FromLong(!raised), result);
}

static PyObject *capturing(PyObject *module, PyObject *ignored) {
    return PyBool_FromLong(stator_thread.capturing > 0);
}

static PyObject *top_frame(PyObject *module, PyObject *ignored) {
    PyObject *top = (PyObject *)stator_thread.top;
    return Py_NewRef(top ? top : Py_None);
}

/* top_place() -> (code, unit) that the innermost interpreted frame has come to, or None. */
static PyObject *top_place(PyObject *module, PyObject *ignored) {
    Frame *top = stator_thread.top;
    if (!top) {
        Py_RETURN_NONE;
    }
    if (!top->frame) {
        PyErr_SetString(PyExc_RuntimeError, "the frame has ended");
        return NULL;
    }
    return Py_BuildValue("(Oi)", (PyObject *)top->frame->f_code, top->lasti);
}

/* abandon(exception): stator gives up from inside native code; the exception surfaces at the next return from a span. */
static PyObject *abandon(PyObject *module, PyObject *error) {
    if (!stator_thread.abandoned) {
        stator_thread.abandoned = Py_NewRef(error);
    }
    PyErr_SetNone(PyExc_SystemExit);
    return NULL;
}

/* do_raise(exception, cause), UNBOUND for absent ones: what the statement `raise exception from cause` does. */
static PyObject *do_raise(PyObject *module, PyObject *const *args, Py_ssize_t nargs) {
    if (nargs != 2) {
        PyErr_SetString(PyExc_TypeError, "do_raise(exception, cause)");
        return NULL;
    }
    PyObject *error = args[0], *cause = args[1];
    if (error == stator_unbound) {
        PyThreadState *ts = _PyThreadState_GET();
        for (_PyErr_StackItem *item = ts->exc_info; item; item = item->previous_item) {
            if (item->exc_value && item->exc_value != Py_None) {
                PyObject *value = Py_NewRef(item->exc_value);
                Py_INCREF(Py_TYPE(value));
                PyErr_Restore((PyObject *)Py_TYPE(value), value, PyException_GetTraceback(value));
                return NULL;
            }
        }
        PyErr_SetString(PyExc_RuntimeError, "No active exception to reraise");
        return NULL;
    }
    PyObject *value;
    if (PyExceptionClass_Check(error)) {
        value = PyObject_CallNoArgs(error);
        if (value && !PyExceptionInstance_Check(value)) {
            PyErr_Format(PyExc_TypeError, "calling %R should have returned an instance of BaseException, not %R", error,
                         Py_TYPE(value));
            Py_CLEAR(value);
        }
    } else if (PyExceptionInstance_Check(error)) {
        value = Py_NewRef(error);
    } else {
        PyErr_SetString(PyExc_TypeError, "exceptions must derive from BaseException");
        return NULL;
    }
    if (value && cause != stator_unbound) {
        PyObject *fixed = NULL;
        if (PyExceptionClass_Check(cause)) {
            fixed = PyObject_CallNoArgs(cause);
            if (fixed && !PyExceptionInstance_Check(fixed)) {
                PyErr_Format(PyExc_TypeError, "calling %R should have returned an instance of BaseException, not %R", cause,
                             Py_TYPE(fixed));
                Py_CLEAR(fixed);
            }
        } else if (PyExceptionInstance_Check(cause)) {
            fixed = Py_NewRef(cause);
        } else if (cause != Py_None) {
            PyErr_SetString(PyExc_TypeError, "exception causes must derive from BaseException");
        }
        if (PyErr_Occurred()) {
            Py_DECREF(value);
            return NULL;
        }
        PyException_SetCause(value, fixed);
    }
    if (value) {
        PyErr_SetObject((PyObject *)Py_TYPE(value), value);
        Py_DECREF(value);
    }
    return NULL;
}

/* display_error(file, exception, traceback): what sys.excepthook writes. */
static PyObject *display_error(PyObject *module, PyObject *const *args, Py_ssize_t nargs) {
    if (nargs != 3) {
        PyErr_SetString(PyExc_TypeError, "display_error(file, exception, traceback)");
        return NULL;
    }
    _PyErr_Display(args[0], (PyObject *)Py_TYPE(args[1]), args[1], args[2]);
    if (PyErr_Occurred()) {
        return NULL;
    }
    Py_RETURN_NONE;
}

PyMethodDef stator_span_methods[] = {
    {"display_error", (PyCFunction)(void (*)(void))display_error, METH_FASTCALL, "display_error(file, exception, traceback)"},
    {"do_raise", (PyCFunction)(void (*)(void))do_raise, METH_FASTCALL, "do_raise(exception, cause)"},
    {"native", (PyCFunction)(void (*)(void))native, METH_FASTCALL | METH_KEYWORDS,
     "native(callable, *args, **kwargs): call for the captured program; FAILED if it raised."},
    {"native_apply", (PyCFunction)(void (*)(void))native_apply, METH_FASTCALL, "native_apply(callable, args, kwargs)"},
    {"send", (PyCFunction)(void (*)(void))send, METH_FASTCALL, "send(receiver, value) -> (finished, value)"},
    {"capture", (PyCFunction)(void (*)(void))capture, METH_FASTCALL,
     "capture(interpret, frame_type, inside_types, generators, instances, function, args, kwargs)"},
    {"capturing", capturing, METH_NOARGS, "whether this thread is inside a capture"},
    {"top_place", top_place, METH_NOARGS, "top_place() -> (code, unit) of the innermost interpreted frame, or None"},
    {"top_frame", top_frame, METH_NOARGS, "the innermost interpreted frame"},
    {"abandon", abandon, METH_O, "abandon(exception): unwind native code and raise this in stator"},
    {NULL},
};
