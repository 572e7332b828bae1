/* Identities(list): a frozen set of objects by address; it keeps them alive, so that their addresses stay theirs. */
#include "frames.h"

typedef struct {
    PyObject_HEAD
    PyObject *objects; /* strong */
    PyObject **table;
    size_t mask;
} Identities;

static size_t place(const Identities *self, const PyObject *object) {
    size_t at = ((uintptr_t)object >> 4) * 0x9E3779B97F4A7C15u >> 20 & self->mask;
    while (self->table[at] && self->table[at] != object) {
        at = (at + 1) & self->mask;
    }
    return at;
}

static PyObject *identities_new(PyTypeObject *type, PyObject *args, PyObject *kwargs) {
    PyObject *objects;
    if (!PyArg_ParseTuple(args, "O!:Identities", &PyList_Type, &objects)) {
        return NULL;
    }
    Identities *self = (Identities *)type->tp_alloc(type, 0);
    if (!self) {
        return NULL;
    }
    size_t size = 16, count = (size_t)PyList_GET_SIZE(objects);
    while (size < 2 * count) {
        size *= 2;
    }
    self->mask = size - 1;
    self->table = PyMem_Calloc(size, sizeof(PyObject *));
    if (!self->table) {
        Py_DECREF(self);
        return PyErr_NoMemory();
    }
    self->objects = Py_NewRef(objects);
    for (size_t i = 0; i < count; i++) {
        PyObject *object = PyList_GET_ITEM(objects, i);
        self->table[place(self, object)] = object;
    }
    return (PyObject *)self;
}

static int identities_contains(Identities *self, PyObject *object) { return self->table[place(self, object)] != NULL; }

static void identities_dealloc(Identities *self) {
    PyMem_Free(self->table);
    Py_CLEAR(self->objects);
    Py_TYPE(self)->tp_free((PyObject *)self);
}

static PySequenceMethods as_sequence = {.sq_contains = (objobjproc)identities_contains};

static PyTypeObject IdentitiesType = {
    PyVarObject_HEAD_INIT(NULL, 0)
    .tp_name = "stator._frames.Identities",
    .tp_basicsize = sizeof(Identities),
    .tp_flags = Py_TPFLAGS_DEFAULT,
    .tp_doc = "Identities(list): membership by identity.",
    .tp_new = identities_new,
    .tp_dealloc = (destructor)identities_dealloc,
    .tp_as_sequence = &as_sequence,
};

int stator_identities_ready(PyObject *module) { return PyModule_AddType(module, &IdentitiesType); }
