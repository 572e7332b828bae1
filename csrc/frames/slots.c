/* Door slots: native attribute access on outside objects and finalizers come to stator while a span is open.
   The replaced slot functions behave as the originals whenever no span is open on the thread. */
#include "frames.h"

static PyObject *read_callback, *write_callback; /* strong; set once by the package */
getattrofunc stator_getattr_hook;                 /* CPython's slot for classes with __getattr__ */
static PyObject *getattr_name;
static getattrofunc module_read;

/* Run a callback of stator's from inside native code: (obj, name[, value]) -> value. */
PyObject *stator_ask(PyObject *callback, PyObject *obj, PyObject *name, PyObject *value) {
    PyThreadState *ts = _PyThreadState_GET();
    _PyErr_StackItem *user_exc = ts->exc_info;
    _PyErr_StackItem own_exc = {.exc_value = NULL, .previous_item = user_exc};
    int recursion = ts->recursion_remaining, user_recursion = stator_thread.user_recursion;
    stator_thread.user_recursion = recursion;
    stator_thread.armed = 0;
    stator_hook_remove(stator_thread.tracing);
    ts->exc_info = &own_exc;
    ts->recursion_remaining = 100000;
    PyObject *args[] = {obj, name, value};
    PyObject *result = PyObject_Vectorcall(callback, args, value ? 3 : 2, NULL);
    Py_CLEAR(own_exc.exc_value);
    ts->exc_info = user_exc;
    ts->recursion_remaining = recursion;
    stator_thread.user_recursion = user_recursion;
    stator_hook_install();
    stator_thread.armed = 1;
    if (!result) {
        return stator_gave_up();
    }
    if (result == stator_failed) {
        Frame *top = stator_thread.top;
        PyObject *error = top->error;
        top->error = NULL;
        Py_DECREF(result);
        Py_INCREF(Py_TYPE(error));
        PyErr_Restore((PyObject *)Py_TYPE(error), error, PyException_GetTraceback(error));
        return NULL;
    }
    return result;
}

int stator_asked(void) { return stator_thread.armed && read_callback && stator_thread.top && !stator_thread.abandoned; }

PyObject *stator_read(PyObject *obj, PyObject *name, getattrofunc original) {
    return stator_asked() ? stator_ask(read_callback, obj, name, NULL) : original(obj, name);
}

static PyObject *read_generic(PyObject *obj, PyObject *name) { return stator_read(obj, name, PyObject_GenericGetAttr); }

static PyObject *read_with_hook(PyObject *obj, PyObject *name) { return stator_read(obj, name, stator_getattr_hook); }

static PyObject *read_module(PyObject *obj, PyObject *name) { return stator_read(obj, name, module_read); }

static int write_generic(PyObject *obj, PyObject *name, PyObject *value) {
    if (!stator_asked()) {
        return PyObject_GenericSetAttr(obj, name, value);
    }
    PyObject *result = stator_ask(write_callback, obj, name, value ? value : stator_unbound);
    Py_XDECREF(result);
    return result ? 0 : -1;
}

/* original_getattr(obj, name), original_setattr(obj, name[, value]): attribute access past the door slots. */
static PyObject *original_getattr(PyObject *module, PyObject *const *args, Py_ssize_t nargs) {
    if (nargs != 2) {
        PyErr_SetString(PyExc_TypeError, "original_getattr(obj, name)");
        return NULL;
    }
    getattrofunc read = Py_TYPE(args[0])->tp_getattro;
    if (read == read_generic) {
        return PyObject_GenericGetAttr(args[0], args[1]);
    }
    if (read == read_with_hook) {
        return stator_getattr_hook(args[0], args[1]);
    }
    return (read == read_module ? module_read : stator_class_read(read))(args[0], args[1]);
}

static PyObject *original_setattr(PyObject *module, PyObject *const *args, Py_ssize_t nargs) {
    if (nargs != 2 && nargs != 3) {
        PyErr_SetString(PyExc_TypeError, "original_setattr(obj, name[, value])");
        return NULL;
    }
    PyObject *value = nargs == 3 ? args[2] : NULL;
    int failed = Py_TYPE(args[0])->tp_setattro == write_generic ? PyObject_GenericSetAttr(args[0], args[1], value)
                                                                 : PyObject_SetAttr(args[0], args[1], value);
    if (failed) {
        return NULL;
    }
    Py_RETURN_NONE;
}

int stator_generic_read(PyTypeObject *type) {
    return type->tp_getattro == PyObject_GenericGetAttr || type->tp_getattro == read_generic;
}

int stator_generic_write(PyTypeObject *type) {
    return type->tp_setattro == PyObject_GenericSetAttr || type->tp_setattro == write_generic;
}

/* `object.__setattr__` refuses where a base has a slot of its own: the door's slots must pass for the generic one. */
static wrapperfunc wrap_setattr, wrap_delattr;
static setattrofunc python_setattr; /* CPython's slot for classes with __setattr__ */
static destructor python_dealloc;   /* of classes made by class statements */

static int generic_write_applies(PyObject *self, void *wrapped) {
    if (wrapped != (void *)PyObject_GenericSetAttr || !Py_TYPE(self)->tp_mro) {
        return 0;
    }
    PyObject *mro = Py_TYPE(self)->tp_mro;
    for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(mro); i++) {
        PyTypeObject *base = (PyTypeObject *)PyTuple_GET_ITEM(mro, i);
        if (!stator_generic_write(base) && base->tp_setattro != python_setattr) {
            return 0;
        }
    }
    return 1;
}

static PyObject *set_by_wrapper(PyObject *self, PyObject *args, void *wrapped) {
    PyObject *name, *value;
    if (!generic_write_applies(self, wrapped)) {
        return wrap_setattr(self, args, wrapped);
    }
    if (!PyArg_UnpackTuple(args, "", 2, 2, &name, &value) || PyObject_GenericSetAttr(self, name, value) < 0) {
        return NULL;
    }
    Py_RETURN_NONE;
}

static PyObject *delete_by_wrapper(PyObject *self, PyObject *args, void *wrapped) {
    PyObject *name;
    if (!generic_write_applies(self, wrapped)) {
        return wrap_delattr(self, args, wrapped);
    }
    if (!PyArg_UnpackTuple(args, "", 1, 1, &name) || PyObject_GenericSetAttr(self, name, NULL) < 0) {
        return NULL;
    }
    Py_RETURN_NONE;
}

/* Put a function of ours in front of the wrapper behind object.__dict__[name]; gives the original. */
static wrapperfunc replace_wrapper(const char *name, wrapperfunc ours) {
    PyObject *found = PyDict_GetItemString(PyBaseObject_Type.tp_dict, name);
    if (!found || !Py_IS_TYPE(found, &PyWrapperDescr_Type)) {
        return NULL;
    }
    struct wrapperbase *base = ((PyWrapperDescrObject *)found)->d_base;
    wrapperfunc original = base->wrapper;
    base->wrapper = ours;
    return original;
}

static int wrappers_ready(void) {
    PyObject *sample = PyObject_CallFunction((PyObject *)&PyType_Type, "s(){sO}", "sample", "__setattr__", Py_None);
    if (!sample) {
        return -1;
    }
    python_setattr = ((PyTypeObject *)sample)->tp_setattro;
    python_dealloc = ((PyTypeObject *)sample)->tp_dealloc;
    Py_DECREF(sample);
    wrap_setattr = replace_wrapper("__setattr__", set_by_wrapper);
    wrap_delattr = replace_wrapper("__delattr__", delete_by_wrapper);
    if (!wrap_setattr || !wrap_delattr) {
        PyErr_SetString(PyExc_RuntimeError, "object.__setattr__ is not what it was");
        return -1;
    }
    return 0;
}

/* watch_type(cls): route native attribute access on its instances through stator while a span is open. */
static PyObject *watch_type(PyObject *module, PyObject *cls) {
    if (!PyType_Check(cls)) {
        PyErr_SetString(PyExc_TypeError, "watch_type(cls)");
        return NULL;
    }
    PyTypeObject *type = (PyTypeObject *)cls;
    if (!(type->tp_flags & Py_TPFLAGS_HEAPTYPE)) {
        Py_RETURN_FALSE;
    }
    if (type->tp_getattro == PyObject_GenericGetAttr) {
        type->tp_getattro = read_generic;
    } else if (type->tp_getattro == stator_getattr_hook && _PyType_Lookup(type, getattr_name)) {
        type->tp_getattro = read_with_hook;
    }
    if (type->tp_setattro == PyObject_GenericSetAttr) {
        type->tp_setattro = write_generic;
    }
    stator_watch_finalizer(type);
    Py_RETURN_TRUE;
}

/* unwatch_type(cls): put CPython's own slots back. */
static PyObject *unwatch_type(PyObject *module, PyObject *cls) {
    PyTypeObject *type = (PyTypeObject *)cls;
    if (type->tp_getattro == read_generic) {
        type->tp_getattro = PyObject_GenericGetAttr;
    } else if (type->tp_getattro == read_with_hook) {
        type->tp_getattro = stator_getattr_hook;
    }
    if (type->tp_setattro == write_generic) {
        type->tp_setattro = PyObject_GenericSetAttr;
    }
    stator_unwatch_finalizer(type);
    Py_RETURN_NONE;
}

/* is_python_class(cls): made by a class statement or by calling type, not by an extension module. */
static PyObject *is_python_class(PyObject *module, PyObject *cls) {
    return PyBool_FromLong(PyType_Check(cls) && ((PyTypeObject *)cls)->tp_dealloc == python_dealloc);
}

static PyObject *descr_get(PyObject *module, PyObject *const *args, Py_ssize_t nargs) {
    descrgetfunc get = nargs == 3 ? Py_TYPE(args[0])->tp_descr_get : NULL;
    if (!get) {
        PyErr_SetString(PyExc_TypeError, "descr_get(descriptor, obj, cls)");
        return NULL;
    }
    return get(args[0], args[1] == Py_None ? NULL : args[1], args[2]);
}

static PyObject *descr_set(PyObject *module, PyObject *const *args, Py_ssize_t nargs) {
    descrsetfunc set = nargs >= 2 ? Py_TYPE(args[0])->tp_descr_set : NULL;
    if (!set) {
        PyErr_SetString(PyExc_TypeError, "descr_set(descriptor, obj[, value])");
        return NULL;
    }
    if (set(args[0], args[1], nargs > 2 ? args[2] : NULL) < 0) {
        return NULL;
    }
    Py_RETURN_NONE;
}

static PyObject *set_callbacks(PyObject *module, PyObject *args) {
    PyObject *read, *write;
    if (!PyArg_ParseTuple(args, "OO:set_callbacks", &read, &write)) {
        return NULL;
    }
    Py_XSETREF(read_callback, Py_NewRef(read));
    Py_XSETREF(write_callback, Py_NewRef(write));
    Py_RETURN_NONE;
}

PyMethodDef stator_slots_methods[] = {
    {"original_getattr", (PyCFunction)(void (*)(void))original_getattr, METH_FASTCALL, "original_getattr(obj, name)"},
    {"original_setattr", (PyCFunction)(void (*)(void))original_setattr, METH_FASTCALL, "original_setattr(obj, name[, value])"},
    {"is_python_class", is_python_class, METH_O, "whether a class was made in Python"},
    {"watch_type", watch_type, METH_O, "route native attribute access on instances through stator"},
    {"unwatch_type", unwatch_type, METH_O, "undo watch_type"},
    {"set_callbacks", set_callbacks, METH_VARARGS, "set_callbacks(read, write) for watched types"},
    {"descr_get", (PyCFunction)(void (*)(void))descr_get, METH_FASTCALL, "descr_get(descriptor, obj or None, cls)"},
    {"descr_set", (PyCFunction)(void (*)(void))descr_set, METH_FASTCALL, "descr_set(descriptor, obj[, value])"},
    {NULL},
};

/* A class with one special method, for the slot function that CPython gives to such; a new reference. */
PyTypeObject *stator_sample_class(const char *method) {
    return (PyTypeObject *)PyObject_CallFunction((PyObject *)&PyType_Type, "s(){sO}", "sample", method, Py_None);
}

int stator_slots_ready(PyObject *module) {
    getattr_name = PyUnicode_InternFromString("__getattr__");
    PyTypeObject *sample = stator_sample_class("__getattr__");
    if (!getattr_name || !sample || wrappers_ready() < 0) {
        Py_XDECREF(sample);
        return -1;
    }
    stator_getattr_hook = sample->tp_getattro;
    Py_DECREF(sample);
    module_read = PyModule_Type.tp_getattro;
    PyModule_Type.tp_getattro = read_module;
    return PyModule_AddFunctions(module, stator_slots_methods);
}
