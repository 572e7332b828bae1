/* Everything that depends on the layout of one CPython version: dict tables, version tags, instance dicts. */
#ifndef STATOR_ENTRY_VERSION_H
#define STATOR_ENTRY_VERSION_H

#define PY_SSIZE_T_CLEAN
#define Py_BUILD_CORE 1
#include <Python.h>
#include <internal/pycore_dict.h>
#include <internal/pycore_object.h>
#undef Py_BUILD_CORE

#if PY_VERSION_HEX < 0x030B0000 || PY_VERSION_HEX >= 0x030C0000
#error "stator._entry knows the layout of Python 3.11 only"
#endif

/* Iterators over ranges of machine numbers; over lists and tuples; over dicts; over deques. `upcoming.c` and `keyed.c` try each
   layout at import. */
typedef struct {
    PyObject_HEAD
    long index, start, step, len;
} RangeIterator;

typedef struct {
    PyObject_HEAD
    Py_ssize_t index;
    PyObject *sequence; /* NULL at the end */
} SequenceIterator;

typedef struct {
    PyObject_HEAD
    PyObject *dict;     /* NULL at the end */
    Py_ssize_t used;    /* size of the dict when the iterator was made */
    Py_ssize_t position;
    PyObject *result;
    Py_ssize_t left;
} DictIterator;

typedef struct {
    PyObject_VAR_HEAD void *left_block, *right_block;
    Py_ssize_t left_index, right_index;
    size_t state;
} Deque;

typedef struct {
    PyObject_HEAD void *block;
    Py_ssize_t index;
    PyObject *deque;
    size_t state;
    Py_ssize_t left;
} DequeIterator;

/* enumerate; `counting.c` tries the layout at import. */
typedef struct {
    PyObject_HEAD
    Py_ssize_t index; /* PY_SSIZE_T_MAX: a number of arbitrary size is elsewhere */
    PyObject *iterator, *result, *large, *one;
} EnumerateIterator;

typedef enum { FIND_FOUND, FIND_ABSENT, FIND_UNSAFE } Find;

/* Says whether two dict keys with equal hashes are equal: 1, 0, or -1 if only user code could tell. */
int key_equal(PyObject *stored, PyObject *key);

/* The tag is unique over all dicts and all their states, so an equal tag means the same, unchanged dict. */
static inline const uint64_t *
dict_tag_place(PyObject *dict)
{
    return &((PyDictObject *)dict)->ma_version_tag;
}

static inline uint64_t
dict_tag(PyObject *dict)
{
    return *dict_tag_place(dict);
}

static inline Py_ssize_t
table_slot(const PyDictKeysObject *table, size_t at)
{
    if (table->dk_log2_size < 8) {
        return ((const int8_t *)table->dk_indices)[at];
    }
    if (table->dk_log2_size < 16) {
        return ((const int16_t *)table->dk_indices)[at];
    }
    if (table->dk_log2_size < 32) {
        return ((const int32_t *)table->dk_indices)[at];
    }
    return (Py_ssize_t)((const int64_t *)table->dk_indices)[at];
}

static inline PyObject *
table_key(PyDictKeysObject *table, Py_ssize_t at)
{
    return DK_IS_UNICODE(table) ? DK_UNICODE_ENTRIES(table)[at].me_key : DK_ENTRIES(table)[at].me_key;
}

static inline Py_hash_t
table_hash(PyDictKeysObject *table, Py_ssize_t at)
{
    if (DK_IS_UNICODE(table)) {
        return ((PyASCIIObject *)DK_UNICODE_ENTRIES(table)[at].me_key)->hash;
    }
    return DK_ENTRIES(table)[at].me_hash;
}

/* Index of the entry of `key`; the hint (last index) is tried first, and no user code ever runs. */
static inline Find
table_find(PyDictKeysObject *table, PyObject *key, Py_hash_t hash, int32_t *hint)
{
    if (*hint < table->dk_nentries && table_key(table, *hint) == key) {
        return FIND_FOUND;
    }
    size_t mask = (size_t)DK_SIZE(table) - 1;
    size_t perturb = (size_t)hash;
    for (size_t at = (size_t)hash & mask;;) {
        Py_ssize_t index = table_slot(table, at);
        if (index == DKIX_EMPTY) {
            return FIND_ABSENT;
        }
        if (index >= 0 && table_hash(table, index) == hash) {
            int equal = key_equal(table_key(table, index), key);
            if (equal < 0) {
                return FIND_UNSAFE;
            }
            if (equal) {
                *hint = (int32_t)index;
                return FIND_FOUND;
            }
        }
        perturb >>= 5;
        at = (at * 5 + perturb + 1) & mask;
    }
}

/* Borrowed value of `key` in a dict, or NULL with *found telling absent from unsafe. */
static inline PyObject *
dict_find(PyObject *object, PyObject *key, Py_hash_t hash, int32_t *hint, Find *found)
{
    PyDictObject *dict = (PyDictObject *)object;
    PyDictKeysObject *table = dict->ma_keys;
    *found = table_find(table, key, hash, hint);
    if (*found != FIND_FOUND) {
        return NULL;
    }
    PyObject *value;
    if (dict->ma_values != NULL) {
        value = dict->ma_values->values[*hint];
    }
    else if (DK_IS_UNICODE(table)) {
        value = DK_UNICODE_ENTRIES(table)[*hint].me_value;
    }
    else {
        value = DK_ENTRIES(table)[*hint].me_value;
    }
    if (value == NULL) {
        *found = FIND_ABSENT;
    }
    return value;
}

/* Whether a set has an element, without running user code. */
static inline Find
set_find(PyObject *object, PyObject *key, Py_hash_t hash)
{
    enum { LINEAR_PROBES = 9 };
    PySetObject *set = (PySetObject *)object;
    size_t mask = (size_t)set->mask, perturb = (size_t)hash, at = (size_t)hash & mask;
    for (;;) {
        size_t last = at + LINEAR_PROBES <= mask ? at + LINEAR_PROBES : at;
        for (size_t i = at; i <= last; i++) {
            const setentry *entry = &set->table[i];
            if (entry->key == NULL) {
                return FIND_ABSENT;
            }
            if (entry->hash == hash && entry->key != _PySet_Dummy) {
                int equal = key_equal(entry->key, key);
                if (equal != 0) {
                    return equal < 0 ? FIND_UNSAFE : FIND_FOUND;
                }
            }
        }
        perturb >>= 5;
        at = (at * 5 + 1 + perturb) & mask;
    }
}

/* Where the pointer to the instance dict lies, or NULL if instances have none. */
static inline PyObject **
instance_dict_slot(PyObject *object)
{
    PyTypeObject *type = Py_TYPE(object);
    if (type->tp_flags & Py_TPFLAGS_MANAGED_DICT) {
        return _PyObject_ManagedDictPointer(object);
    }
    Py_ssize_t offset = type->tp_dictoffset;
    if (offset == 0) {
        return NULL;
    }
    if (offset < 0) {
        Py_ssize_t size = Py_SIZE(object);
        offset += (Py_ssize_t)_PyObject_VAR_SIZE(type, size < 0 ? -size : size);
    }
    return (PyObject **)((char *)object + offset);
}

/* The instance dict if it exists as an object (borrowed), else NULL. */
static inline PyObject *
instance_dict(PyObject *object)
{
    PyObject **slot = instance_dict_slot(object);
    return slot == NULL ? NULL : *slot;
}

/* Borrowed attribute of an instance whose values live inline, without making the dict. */
static inline PyObject *
inline_find(PyObject *object, PyObject *name, Py_hash_t hash, int32_t *hint, Find *found)
{
    *found = FIND_ABSENT;
    PyTypeObject *type = Py_TYPE(object);
    if (!(type->tp_flags & Py_TPFLAGS_MANAGED_DICT)) {
        return NULL;
    }
    PyDictValues *values = *_PyObject_ValuesPointer(object);
    PyDictKeysObject *table = ((PyHeapTypeObject *)type)->ht_cached_keys;
    if (values == NULL || table == NULL) {
        return NULL;
    }
    *found = table_find(table, name, hash, hint);
    PyObject *value = *found == FIND_FOUND ? values->values[*hint] : NULL;
    if (*found == FIND_FOUND && value == NULL) {
        *found = FIND_ABSENT;
    }
    return value;
}

/* An OrderedDict keeps its order in a list of its own, which can be walked without hashing keys. */
typedef struct OrderedNode {
    PyObject *key;
    Py_hash_t hash;
    struct OrderedNode *next, *previous;
} OrderedNode;

typedef struct {
    PyDictObject dict;
    OrderedNode *first, *last;
} OrderedHead;

static inline OrderedNode *
ordered_first(PyObject *ordered)
{
    return ((OrderedHead *)ordered)->first;
}

/* The version of a class's attributes and those of its bases, 0 if it has none now. */
static inline unsigned int
type_tag(PyTypeObject *type)
{
    return type->tp_flags & Py_TPFLAGS_VALID_VERSION_TAG ? type->tp_version_tag : 0;
}

static inline uint64_t
text_hash(PyObject *text)
{
    Py_hash_t known = ((PyASCIIObject *)text)->hash;
    return (uint64_t)(known != -1 ? known : PyUnicode_Type.tp_hash(text));
}

/* The same together with what a class is called, of which its version does not tell. */
static inline Py_ssize_t
type_state(PyTypeObject *type)
{
    Py_ssize_t version = type_tag(type);
    if (version != 0 && type->tp_flags & Py_TPFLAGS_HEAPTYPE) {
        const PyHeapTypeObject *made = (PyHeapTypeObject *)type;
        uint64_t names = text_hash(made->ht_name) * 31 + text_hash(made->ht_qualname);
        version |= (Py_ssize_t)((names ^ names >> 32) & 0x7fffffff) << 32;
    }
    return version;
}

#endif
