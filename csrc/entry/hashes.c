/* Hashes that dicts and sets remember: containers of the same keys are filled without asking any key again. */
#include "entry.h"

/* Takes a key's place while a container looks for one: it has the key's hash and is equal to itself alone. */
typedef struct {
    PyObject_HEAD
    PyObject *key; /* owned */
    Py_hash_t hash;
} Substitute;

static Py_hash_t
substitute_hash(PyObject *self)
{
    return ((Substitute *)self)->hash;
}

static void
substitute_dealloc(PyObject *self)
{
    Py_XDECREF(((Substitute *)self)->key);
    PyObject_Free(self);
}

static PyTypeObject Substitute_Type = {
    PyVarObject_HEAD_INIT(NULL, 0)
    .tp_name = "stator._entry.Substitute",
    .tp_basicsize = sizeof(Substitute),
    .tp_flags = Py_TPFLAGS_DEFAULT,
    .tp_hash = substitute_hash,
    .tp_dealloc = substitute_dealloc,
};

int
hashes_init(void)
{
    return PyType_Ready(&Substitute_Type);
}

/* The key of a substitute goes where the substitute is; any other key stays. */
static inline void
settle(PyObject **place)
{
    PyObject *found = *place;
    if (found != NULL && Py_IS_TYPE(found, &Substitute_Type)) {
        *place = Py_NewRef(((Substitute *)found)->key);
        Py_DECREF(found);
    }
}

static void
settle_all(PyObject *target)
{
    if (PyAnySet_Check(target)) {
        PySetObject *set = (PySetObject *)target;
        for (Py_ssize_t i = 0; i <= set->mask; i++) {
            settle(&set->table[i].key);
        }
        return;
    }
    PyDictKeysObject *table = ((PyDictObject *)target)->ma_keys;
    if (!DK_IS_UNICODE(table)) {
        for (Py_ssize_t i = 0; i < table->dk_nentries; i++) {
            settle(&DK_ENTRIES(table)[i].me_key);
        }
        if (!PyObject_GC_IsTracked(target)) { /* a dict of substitutes and constants need not be */
            PyObject_GC_Track(target);
        }
    }
    if (PyODict_Check(target)) {
        for (OrderedNode *node = ordered_first(target); node != NULL; node = node->next) {
            settle(&node->key);
        }
    }
}

static int
put_one(PyObject *target, PyObject *key, PyObject *hash, PyObject *value)
{
    PyObject *put = Py_NewRef(key);
    if (hash != Py_None) {
        Substitute *substitute = PyObject_New(Substitute, &Substitute_Type);
        if (substitute == NULL) {
            Py_DECREF(put);
            return -1;
        }
        substitute->key = put;
        substitute->hash = PyLong_AsSsize_t(hash);
        put = (PyObject *)substitute;
    }
    int failed = PyErr_Occurred() ? -1
        : PyAnySet_Check(target)  ? PySet_Add(target, put)
        : PyODict_Check(target)   ? PyODict_SetItem(target, put, value)
                                  : PyDict_SetItem(target, put, value);
    Py_DECREF(put);
    return failed;
}

/* put_hashed(target, hashes, keys[, values]): adds the keys to a set or dict under these hashes; a key whose hash is
   None is asked. None of the others may be in the target already. */
PyObject *
put_hashed(PyObject *Py_UNUSED(module), PyObject *const *args, Py_ssize_t nargs)
{
    if (nargs < 3 || nargs > 4 || (nargs == 3 ? !PySet_Check(args[0]) : !PyDict_Check(args[0]))
        || !PyTuple_Check(args[1]) || !PyTuple_Check(args[2]) || (nargs == 4 && !PyTuple_Check(args[3]))
        || PyTuple_GET_SIZE(args[1]) != PyTuple_GET_SIZE(args[2])
        || (nargs == 4 && PyTuple_GET_SIZE(args[2]) != PyTuple_GET_SIZE(args[3]))) {
        PyErr_SetString(PyExc_TypeError, "put_hashed(target, hashes, keys[, values])");
        return NULL;
    }
    int failed = 0;
    for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(args[2]) && !failed; i++) {
        PyObject *value = nargs == 4 ? PyTuple_GET_ITEM(args[3], i) : NULL;
        failed = put_one(args[0], PyTuple_GET_ITEM(args[2], i), PyTuple_GET_ITEM(args[1], i), value);
    }
    settle_all(args[0]);
    return failed ? NULL : Py_NewRef(Py_None);
}

static int
note(PyObject *pairs, PyObject *key, Py_hash_t hash)
{
    PyObject *pair = Py_BuildValue("(On)", key, (Py_ssize_t)hash);
    int failed = pair == NULL || PyList_Append(pairs, pair) < 0;
    Py_XDECREF(pair);
    return failed ? -1 : 0;
}

/* stored_hashes(container) -> list of (key, hash it is stored under) of a dict or set in its order. */
PyObject *
stored_hashes(PyObject *Py_UNUSED(module), PyObject *object)
{
    if (!PyAnySet_Check(object) && !PyDict_Check(object)) {
        PyErr_SetString(PyExc_TypeError, "stored_hashes takes a dict or set");
        return NULL;
    }
    PyObject *pairs = PyList_New(0), *key, *value;
    Py_ssize_t position = 0;
    Py_hash_t hash;
    int failed = pairs == NULL;
    if (PyAnySet_Check(object)) {
        while (!failed && _PySet_NextEntry(object, &position, &key, &hash)) {
            failed = note(pairs, key, hash);
        }
    }
    else if (PyODict_Check(object)) {
        for (OrderedNode *node = ordered_first(object); !failed && node != NULL; node = node->next) {
            failed = note(pairs, node->key, node->hash);
        }
    }
    else {
        while (!failed && _PyDict_Next(object, &position, &key, &value, &hash)) {
            failed = note(pairs, key, hash);
        }
    }
    if (failed) {
        Py_CLEAR(pairs);
    }
    return pairs;
}

/* hash_numbers(container) -> tuple of these hashes. */
PyObject *
hash_numbers(PyObject *module, PyObject *object)
{
    PyObject *pairs = stored_hashes(module, object);
    PyObject *numbers = pairs == NULL ? NULL : PyTuple_New(PyList_GET_SIZE(pairs));
    for (Py_ssize_t i = 0; numbers != NULL && i < PyList_GET_SIZE(pairs); i++) {
        PyTuple_SET_ITEM(numbers, i, Py_NewRef(PyTuple_GET_ITEM(PyList_GET_ITEM(pairs, i), 1)));
    }
    Py_XDECREF(pairs);
    return numbers;
}
