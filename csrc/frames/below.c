/* Frames below a break: while an instruction runs in CPython, the Python functions it calls may be compiled too.
   Armed by below() for exactly that span and thread; `owner` is a dict {address of a code object: what to call in
   place of its frames, or None}, with a method decide(code) for those it does not know yet. */
#include "frames.h"

enum { FEW_ARGUMENTS = 24 };
static PyObject *not_taken;   /* returned in place of a result: CPython runs the frame */
static PyObject *plainly;     /* the same, and all frames below it */
static PyObject *disable_key; /* attribute of functions that are not to be compiled, nor what they call */
static PyObject *recursive_key; /* False there: what they call may be compiled */
static PyObject *wrapped_key;
static PyObject *decide_name;

/* below(owner, function, argument) or below(owner, function, args, kwargs): the call, with frames below going to the
   owner. */
static PyObject *below(PyObject *module, PyObject *const *args, Py_ssize_t nargs) {
    if (nargs != 3 && nargs != 4) {
        PyErr_SetString(PyExc_TypeError, "below(owner, function, argument) or below(owner, function, args, kwargs)");
        return NULL;
    }
    PyObject *before = stator_thread.below;
    stator_thread.below = PyDict_Check(args[0]) ? args[0] : NULL;
    int tracing = stator_thread.below ? stator_hook_install() : 0;
    PyObject *result = nargs == 3 ? PyObject_CallOneArg(args[1], args[2])
                                  : PyObject_Call(args[1], args[2], args[3] == Py_None ? NULL : args[3]);
    if (stator_thread.below) {
        stator_hook_remove(tracing);
    }
    stator_thread.below = before;
    return result;
}

/* Runs a frame and all below it in CPython, which calls Python functions faster without the hook. */
static PyObject *run_plainly(PyThreadState *ts, _PyInterpreterFrame *raw, int throwflag) {
    PyObject *before = stator_thread.below;
    int tracing = stator_thread.tracing;
    stator_thread.below = NULL;
    stator_hook_remove(tracing);
    PyObject *result = _PyEval_EvalFrameDefault(ts, raw, throwflag);
    stator_hook_install();
    stator_thread.tracing = tracing;
    stator_thread.below = before;
    return result;
}

/* The function that a wrapper runs for `disable(recursive=False)`, NULL for all others; borrowed from the wrapper. */
static PyObject *excluded_alone(PyObject *marks) {
    if (!marks || PyDict_GetItemWithError(marks, recursive_key) != Py_False) {
        return NULL;
    }
    PyObject *wrapped = PyDict_GetItemWithError(marks, wrapped_key);
    if (wrapped && PyMethod_Check(wrapped)) {
        wrapped = PyMethod_GET_FUNCTION(wrapped);
    }
    return wrapped && PyFunction_Check(wrapped) ? wrapped : NULL;
}

/* Runs the wrapper and the function in it; frames below that go to the owner. */
static PyObject *run_alone(PyThreadState *ts, _PyInterpreterFrame *raw, int throwflag, PyObject *function) {
    PyObject *before = stator_thread.alone;
    stator_thread.alone = function;
    PyObject *result = _PyEval_EvalFrameDefault(ts, raw, throwflag);
    stator_thread.alone = before;
    return result;
}

/* The owner's answer for a code object: borrowed, NULL on error. */
static PyObject *look_up(PyObject *owner, PyCodeObject *code) {
    PyObject *key = PyLong_FromVoidPtr(code);
    if (!key) {
        return NULL;
    }
    PyObject *found = PyDict_GetItemWithError(owner, key);
    if (!found && !PyErr_Occurred()) {
        stator_thread.below = NULL;
        found = PyObject_CallMethodOneArg(owner, decide_name, (PyObject *)code);
        stator_thread.below = owner;
        if (found && PyDict_SetItem(owner, key, found) < 0) {
            Py_CLEAR(found);
        }
        Py_XDECREF(found); /* the dict has it */
    }
    Py_DECREF(key);
    return found;
}

/* Calls the owner's substitute with the function and its bound arguments. */
static PyObject *substitute(PyObject *found, _PyInterpreterFrame *raw, int count) {
    PyObject *few[FEW_ARGUMENTS + 2];
    PyObject **values = count <= FEW_ARGUMENTS ? few : PyMem_Malloc((count + 2) * sizeof(PyObject *));
    if (!values) {
        return PyErr_NoMemory();
    }
    values[1] = (PyObject *)raw->f_func;
    for (int i = 0; i < count; i++) {
        values[i + 2] = raw->localsplus[i];
    }
    PyObject *result = PyObject_Vectorcall(found, values + 1, (size_t)(count + 1) | PY_VECTORCALL_ARGUMENTS_OFFSET, NULL);
    if (values != few) {
        PyMem_Free(values);
    }
    return result;
}

PyObject *stator_below(PyThreadState *ts, _PyInterpreterFrame *raw, int throwflag) {
    PyObject *owner = stator_thread.below;
    PyCodeObject *code = raw->f_code;
    int makes_generator = code->co_flags & (CO_GENERATOR | CO_COROUTINE | CO_ASYNC_GENERATOR);
    int starts = raw->prev_instr < _PyCode_CODE(code) + code->_co_firsttraceable;
    CodeMark mark = stator_code_mark(code);
    if (mark == CODE_TRANSPARENT || throwflag || makes_generator || !starts || !(code->co_flags & CO_OPTIMIZED) || frame_is_generator(raw)
        || (PyObject *)raw->f_func == stator_thread.alone) {
        return _PyEval_EvalFrameDefault(ts, raw, throwflag);
    }
    PyObject *marks = raw->f_func->func_dict;
    if (mark == CODE_SKIPPED || (marks && PyDict_Contains(marks, disable_key) == 1)) {
        PyObject *alone = excluded_alone(marks);
        if (alone) {
            return run_alone(ts, raw, throwflag, alone);
        }
        return run_plainly(ts, raw, throwflag);
    }
    PyObject *found = look_up(owner, code);
    if (!found) {
        return NULL;
    }
    if (found == Py_None) {
        return _PyEval_EvalFrameDefault(ts, raw, throwflag);
    }
    int count = code->co_argcount + code->co_kwonlyargcount + ((code->co_flags & CO_VARARGS) != 0)
                + ((code->co_flags & CO_VARKEYWORDS) != 0);
    Py_INCREF(found);
    stator_thread.below = NULL;
    PyObject *result = substitute(found, raw, count);
    stator_thread.below = owner;
    Py_DECREF(found);
    if (result == not_taken || result == plainly) {
        Py_DECREF(result);
        return result == plainly ? run_plainly(ts, raw, throwflag) : _PyEval_EvalFrameDefault(ts, raw, throwflag);
    }
    return result;
}

static PyMethodDef methods[] = {
    {"below", (PyCFunction)(void (*)(void))below, METH_FASTCALL, "below(owner, function, argument)"},
    {NULL},
};

int stator_below_ready(PyObject *module) {
    not_taken = PyObject_CallNoArgs((PyObject *)&PyBaseObject_Type);
    plainly = PyObject_CallNoArgs((PyObject *)&PyBaseObject_Type);
    disable_key = PyUnicode_InternFromString("_torchdynamo_disable");
    recursive_key = PyUnicode_InternFromString("_torchdynamo_disable_recursive");
    wrapped_key = PyUnicode_InternFromString("__wrapped__");
    decide_name = PyUnicode_InternFromString("decide");
    if (!not_taken || !plainly || !disable_key || !recursive_key || !wrapped_key || !decide_name
        || PyModule_AddObjectRef(module, "NOT_TAKEN", not_taken) < 0 || PyModule_AddObjectRef(module, "PLAINLY", plainly) < 0) {
        return -1;
    }
    return PyModule_AddFunctions(module, methods);
}
