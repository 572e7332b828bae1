/* Module `stator._frames`: what runs while capturing. */
#include "frames.h"

typedef struct { PyObject_HEAD const char *name; } Mark;

static PyObject *mark_repr(Mark *self) { return PyUnicode_FromFormat("<%s>", self->name); }

static PyTypeObject MarkType = {
    PyVarObject_HEAD_INIT(NULL, 0)
    .tp_name = "stator._frames.Mark",
    .tp_basicsize = sizeof(Mark),
    .tp_flags = Py_TPFLAGS_DEFAULT,
    .tp_repr = (reprfunc)mark_repr,
};

static PyObject *mark(PyObject *module, const char *name) {
    Mark *self = PyObject_New(Mark, &MarkType);
    if (!self || (self->name = name, PyModule_AddObjectRef(module, name, (PyObject *)self) < 0)) {
        return NULL;
    }
    return (PyObject *)self;
}

static struct PyModuleDef definition = {
    PyModuleDef_HEAD_INIT, .m_name = "stator._frames", .m_doc = "Frame hook, spans and frame access.", .m_size = -1,
};

PyMODINIT_FUNC PyInit__frames(void) {
    PyObject *module = PyModule_Create(&definition);
    if (!module || PyType_Ready(&MarkType) < 0) {
        return NULL;
    }
    stator_failed = mark(module, "FAILED");
    stator_unbound = mark(module, "UNBOUND");
    if (!stator_failed || !stator_unbound || stator_hook_ready(module) < 0 || stator_frame_ready(module) < 0 || stator_generators_ready(module) < 0 || stator_slots_ready(module) < 0 || stator_classes_ready(module) < 0 || stator_finalizers_ready(module) < 0 || stator_identities_ready(module) < 0
        || stator_calls_ready(module) < 0 || stator_below_ready(module) < 0
        || PyModule_AddFunctions(module, stator_span_methods) < 0
        || PyModule_AddFunctions(module, stator_lookup_methods) < 0) {
        Py_DECREF(module);
        return NULL;
    }
    return module;
}
