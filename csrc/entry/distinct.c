/* Pairwise different pointers: a table over the slots that rarely change, probed with the others. */
#include "entry.h"

struct Distinct {
    int32_t fixed_count, free_count;
    int32_t *fixed, *free;       /* slots */
    PyObject **last;             /* pointers of the fixed slots the table was built from; compared, never followed */
    PyObject **table;
    size_t mask;
    const Scratch *scratch;      /* where and at which of its changes the fixed slots were seen last */
    uint64_t changes;
    bool pinned;                 /* fixed slots change only when the scratch counts a change */
    bool built;
};

static int
copy_slots(PyObject *tuple, int32_t slots, int32_t *out)
{
    for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(tuple); i++) {
        long slot = PyLong_AsLong(PyTuple_GET_ITEM(tuple, i));
        if (slot < 0 || slot >= slots) {
            PyErr_SetString(PyExc_ValueError, "no such slot");
            return -1;
        }
        out[i] = (int32_t)slot;
    }
    return 0;
}

void
distinct_free(Distinct *distinct)
{
    PyMem_Free(distinct->fixed);
    PyMem_Free(distinct->free);
    PyMem_Free(distinct->last);
    PyMem_Free(distinct->table);
    PyMem_Free(distinct);
}

/* `key` is (slots that rarely change, slots that change with every call, whether the first are all pinned). */
Distinct *
distinct_new(PyObject *key, int32_t slots)
{
    PyObject *fixed, *free;
    int pinned;
    if (!PyArg_ParseTuple(key, "O!O!p", &PyTuple_Type, &fixed, &PyTuple_Type, &free, &pinned)) {
        return NULL;
    }
    Distinct *distinct = PyMem_Calloc(1, sizeof(Distinct));
    if (distinct == NULL) {
        PyErr_NoMemory();
        return NULL;
    }
    distinct->fixed_count = (int32_t)PyTuple_GET_SIZE(fixed);
    distinct->free_count = (int32_t)PyTuple_GET_SIZE(free);
    distinct->pinned = pinned;
    size_t size = 8;
    while (size < 2 * (size_t)(distinct->fixed_count + distinct->free_count)) {
        size *= 2;
    }
    distinct->mask = size - 1;
    distinct->fixed = PyMem_Calloc(distinct->fixed_count + 1, sizeof(int32_t));
    distinct->free = PyMem_Calloc(distinct->free_count + 1, sizeof(int32_t));
    distinct->last = PyMem_Calloc(distinct->fixed_count + 1, sizeof(PyObject *));
    distinct->table = PyMem_Calloc(size, sizeof(PyObject *));
    if (distinct->fixed == NULL || distinct->free == NULL || distinct->last == NULL || distinct->table == NULL) {
        PyErr_NoMemory();
    }
    if (PyErr_Occurred() || copy_slots(fixed, slots, distinct->fixed) < 0
        || copy_slots(free, slots, distinct->free) < 0) {
        distinct_free(distinct);
        return NULL;
    }
    return distinct;
}

/* Where `pointer` is in the table, or the empty place where it belongs. */
static inline PyObject **
place(const Distinct *distinct, PyObject *pointer)
{
    size_t at = ((uintptr_t)pointer >> 4) * 0x9E3779B97F4A7C15u >> 20;
    for (at &= distinct->mask;; at = (at + 1) & distinct->mask) {
        PyObject **found = &distinct->table[at];
        if (*found == NULL || *found == pointer) {
            return found;
        }
    }
}

static bool
rebuild(Distinct *distinct, PyObject *const *values)
{
    distinct->built = false;
    memset(distinct->table, 0, (distinct->mask + 1) * sizeof(PyObject *));
    for (int32_t i = 0; i < distinct->fixed_count; i++) {
        PyObject *pointer = values[distinct->fixed[i]];
        PyObject **found = place(distinct, pointer);
        if (*found != NULL) {
            return false;
        }
        *found = distinct->last[i] = pointer;
    }
    distinct->built = true;
    return true;
}

/* Only pointer values are compared, so a table built from equal pointers is as good as a new one. */
static bool
fixed_distinct(Distinct *distinct, const Scratch *scratch)
{
    if (distinct->built && distinct->pinned && distinct->scratch == scratch && distinct->changes == scratch->changes) {
        return true;
    }
    bool known = distinct->built;
    for (int32_t i = 0; known && i < distinct->fixed_count; i++) {
        known = scratch->values[distinct->fixed[i]] == distinct->last[i];
    }
    distinct->scratch = scratch;
    distinct->changes = scratch->changes;
    return known || rebuild(distinct, scratch->values);
}

bool
distinct_check(Distinct *distinct, const Scratch *scratch)
{
    PyObject *const *values = scratch->values;
    if (!fixed_distinct(distinct, scratch)) {
        return false;
    }
    for (int32_t i = 0; i < distinct->free_count; i++) {
        PyObject *pointer = values[distinct->free[i]];
        if (*place(distinct, pointer) != NULL) {
            return false;
        }
        for (int32_t j = 0; j < i; j++) {
            if (values[distinct->free[j]] == pointer) {
                return false;
            }
        }
    }
    return true;
}
