/* Tables of sets: where elements lie decides in what order they come out, also after later changes. */
#include "entry.h"

static bool
is_dummy(const setentry *entry)
{
    return entry->key != NULL && entry->hash == -1;
}

/* set_layout(set) -> bytes: which places of its table are free, taken or were taken once, and where pop begins. */
PyObject *
set_layout(PyObject *Py_UNUSED(module), PyObject *object)
{
    if (!PyAnySet_Check(object)) {
        PyErr_SetString(PyExc_TypeError, "set_layout takes a set");
        return NULL;
    }
    PySetObject *set = (PySetObject *)object;
    Py_ssize_t places = set->mask + 1, finger = set->finger & set->mask;
    PyObject *layout = PyBytes_FromStringAndSize(NULL, places + (Py_ssize_t)sizeof(finger));
    if (layout == NULL) {
        return NULL;
    }
    char *at = PyBytes_AS_STRING(layout);
    for (Py_ssize_t i = 0; i < places; i++) {
        at[i] = (char)(set->table[i].key == NULL ? 0 : is_dummy(&set->table[i]) ? 2 : 1);
    }
    memcpy(at + places, &finger, sizeof(finger));
    return layout;
}

/* The table of a set and what it holds are dropped; the set itself is in a new state already. */
static void
drop_table(setentry *table, Py_ssize_t places, bool is_own)
{
    for (Py_ssize_t i = 0; i < places; i++) {
        if (table[i].key != NULL && !is_dummy(&table[i])) {
            Py_DECREF(table[i].key);
        }
    }
    if (is_own) {
        PyMem_Free(table);
    }
}

/* set_like(target, source[, items]): the set target holds at the same places what source holds, or in their order the
   items, which have the same hashes. A frozenset must be one that nobody has seen yet. */
PyObject *
set_like(PyObject *Py_UNUSED(module), PyObject *const *args, Py_ssize_t nargs)
{
    PyObject *items = nargs == 3 ? args[2] : NULL;
    if (nargs < 2 || nargs > 3 || !PyAnySet_Check(args[0]) || !PyAnySet_Check(args[1])
        || (items != NULL && (!PyList_Check(items) || PyList_GET_SIZE(items) != PySet_GET_SIZE(args[1])))) {
        PyErr_SetString(PyExc_TypeError, "set_like(target, source[, items])");
        return NULL;
    }
    PySetObject *target = (PySetObject *)args[0], *source = (PySetObject *)args[1];
    if (target == source) {
        Py_RETURN_NONE;
    }
    Py_ssize_t places = source->mask + 1, before = target->mask + 1;
    bool small = source->table == source->smalltable, was_small = target->table == target->smalltable;
    setentry *table = small ? target->smalltable : PyMem_New(setentry, places);
    if (table == NULL) {
        return PyErr_NoMemory();
    }
    setentry kept[PySet_MINSIZE], *old = target->table;
    if (was_small) {
        memcpy(kept, target->smalltable, sizeof(kept));
        old = kept;
    }
    memcpy(table, source->table, (size_t)places * sizeof(setentry));
    for (Py_ssize_t i = 0, taken = 0; i < places; i++) {
        if (table[i].key != NULL && !is_dummy(&table[i])) {
            if (items != NULL) {
                table[i].key = PyList_GET_ITEM(items, taken++);
            }
            Py_INCREF(table[i].key);
        }
    }
    target->table = table;
    target->mask = source->mask;
    target->fill = source->fill;
    target->used = source->used;
    target->finger = source->finger;
    drop_table(old, before, !was_small);
    Py_RETURN_NONE;
}
