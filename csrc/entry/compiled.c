/* The Compiled type: what stator.compile() returns. Tries its entries in turn; one that hits twice in a row comes to the
   front, so that the end of a loop, which is an entry of its own, does not come before the entry of its rounds. */
#include "entry.h"
#include <structmember.h>

typedef struct {
    Program *program;       /* owned */
    PyObject *function;     /* owned */
} Entry;

typedef struct {
    PyObject_HEAD
    vectorcallfunc vectorcall;
    PyObject *function;     /* owned: the user's function, __wrapped__ */
    PyObject *miss;         /* owned: miss(args, kwargs or None) */
    PyObject *swept;        /* owned: None, or called as swept() after expired entries were dropped */
    uint64_t deaths;        /* of programs anywhere, when the entries were last looked through */
    PyObject *dict;
    PyObject *weakrefs;
    Entry *entries;
    Py_ssize_t count, capacity;
    const Program *latest;  /* that was hit; only compared, it may be gone */
} Compiled;

#define FEW_LOADS 64

static int eager_only; /* stance "force_eager": every Compiled is its function; guarded by the GIL */

/* A dict whose changes matter to every call: its tag, as it is and as it was, and what is called when they differ. */
static struct {
    const uint64_t *tag;
    uint64_t seen;
    PyObject *dict, *changed; /* owned */
} watched = {.tag = &watched.seen};

/* A Python function takes its own references before anything else happens, so it may be lent the loads. */
static inline bool
may_borrow(const Program *program, PyObject *function)
{
    return Py_TYPE(function) == &PyFunction_Type && program->twin == NULL;
}

static inline void
drop_loads(PyObject **loads, Py_ssize_t count)
{
    for (Py_ssize_t i = 0; i < count; i++) {
        Py_DECREF(loads[i]);
    }
}

/* The entry at `index`, no longer in the list; its references are the caller's. */
static Entry
take_out(Compiled *self, Py_ssize_t index)
{
    Entry gone = self->entries[index];
    self->count--;
    memmove(self->entries + index, self->entries + index + 1, (self->count - index) * sizeof(Entry));
    return gone;
}

static void
move_to_front(Compiled *self, Py_ssize_t index)
{
    Entry hit = self->entries[index];
    memmove(self->entries + 1, self->entries, index * sizeof(Entry));
    self->entries[0] = hit;
}

/* Where `program` is now: a careful run may have let other code change the list. */
static Py_ssize_t
position(const Compiled *self, const Program *program)
{
    for (Py_ssize_t i = 0; i < self->count; i++) {
        if (self->entries[i].program == program) {
            return i;
        }
    }
    return -1;
}

/* Runs one entry: 1 and a result (NULL on error), or 0 for no hit. */
static int
try_entry(Compiled *self, Py_ssize_t index, PyObject *const *args, Py_ssize_t nargs, PyObject *kwnames, PyObject **result)
{
    Program *program = self->entries[index].program;
    PyObject *function = self->entries[index].function;
    PyObject *few[FEW_LOADS + 1];
    PyObject **loads = few;
    *result = NULL;
    if (program->load_count > FEW_LOADS) {
        loads = PyMem_Malloc((program->load_count + 1) * sizeof(PyObject *));
        if (loads == NULL) {
            PyErr_NoMemory();
            return 1;
        }
    }
    Py_ssize_t count = program->load_count;
    Py_INCREF(program);
    Py_INCREF(function);
    bool borrow = may_borrow(program, function);
    int32_t row = program_run(program, args, nargs, kwnames, loads + 1, &borrow);
    int hit = row == HIT;
    if (!hit && PyErr_Occurred()) {
        hit = 1; /* interrupted */
    }
    else if (program->twin != NULL && program_compare(program, args, nargs, kwnames, row) < 0) {
        drop_loads(loads + 1, hit && !borrow ? count : 0);
        hit = 1;
    }
    else if (hit) {
        Py_ssize_t now = index == 0 || self->latest != program ? 0 : position(self, program);
        if (now > 0) {
            move_to_front(self, now);
        }
        self->latest = program;
        *result = PyObject_Vectorcall(function, loads + 1, (size_t)count | PY_VECTORCALL_ARGUMENTS_OFFSET, NULL);
        drop_loads(loads + 1, borrow ? 0 : count);
    }
    Py_DECREF(function);
    Py_DECREF(program);
    if (loads != few) {
        PyMem_Free(loads);
    }
    return hit;
}

/* Keyword arguments as a dict, None if there are none; new reference. */
static PyObject *
keywords(PyObject *const *values, PyObject *kwnames)
{
    if (kwnames == NULL || PyTuple_GET_SIZE(kwnames) == 0) {
        return Py_NewRef(Py_None);
    }
    PyObject *dict = PyDict_New();
    for (Py_ssize_t i = 0; dict != NULL && i < PyTuple_GET_SIZE(kwnames); i++) {
        if (PyDict_SetItem(dict, PyTuple_GET_ITEM(kwnames, i), values[i]) < 0) {
            Py_CLEAR(dict);
        }
    }
    return dict;
}

static PyObject *
call_miss(Compiled *self, PyObject *const *args, Py_ssize_t nargs, PyObject *kwnames)
{
    PyObject *positional = PyTuple_New(nargs);
    PyObject *named = positional == NULL ? NULL : keywords(args + nargs, kwnames);
    if (named == NULL) {
        Py_XDECREF(positional);
        return NULL;
    }
    for (Py_ssize_t i = 0; i < nargs; i++) {
        PyTuple_SET_ITEM(positional, i, Py_NewRef(args[i]));
    }
    PyObject *miss = Py_NewRef(self->miss);
    PyObject *result = PyObject_CallFunctionObjArgs(miss, positional, named, NULL);
    Py_DECREF(miss);
    Py_DECREF(positional);
    Py_DECREF(named);
    return result;
}

/* The function itself, without a look at the entries; what stands for frames of a code object has none. */
static PyObject *
call_function(Compiled *self, PyObject *const *args, Py_ssize_t nargs, PyObject *kwnames)
{
    if (!PyCallable_Check(self->function)) {
        return call_miss(self, args, nargs, kwnames);
    }
    PyObject *function = Py_NewRef(self->function);
    PyObject *result = PyObject_Vectorcall(function, args, nargs, kwnames);
    Py_DECREF(function);
    return result;
}

static Py_ssize_t
find_expired(const Compiled *self)
{
    for (Py_ssize_t i = 0; i < self->count; i++) {
        if (self->entries[i].program->npos == EXPIRED) {
            return i;
        }
    }
    return -1;
}

/* Drops entries whose guarded objects died; each time the list is looked through anew, as dropping one may run code.
   False with an exception: an interruption came meanwhile. */
static bool
sweep(Compiled *self)
{
    self->deaths = mortal_deaths();
    Py_ssize_t at = find_expired(self);
    if (at < 0) {
        return true;
    }
    for (; at >= 0; at = find_expired(self)) {
        Entry gone = take_out(self, at);
        Py_DECREF(gone.program);
        Py_DECREF(gone.function);
    }
    if (self->swept == NULL || self->swept == Py_None) {
        return true;
    }
    PyObject *result = PyObject_CallNoArgs(self->swept);
    if (result == NULL) {
        if (!PyErr_ExceptionMatches(PyExc_Exception)) {
            return false;
        }
        PyErr_WriteUnraisable((PyObject *)self);
    }
    Py_XDECREF(result);
    return true;
}

static bool
tell_change(void)
{
    watched.seen = *watched.tag;
    PyObject *changed = Py_NewRef(watched.changed); /* it may watch another dict, with another function */
    PyObject *result = PyObject_CallNoArgs(changed);
    Py_DECREF(changed);
    if (result == NULL) {
        watched.seen = 0; /* no tag: the next call looks again, as an interruption may have kept this one from it */
        return false;
    }
    Py_DECREF(result);
    return true;
}

/* One entry's result, which may be a Tail. */
PyObject *
compiled_enter(PyObject *compiled, PyObject *const *args, Py_ssize_t nargs, PyObject *kwnames)
{
    Compiled *self = (Compiled *)compiled;
    PyObject *result;
    if (__builtin_expect(*watched.tag != watched.seen, 0) && !tell_change()) {
        return NULL;
    }
    if (__builtin_expect(eager_only, 0)) {
        return call_function(self, args, nargs, kwnames);
    }
    if (__builtin_expect(self->deaths != mortal_deaths(), 0) && !sweep(self)) {
        return NULL;
    }
    for (Py_ssize_t i = 0; i < self->count; i++) {
        if (try_entry(self, i, args, nargs, kwnames, &result)) {
            return result;
        }
    }
    return call_miss(self, args, nargs, kwnames);
}

static PyObject *
compiled_vectorcall(PyObject *self, PyObject *const *args, size_t nargsf, PyObject *kwnames)
{
    PyObject *result = compiled_enter(self, args, PyVectorcall_NARGS(nargsf), kwnames);
    return result != NULL && !Py_IS_TYPE(result, &Tail_Type) ? result : tail_settle(result);
}

/* Copies what functools.wraps would, so that the object introduces itself as the function. */
static int
copy_identity(Compiled *self)
{
    static const char *const names[] = {"__module__", "__name__", "__qualname__", "__doc__", "__annotations__"};
    for (size_t i = 0; i < Py_ARRAY_LENGTH(names); i++) {
        PyObject *value = PyObject_GetAttrString(self->function, names[i]);
        if (value == NULL) {
            PyErr_Clear();
            continue;
        }
        int failed = PyDict_SetItemString(self->dict, names[i], value);
        Py_DECREF(value);
        if (failed) {
            return -1;
        }
    }
    PyObject *own = PyFunction_Check(self->function) ? ((PyFunctionObject *)self->function)->func_dict : NULL;
    if (own != NULL && PyDict_Merge(self->dict, own, 0) < 0) {
        return -1;
    }
    return PyDict_SetItemString(self->dict, "__wrapped__", self->function);
}

static PyObject *
compiled_new(PyTypeObject *type, PyObject *args, PyObject *kwargs)
{
    static char *names[] = {"function", "miss", "swept", NULL};
    PyObject *function, *miss, *swept = Py_None;
    if (!PyArg_ParseTupleAndKeywords(args, kwargs, "OO|O", names, &function, &miss, &swept)) {
        return NULL;
    }
    Compiled *self = (Compiled *)type->tp_alloc(type, 0);
    if (self == NULL) {
        return NULL;
    }
    self->vectorcall = compiled_vectorcall;
    self->function = Py_NewRef(function);
    self->miss = Py_NewRef(miss);
    self->swept = Py_NewRef(swept);
    self->deaths = mortal_deaths();
    self->dict = PyDict_New();
    if (self->dict == NULL || copy_identity(self) < 0) {
        Py_DECREF(self);
        return NULL;
    }
    return (PyObject *)self;
}

static int
compiled_traverse(Compiled *self, visitproc visit, void *arg)
{
    for (Py_ssize_t i = 0; i < self->count; i++) {
        Py_VISIT(self->entries[i].program);
        Py_VISIT(self->entries[i].function);
    }
    Py_VISIT(self->function);
    Py_VISIT(self->miss);
    Py_VISIT(self->swept);
    Py_VISIT(self->dict);
    return 0;
}

/* Empties the list first: dropping an entry may call this object again. */
static void
drop_entries(Compiled *self)
{
    Entry *entries = self->entries;
    Py_ssize_t count = self->count;
    self->entries = NULL;
    self->count = self->capacity = 0;
    for (Py_ssize_t i = 0; i < count; i++) {
        Py_DECREF(entries[i].program);
        Py_DECREF(entries[i].function);
    }
    PyMem_Free(entries);
}

static int
compiled_clear(Compiled *self)
{
    drop_entries(self);
    Py_CLEAR(self->function);
    Py_CLEAR(self->miss);
    Py_CLEAR(self->swept);
    Py_CLEAR(self->dict);
    return 0;
}

static void
compiled_dealloc(Compiled *self)
{
    PyObject_GC_UnTrack(self);
    if (self->weakrefs != NULL) {
        PyObject_ClearWeakRefs((PyObject *)self);
    }
    compiled_clear(self);
    Py_TYPE(self)->tp_free(self);
}

static PyObject *
compiled_get(PyObject *self, PyObject *instance, PyObject *Py_UNUSED(owner))
{
    return instance == NULL || instance == Py_None ? Py_NewRef(self) : PyMethod_New(self, instance);
}

static PyObject *
compiled_repr(Compiled *self)
{
    return PyUnicode_FromFormat("<compiled %R, %zd entries>", self->function, self->count);
}

/* append(program, function): the new entry is tried first. */
static PyObject *
compiled_append(Compiled *self, PyObject *args)
{
    PyObject *program, *function;
    if (!PyArg_ParseTuple(args, "O!O", &Program_Type, &program, &function)) {
        return NULL;
    }
    if (self->count == self->capacity) {
        Py_ssize_t capacity = self->capacity ? 2 * self->capacity : 4;
        Entry *grown = PyMem_Realloc(self->entries, capacity * sizeof(Entry));
        if (grown == NULL) {
            return PyErr_NoMemory();
        }
        self->entries = grown;
        self->capacity = capacity;
    }
    self->entries[self->count++] = (Entry){(Program *)Py_NewRef(program), Py_NewRef(function)};
    move_to_front(self, self->count - 1);
    Py_RETURN_NONE;
}

static PyObject *
compiled_entries(Compiled *self, PyObject *Py_UNUSED(ignored))
{
    if (!sweep(self)) {
        return NULL;
    }
    PyObject *list = PyList_New(0);
    for (Py_ssize_t i = 0; list != NULL && i < self->count; i++) {
        PyObject *pair = PyTuple_Pack(2, self->entries[i].program, self->entries[i].function);
        if (pair == NULL || PyList_Append(list, pair) < 0) {
            Py_CLEAR(list);
        }
        Py_XDECREF(pair);
    }
    return list;
}

static PyObject *
compiled_clear_entries(Compiled *self, PyObject *Py_UNUSED(ignored))
{
    drop_entries(self);
    Py_RETURN_NONE;
}

static PyObject *
compiled_remove(Compiled *self, PyObject *number)
{
    Py_ssize_t index = PyNumber_AsSsize_t(number, PyExc_IndexError);
    if (index == -1 && PyErr_Occurred()) {
        return NULL;
    }
    if (index < 0 || index >= self->count) {
        PyErr_SetString(PyExc_IndexError, "no such entry");
        return NULL;
    }
    Entry gone = take_out(self, index);
    Py_DECREF(gone.program);
    Py_DECREF(gone.function);
    Py_RETURN_NONE;
}

/* As for functions: copies are the object itself, pickles name it. */
static PyObject *
compiled_reduce(PyObject *self, PyObject *Py_UNUSED(ignored))
{
    return PyObject_GetAttrString(self, "__qualname__");
}

static PyMethodDef compiled_methods[] = {
    {"append", (PyCFunction)compiled_append, METH_VARARGS, "append(program, function): adds an entry in front"},
    {"entries", (PyCFunction)compiled_entries, METH_NOARGS, "entries() -> [(program, function)], as they are tried"},
    {"clear", (PyCFunction)compiled_clear_entries, METH_NOARGS, "clear(): drops all entries"},
    {"remove", (PyCFunction)compiled_remove, METH_O, "remove(i): drops one entry"},
    {"__reduce__", compiled_reduce, METH_NOARGS, "its qualified name"},
    {NULL},
};

static PyMemberDef compiled_members[] = {
    {"miss", T_OBJECT, offsetof(Compiled, miss), READONLY, "called as miss(args, kwargs or None) when no entry hits"},
    {NULL},
};

static PyGetSetDef compiled_getset[] = {
    {"__dict__", PyObject_GenericGetDict, PyObject_GenericSetDict},
    {NULL},
};

PyTypeObject Compiled_Type = {
    PyVarObject_HEAD_INIT(NULL, 0)
    .tp_name = "stator._entry.Compiled",
    .tp_basicsize = sizeof(Compiled),
    .tp_flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_HAVE_GC | Py_TPFLAGS_HAVE_VECTORCALL | Py_TPFLAGS_METHOD_DESCRIPTOR,
    .tp_doc = "Compiled(function, miss, swept=None): a function that tries its compiled entries before it is captured anew",
    .tp_new = compiled_new,
    .tp_dealloc = (destructor)compiled_dealloc,
    .tp_traverse = (traverseproc)compiled_traverse,
    .tp_clear = (inquiry)compiled_clear,
    .tp_call = PyVectorcall_Call,
    .tp_vectorcall_offset = offsetof(Compiled, vectorcall),
    .tp_descr_get = compiled_get,
    .tp_repr = (reprfunc)compiled_repr,
    .tp_getattro = PyObject_GenericGetAttr,
    .tp_setattro = PyObject_GenericSetAttr,
    .tp_dictoffset = offsetof(Compiled, dict),
    .tp_weaklistoffset = offsetof(Compiled, weakrefs),
    .tp_methods = compiled_methods,
    .tp_members = compiled_members,
    .tp_getset = compiled_getset,
};

PyObject *
compiled_set_eager_only(PyObject *Py_UNUSED(module), PyObject *flag)
{
    int value = PyObject_IsTrue(flag);
    if (value < 0) {
        return NULL;
    }
    eager_only = value;
    Py_RETURN_NONE;
}

PyObject *
compiled_watch(PyObject *Py_UNUSED(module), PyObject *const *args, Py_ssize_t nargs)
{
    if (nargs != 2 || !PyDict_Check(args[0]) || !PyCallable_Check(args[1])) {
        PyErr_SetString(PyExc_TypeError, "watch(dict, changed) takes a dict and a callable");
        return NULL;
    }
    watched.tag = dict_tag_place(args[0]);
    watched.seen = *watched.tag;
    PyObject *dict = watched.dict, *changed = watched.changed;
    watched.dict = Py_NewRef(args[0]);
    watched.changed = Py_NewRef(args[1]);
    Py_XDECREF(dict);
    Py_XDECREF(changed);
    Py_RETURN_NONE;
}
