/* The instructions of a guard program, one function each; included by run.c only, so that all are inlined.
 *
 * A load returns a borrowed value or NULL (the guard fails); new references go to the scratch. */
#ifndef STATOR_ENTRY_OPS_H
#define STATOR_ENTRY_OPS_H

#include "tensor.h"

static inline PyObject *
load_ARG(const Run *run, const Instr *in)
{
    return run->args[in->arg];
}

static inline PyObject *
load_CLASSFIELDS(const Run *run, const Instr *in)
{
    PyObject *object = run->values[in->src];
    return PyType_Check(object) ? ((PyTypeObject *)object)->tp_dict : NULL;
}

static inline PyObject *
load_DICT(const Run *run, const Instr *in)
{
    return dict_load(run->values[in->src]);
}

/* The instance dict is in slot `arg`; NULL there means the instance has none, or keeps its values inline. */
static inline PyObject *
find_attribute(const Run *run, const Instr *in, Find *found)
{
    PyObject *dict = run->values[in->arg];
    if (dict != NULL) {
        return dict_find(dict, in->lookup->key, in->lookup->hash, &in->lookup->hint, found);
    }
    return inline_find(run->values[in->src], in->lookup->key, in->lookup->hash, &in->lookup->hint, found);
}

static inline PyObject *
load_ATTR(const Run *run, const Instr *in)
{
    Find found;
    return find_attribute(run, in, &found);
}

static inline PyObject *
load_KEY(const Run *run, const Instr *in)
{
    Find found;
    PyObject *dict = run->values[in->src];
    return PyDict_Check(dict) ? dict_find(dict, in->lookup->key, in->lookup->hash, &in->lookup->hint, &found) : NULL;
}

static inline PyObject *
load_CLASSITEM(const Run *run, const Instr *in)
{
    return load_KEY(run, in);
}

static inline PyObject *
load_GETATTR(const Run *run, const Instr *in)
{
    return attribute_load(run->values[in->src], in->key, run->scratch);
}

static inline PyObject *
load_TYPE(const Run *run, const Instr *in)
{
    return (PyObject *)Py_TYPE(run->values[in->src]);
}

static inline PyObject *
load_ITEM(const Run *run, const Instr *in)
{
    PyObject *object = run->values[in->src];
    bool tuple = PyTuple_Check(object);
    if (!tuple && !PyList_Check(object)) {
        return NULL;
    }
    Py_ssize_t size = Py_SIZE(object), at = in->arg < 0 ? size + in->arg : in->arg;
    if (at < 0 || at >= size) {
        return NULL;
    }
    return tuple ? PyTuple_GET_ITEM(object, at) : PyList_GET_ITEM(object, at);
}

static inline PyObject *
load_ORDER(const Run *run, const Instr *in)
{
    return order_load(run->values[in->src], run->scratch);
}

static inline PyObject *
load_SEQ(const Run *run, const Instr *in)
{
    return sequence_load(run->values[in->src], in->arg, run->scratch);
}

static inline PyObject *
load_CELL(const Run *run, const Instr *in)
{
    PyObject *cell = run->values[in->src];
    return PyCell_Check(cell) ? PyCell_GET(cell) : NULL;
}

static inline PyObject *
load_PART(const Run *run, const Instr *in)
{
    return part_load(run->values[in->src], in->key, run->scratch);
}

static inline PyObject *
load_UPCOMING(const Run *run, const Instr *in)
{
    return upcoming_load(run->values[in->src], in->arg, run->scratch);
}

static inline PyObject *
load_BENEATH(const Run *run, const Instr *in)
{
    return beneath_load(run->values[in->src], run->scratch);
}

static inline bool
check_TYPE_IS(const Run *run, const Instr *in)
{
    return (PyObject *)Py_TYPE(run->values[in->src]) == in->key;
}

static inline bool
check_TYPE_VERSION(const Run *run, const Instr *in)
{
    PyObject *object = run->values[in->src];
    return PyType_Check(object) && in->number != 0 && type_state((PyTypeObject *)object) == in->number;
}

static inline bool
check_IS(const Run *run, const Instr *in)
{
    return run->values[in->src] == in->key;
}

static inline bool
check_EQ(const Run *run, const Instr *in)
{
    return constant_same(run->values[in->src], in->key);
}

static inline bool
check_LEN(const Run *run, const Instr *in)
{
    return raw_length(run->values[in->src]) == in->number;
}

static inline bool
check_NOT_EMPTY(const Run *run, const Instr *in)
{
    return raw_length(run->values[in->src]) > 0;
}

static inline bool
check_HAS_ELEMENT(const Run *run, const Instr *in)
{
    PyObject *set = run->values[in->src];
    return PyAnySet_Check(set) && set_find(set, in->lookup->key, in->lookup->hash) == FIND_FOUND;
}

static inline bool
check_NO_ELEMENT(const Run *run, const Instr *in)
{
    PyObject *set = run->values[in->src];
    return PyAnySet_Check(set) && set_find(set, in->lookup->key, in->lookup->hash) == FIND_ABSENT;
}

static inline bool
ordered_keys_match(PyObject *ordered, PyObject *keys)
{
    OrderedNode *node = ordered_first(ordered);
    Py_ssize_t i = 0;
    for (; node != NULL && i < PyTuple_GET_SIZE(keys); node = node->next, i++) {
        if (!constant_same(node->key, PyTuple_GET_ITEM(keys, i))) {
            return false;
        }
    }
    return node == NULL && i == PyTuple_GET_SIZE(keys);
}

static inline bool
check_KEYS(const Run *run, const Instr *in)
{
    PyObject *dict = run->values[in->src], *key, *value;
    if (!PyDict_Check(dict) || PyDict_GET_SIZE(dict) != PyTuple_GET_SIZE(in->key)) {
        return false;
    }
    if (PyODict_Check(dict)) {
        return ordered_keys_match(dict, in->key);
    }
    Py_ssize_t at = 0, i = 0;
    while (PyDict_Next(dict, &at, &key, &value)) {
        if (!constant_same(key, PyTuple_GET_ITEM(in->key, i++))) {
            return false;
        }
    }
    return true;
}

static inline bool
check_NO_KEY(const Run *run, const Instr *in)
{
    Find found;
    PyObject *dict = run->values[in->src];
    if (!PyDict_Check(dict)) {
        return false;
    }
    dict_find(dict, in->lookup->key, in->lookup->hash, &in->lookup->hint, &found);
    return found == FIND_ABSENT;
}

static inline bool
check_NO_ATTR(const Run *run, const Instr *in)
{
    Find found;
    find_attribute(run, in, &found);
    return found == FIND_ABSENT;
}

static inline bool
check_TENSOR(const Run *run, const Instr *in)
{
    return tensor_check(run->values[in->src], in->tensor);
}

static inline bool
check_CODE_IS(const Run *run, const Instr *in)
{
    PyObject *object = run->values[in->src];
    return PyFunction_Check(object) && PyFunction_GET_CODE(object) == in->key;
}

/* The hook dicts of one module lie in consecutive slots. */
static inline bool
check_HOOKS(const Run *run, const Instr *in)
{
    PyObject **dicts = run->values + in->src;
    for (int32_t i = 0; i < in->arg; i++) {
        if (!PyDict_Check(dicts[i]) || PyDict_GET_SIZE(dicts[i]) != 0) {
            return false;
        }
    }
    return true;
}

static inline bool
check_EMPTY_CELL(const Run *run, const Instr *in)
{
    PyObject *cell = run->values[in->src];
    return PyCell_Check(cell) && PyCell_GET(cell) == NULL;
}

static inline bool
check_SAME(const Run *run, const Instr *in)
{
    return run->values[in->src] == run->values[in->arg];
}

/* Without key the value is a weak reference; with a weak reference as key the value is its target. */
static inline bool
check_ALIVE(const Run *run, const Instr *in)
{
    PyObject *object = run->values[in->src];
    PyObject *reference = in->key == Py_None ? object : in->key;
    if (!PyWeakref_Check(reference)) {
        return false;
    }
    PyObject *target = PyWeakref_GET_OBJECT(reference);
    return target != Py_None && (in->key == Py_None || target == object);
}

/* May have asked Python, so that objects may have died. */
static inline bool
check_STATE(const Run *run, const Instr *in)
{
    return state_check(in->state) && run->program->npos != EXPIRED;
}

static inline bool
check_DISTINCT(const Run *run, const Instr *in)
{
    return distinct_check(in->distinct, run->scratch);
}

static inline bool
check_RELATION(const Run *run, const Instr *in)
{
    return relation_holds(in->relation, run->values);
}

#endif
