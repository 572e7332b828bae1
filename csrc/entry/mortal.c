/* Objects that a program names without keeping them alive: classes, functions, modules, instances, compared by identity.
 *
 * The program holds a weak reference to each and uses the bare address. That is safe because the death of one of them
 * makes the program expire before the address can be used again: an expired program never runs. */
#include "entry.h"

struct Watch {
    PyObject_HEAD
    Program *program; /* borrowed; NULL once the program is gone */
};

static uint64_t deaths; /* programs that have expired; guarded by the GIL */

/* True for objects that can die while the process runs, and that tell. */
bool
mortal(PyObject *object)
{
    PyTypeObject *type = Py_TYPE(object);
    if (PyType_Check(object)) {
        return ((PyTypeObject *)object)->tp_flags & Py_TPFLAGS_HEAPTYPE;
    }
    return PyType_SUPPORTS_WEAKREFS(type) && !PyCFunction_Check(object);
}

uint64_t
mortal_deaths(void)
{
    return deaths;
}

void
program_expire(Program *program)
{
    if (program->npos != EXPIRED) {
        program->npos = EXPIRED;
        deaths++;
    }
}

/* What a weak reference calls when its object dies. */
static PyObject *
watch_call(Watch *self, PyObject *Py_UNUSED(args), PyObject *Py_UNUSED(kwargs))
{
    if (self->program != NULL) {
        program_expire(self->program);
    }
    Py_RETURN_NONE;
}

static void
watch_dealloc(Watch *self)
{
    PyObject_Free(self);
}

PyTypeObject Watch_Type = {
    PyVarObject_HEAD_INIT(NULL, 0)
    .tp_name = "stator._entry.Watch",
    .tp_basicsize = sizeof(Watch),
    .tp_flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_DISALLOW_INSTANTIATION,
    .tp_doc = "Makes a program expire.",
    .tp_dealloc = (destructor)watch_dealloc,
    .tp_call = (ternaryfunc)watch_call,
};

static int
make_watch(Program *program)
{
    if (program->watch == NULL) {
        program->watch = PyObject_New(Watch, &Watch_Type);
        if (program->watch == NULL) {
            return -1;
        }
        program->watch->program = program;
    }
    return 0;
}

/* Layers of one class repeat it: the latest are the likeliest. */
static bool
is_watched(const Program *program, const PyObject *object)
{
    for (Py_ssize_t i = program->reference_count - 1; i >= 0 && i >= program->reference_count - 16; i--) {
        if (PyWeakref_GET_OBJECT(program->references[i]) == object) {
            return true;
        }
    }
    return false;
}

/* What the program is to hold in place of `object`: None if it is mortal, as it is watched then. New reference.
 * The collector does not see the weak references: else it would clear, but not call, those of a program that is garbage
 * together with the object, and a finalizer may bring both back. */
PyObject *
mortal_hold(Program *program, PyObject *object)
{
    if (!mortal(object) || !tensor_layout_verified()) { /* else checks of tensors ask Python in the middle of a run */
        return Py_NewRef(object);
    }
    if (is_watched(program, object)) {
        return Py_NewRef(Py_None);
    }
    Py_ssize_t count = program->reference_count;
    PyObject **grown = PyMem_Realloc(program->references, (count + 1) * sizeof(PyObject *));
    if (grown == NULL) {
        return PyErr_NoMemory();
    }
    program->references = grown;
    PyObject *reference = make_watch(program) < 0 ? NULL : PyWeakref_NewRef(object, (PyObject *)program->watch);
    if (reference == NULL) {
        return NULL;
    }
    program->references[program->reference_count++] = reference;
    return Py_NewRef(Py_None);
}

/* The program goes: deaths no longer concern it. */
void
mortal_forget(Program *program)
{
    if (program->watch != NULL) {
        program->watch->program = NULL;
        Py_CLEAR(program->watch);
    }
    while (program->reference_count > 0) {
        Py_DECREF(program->references[--program->reference_count]);
    }
    PyMem_Free(program->references);
    program->references = NULL;
}

PyObject *
mortal_ask(PyObject *Py_UNUSED(module), PyObject *object)
{
    return PyBool_FromLong(mortal(object));
}
