/* What comes to stator of classes themselves while a span is open: new ones, and reads of their attributes. */
#include "frames.h"

static newfunc type_new;
static getattrofunc type_read;

/* Classes made while a span is open are inside: true if this one is known as such now. */
static int note_class(PyObject *cls) {
    if (!stator_thread.armed || !stator_thread.inside_types) {
        return 1;
    }
    PyObject *key = PyLong_FromVoidPtr(cls);
    int noted = key && PyDict_SetItem(stator_thread.inside_types, key, cls) == 0;
    Py_XDECREF(key);
    return noted;
}

/* The metaclass's tp_alloc for one class: noted before __set_name__ and __init_subclass__ meet it. */
static PyObject *alloc_noted(PyTypeObject *meta, Py_ssize_t items) {
    meta->tp_alloc = PyType_GenericAlloc;
    PyObject *cls = PyType_GenericAlloc(meta, items);
    if (cls && !note_class(cls)) {
        PyErr_Clear();
    }
    return cls;
}

static PyTypeObject *metaclass_of_new(PyTypeObject *meta, PyObject *args) {
    PyObject *bases = PyTuple_GET_SIZE(args) == 3 ? PyTuple_GET_ITEM(args, 1) : NULL;
    if (!stator_thread.armed || !bases || !PyTuple_CheckExact(bases)) {
        return NULL;
    }
    PyTypeObject *winner = _PyType_CalculateMetaclass(meta, bases);
    if (!winner) {
        PyErr_Clear();
        return NULL;
    }
    int plain = winner == meta || winner->tp_new == type_new || winner->tp_new == PyType_Type.tp_new;
    return plain && winner->tp_alloc == PyType_GenericAlloc ? winner : NULL;
}

static PyObject *type_new_noted(PyTypeObject *meta, PyObject *args, PyObject *kwargs) {
    PyTypeObject *winner = metaclass_of_new(meta, args);
    if (winner) {
        winner->tp_alloc = alloc_noted;
    }
    PyObject *cls = type_new(meta, args, kwargs);
    if (winner && winner->tp_alloc == alloc_noted) { /* failed early */
        winner->tp_alloc = PyType_GenericAlloc;
    }
    if (cls && stator_thread.armed && stator_thread.inside_types) {
        stator_watch_finalizer((PyTypeObject *)cls);
    }
    if (cls && !note_class(cls)) {
        Py_CLEAR(cls);
    }
    return cls;
}

/* Change a metaclass and all of its subclasses. 0, or -1 with an error set. */
static int for_metaclasses(PyTypeObject *meta, void (*change)(PyTypeObject *)) {
    change(meta);
    PyObject *derived = PyObject_CallMethod((PyObject *)&PyType_Type, "__subclasses__", "O", meta);
    for (Py_ssize_t i = 0; derived && i < PyList_GET_SIZE(derived); i++) {
        if (for_metaclasses((PyTypeObject *)PyList_GET_ITEM(derived, i), change) < 0) {
            Py_CLEAR(derived);
        }
    }
    Py_XDECREF(derived);
    return derived ? 0 : -1;
}

/* Captures of all threads that want a change; the first one makes it, the last one undoes it. Guarded by the GIL. */
static int count_captures(int *wanting, int change, void (*make)(PyTypeObject *), void (*undo)(PyTypeObject *)) {
    int before = *wanting;
    *wanting += change;
    if (before == 0 || *wanting == 0) {
        return for_metaclasses(&PyType_Type, before == 0 ? make : undo);
    }
    return 0;
}

/* type.__new__ insists that all metaclasses have the same tp_new. */
static void note_new(PyTypeObject *meta) {
    if (meta->tp_new == type_new) {
        meta->tp_new = type_new_noted;
    }
}

static void note_no_more(PyTypeObject *meta) {
    if (meta->tp_new == type_new_noted) {
        meta->tp_new = type_new;
    }
}

/* From now on (1), or no longer (-1), classes made inside a span are noted as inside. 0, or -1 with an error set. */
int stator_note_classes(int change) {
    static int wanting;
    return count_captures(&wanting, change, note_new, note_no_more);
}

static PyObject *read_class(PyObject *cls, PyObject *name) { return stator_read(cls, name, type_read); }

/* Of a metaclass with `__getattr__`, whose slot reads in C first. */
static PyObject *read_hooked_class(PyObject *cls, PyObject *name) { return stator_read(cls, name, stator_getattr_hook); }

/* A reading slot without the door. */
getattrofunc stator_class_read(getattrofunc read) {
    return read == read_class ? type_read : read == read_hooked_class ? stator_getattr_hook : read;
}

static void watch_reads(PyTypeObject *meta) {
    if (meta->tp_getattro == type_read) {
        meta->tp_getattro = read_class;
    } else if (meta->tp_getattro == stator_getattr_hook) {
        meta->tp_getattro = read_hooked_class;
    }
}

static void unwatch_reads(PyTypeObject *meta) { meta->tp_getattro = stator_class_read(meta->tp_getattro); }

/* watch_classes(bool): route native access to attributes of classes themselves through stator while a span is open; once more, once less. */
static PyObject *watch_classes(PyObject *module, PyObject *on) {
    static int wanting;
    if (count_captures(&wanting, on == Py_True ? 1 : -1, watch_reads, unwatch_reads) < 0) {
        return NULL;
    }
    Py_RETURN_NONE;
}

/* disown(cls): the bases of a class no longer know it; the class itself goes on until it dies. */
static PyObject *disown(PyObject *module, PyObject *cls) {
    if (!PyType_Check(cls)) {
        PyErr_SetString(PyExc_TypeError, "disown(cls)");
        return NULL;
    }
    PyObject *bases = ((PyTypeObject *)cls)->tp_bases; /* NULL where making the class failed */
    PyObject *key = PyLong_FromVoidPtr(cls);
    if (!key) {
        return NULL;
    }
    for (Py_ssize_t i = 0; bases && i < PyTuple_GET_SIZE(bases); i++) {
        PyObject *base = PyTuple_GET_ITEM(bases, i);
        PyObject *known = PyType_Check(base) ? subclasses_of((PyTypeObject *)base) : NULL;
        if (known && PyDict_GetItemWithError(known, key) && PyDict_DelItem(known, key) < 0) {
            PyErr_Clear();
        }
    }
    Py_DECREF(key);
    Py_RETURN_NONE;
}

static PyMethodDef methods[] = {
    {"disown", disown, METH_O, "the bases of a class no longer know it"},
    {"watch_classes", watch_classes, METH_O, "route native access to attributes of classes themselves through stator"},
    {NULL},
};

int stator_classes_ready(PyObject *module) {
    type_new = PyType_Type.tp_new;
    type_read = PyType_Type.tp_getattro;
    return PyModule_AddFunctions(module, methods);
}
