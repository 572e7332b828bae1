/* Finalizers of objects that the captured program made: they run in a span, where what they do is observed. What is left
   when the capture ends was only its copy of the real thing and dies silently. */
#include "frames.h"

static destructor finalize_slot; /* CPython's slot for classes with __del__; classes below C types may have others */
static PyObject *del_name;
static PyObject *discarded; /* set: addresses of objects to die silently whose types have no mark for that */

/* Run a finalizer for the captured program: CPython would tell the world of what it raises, so giving up is silent. */
static void finalize_noted(destructor finalize, PyObject *obj) {
    Frame *ending = stator_thread.ending;
    stator_thread.ending = stator_thread.top;
    finalize(obj);
    stator_thread.ending = ending;
}

static int needs_span(void) {
    return stator_thread.capturing && !stator_thread.armed && stator_thread.top && !stator_thread.abandoned;
}

/* The same, inside a span also when stator's own code dropped the object. */
static void finalize_in_span(destructor finalize, PyObject *obj) {
    PyThreadState *ts = _PyThreadState_GET();
    Span span;
    if (!needs_span()) {
        finalize_noted(finalize, obj);
        return;
    }
    stator_span_enter(ts, &span);
    finalize_noted(finalize, obj);
    stator_span_leave(ts, &span);
}

/* A generator that the captured program has made; stator and torch make and drop a lot of them too. */
int stator_note_generator(PyObject *generator) {
    PyObject *reference = PyWeakref_NewRef(generator, NULL);
    PyObject *address = reference ? PyLong_FromVoidPtr(generator) : NULL;
    int failed = !address || PyDict_SetItem(stator_thread.generators, address, reference) < 0;
    Py_XDECREF(address);
    Py_XDECREF(reference);
    return failed ? -1 : 0;
}

/* Takes a generator out of those of the captured program: whether it was one. Keeps an exception that is on its way. */
static int take_generator(PyObject *generator) {
    PyObject *noted = stator_thread.generators;
    if (!noted || !PyDict_GET_SIZE(noted)) {
        return 0;
    }
    PyObject *type, *value, *traceback;
    PyErr_Fetch(&type, &value, &traceback);
    PyObject *address = PyLong_FromVoidPtr(generator);
    int found = address && PyDict_GetItemWithError(noted, address) && PyDict_DelItem(noted, address) == 0;
    Py_XDECREF(address);
    PyErr_Restore(type, value, traceback);
    return found;
}

static void finalize_generator(PyObject *generator) {
    PyGenObject *gen = (PyGenObject *)generator;
    int inside = take_generator(generator) || !PyGen_CheckExact(generator);
    int runs_code = gen->gi_frame_state == FRAME_SUSPENDED
                    || (gen->gi_frame_state == FRAME_CREATED && PyCoro_CheckExact(generator)); /* warns */
    if (inside && runs_code && !stator_skip_code(gen->gi_code)) {
        finalize_in_span(_PyGen_Finalize, generator);
    } else {
        _PyGen_Finalize(generator);
    }
}

/* Takes an object's address out of a set: whether it was in there. Keeps an exception that is on its way. */
static int take_out(PyObject *addresses, PyObject *obj) {
    if (!addresses || !PySet_GET_SIZE(addresses)) {
        return 0;
    }
    PyObject *type, *value, *traceback;
    PyErr_Fetch(&type, &value, &traceback);
    PyObject *address = PyLong_FromVoidPtr(obj);
    int found = address && PySet_Discard(addresses, address) == 1;
    Py_XDECREF(address);
    PyErr_Restore(type, value, traceback);
    return found;
}

static void finalize_instance(PyObject *obj) {
    int inside = take_out(stator_thread.instances, obj);
    if (take_out(discarded, obj) || (inside && (!stator_thread.top || stator_thread.abandoned))) {
        return;
    }
    finalize_in_span(finalize_slot, obj);
}

/* tp_alloc of classes with __del__: notes what the captured program makes. */
static PyObject *alloc_finalizable(PyTypeObject *type, Py_ssize_t items) {
    PyObject *obj = PyType_GenericAlloc(type, items);
    if (obj && stator_thread.armed && stator_thread.instances) {
        PyObject *address = PyLong_FromVoidPtr(obj);
        if (!address || PySet_Add(stator_thread.instances, address) < 0) {
            Py_CLEAR(obj);
        }
        Py_XDECREF(address);
    }
    return obj;
}

/* Route __del__ of a class through finalize_instance. */
void stator_watch_finalizer(PyTypeObject *type) {
    if (!type->tp_finalize || !_PyType_Lookup(type, del_name)) {
        return;
    }
    if (type->tp_finalize == finalize_slot) {
        type->tp_finalize = finalize_instance;
    }
    if (type->tp_finalize == finalize_instance && type->tp_alloc == PyType_GenericAlloc
        && !PyType_IsSubtype(type, &PyType_Type)) {
        type->tp_alloc = alloc_finalizable;
    }
}

void stator_unwatch_finalizer(PyTypeObject *type) {
    if (type->tp_finalize == finalize_instance && PyType_IS_GC(type)) { /* others are asked for in `discarded` */
        type->tp_finalize = finalize_slot;
    }
    if (type->tp_alloc == alloc_finalizable) {
        type->tp_alloc = PyType_GenericAlloc;
    }
}

static int discard_instance(PyObject *obj, PyObject *address) {
    if (PyObject_IS_GC(obj)) {
        _PyGCHead_SET_FINALIZED(_Py_AS_GC(obj));
        return 0;
    }
    return PySet_Add(discarded, address);
}

/* A copy that stator has made of an object with a finalizer is to die without running it. */
static PyObject *silence(PyObject *module, PyObject *obj) {
    PyObject *address = PyLong_FromVoidPtr(obj);
    int failed = !address || discard_instance(obj, address) < 0;
    Py_XDECREF(address);
    if (failed) {
        return NULL;
    }
    Py_RETURN_NONE;
}

/* The addresses of objects with finalizers, all alive, that are to die without running them. Keeps an exception that is
   on its way. */
void stator_discard_instances(PyObject *addresses) {
    PyObject *type, *value, *traceback, *address;
    Py_ssize_t at = 0;
    Py_hash_t hash;
    PyErr_Fetch(&type, &value, &traceback);
    while (_PySet_NextEntry(addresses, &at, &address, &hash)) {
        if (discard_instance(PyLong_AsVoidPtr(address), address) < 0) {
            PyErr_WriteUnraisable(NULL);
        }
    }
    PyErr_Restore(type, value, traceback);
}

static PyMethodDef methods[] = {
    {"silence", silence, METH_O, "the object is to die without running its finalizer"},
    {NULL, NULL, 0, NULL},
};

int stator_finalizers_ready(PyObject *module) {
    del_name = PyUnicode_InternFromString("__del__");
    discarded = PySet_New(NULL);
    PyTypeObject *sample = stator_sample_class("__del__");
    if (!del_name || !discarded || !sample) {
        Py_XDECREF(sample);
        return -1;
    }
    finalize_slot = sample->tp_finalize;
    Py_DECREF(sample);
    PyGen_Type.tp_finalize = finalize_generator;
    PyCoro_Type.tp_finalize = finalize_generator;
    PyAsyncGen_Type.tp_finalize = finalize_generator;
    return PyModule_AddFunctions(module, methods);
}
