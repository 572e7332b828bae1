/* Loads that may make a new reference: C descriptors, iteration order, sequence items, parts of C objects. */
#include "entry.h"
#include <structmember.h>

/* Takes over a new reference; it lives until the run is released. */
static PyObject *
keep(PyObject *value, Scratch *scratch)
{
    if (value == NULL) {
        PyErr_Clear();
        return NULL;
    }
    scratch->owned[scratch->owned_count++] = value;
    return value;
}

/* Attributes of plain functions are read from the struct: their getters raise audit events. */
static PyObject *
function_field(PyObject *object, PyObject *name)
{
    PyFunctionObject *function = (PyFunctionObject *)object;
    PyObject *value = NULL;
    if (PyUnicode_CompareWithASCIIString(name, "__defaults__") == 0) {
        value = function->func_defaults;
    }
    else if (PyUnicode_CompareWithASCIIString(name, "__kwdefaults__") == 0) {
        value = function->func_kwdefaults;
    }
    else if (PyUnicode_CompareWithASCIIString(name, "__code__") == 0) {
        return function->func_code;
    }
    else {
        return NULL;
    }
    return value == NULL ? Py_None : value;
}

/* A slot or another object member: the pointer itself, borrowed. */
static PyObject *
member_value(PyObject *object, PyMemberDef *member, Scratch *scratch)
{
    if (member->type != T_OBJECT && member->type != T_OBJECT_EX) {
        return keep(PyMember_GetOne((char *)object, member), scratch);
    }
    PyObject *value = *(PyObject **)((char *)object + member->offset);
    if (value == NULL && member->type == T_OBJECT) {
        value = Py_None;
    }
    return value;
}

/* True if binding this class attribute runs C code only. */
static bool
binds_in_c(PyObject *attribute)
{
    PyTypeObject *type = Py_TYPE(attribute);
    return type->tp_descr_get == NULL || type == &PyGetSetDescr_Type || type == &PyMethodDescr_Type
           || type == &PyWrapperDescr_Type || type == &PyClassMethodDescr_Type || type == &PyFunction_Type
           || type == &PyMemberDescr_Type || type == &PyStaticMethod_Type;
}

/* Plain getattr for types whose own look-up is C and finds something that binds in C. */
static PyObject *
general_attribute(PyObject *object, PyObject *name, Scratch *scratch)
{
    PyTypeObject *type = Py_TYPE(object);
    if (type->tp_getattro == PyType_Type.tp_getattro) {
        PyObject *own = _PyType_Lookup((PyTypeObject *)object, name);
        if (own != NULL && !binds_in_c(own)) {
            return NULL;
        }
    }
    else if (type->tp_getattro != PyObject_GenericGetAttr) {
        return NULL;
    }
    return keep(PyObject_GetAttr(object, name), scratch);
}

/* The value of a C descriptor of the type; anything that could run user code loads nothing. */
PyObject *
attribute_load(PyObject *object, PyObject *name, Scratch *scratch)
{
    PyObject *attribute = _PyType_Lookup(Py_TYPE(object), name);
    if (attribute == NULL) {
        return general_attribute(object, name, scratch);
    }
    if (Py_TYPE(attribute) == &PyMemberDescr_Type) {
        return member_value(object, ((PyMemberDescrObject *)attribute)->d_member, scratch);
    }
    if (Py_TYPE(object) == &PyFunction_Type) {
        PyObject *value = function_field(object, name);
        if (value != NULL) {
            return value;
        }
    }
    if (Py_TYPE(attribute) == &PyGetSetDescr_Type) {
        int before = function_modes_off();
        PyObject *value = Py_TYPE(attribute)->tp_descr_get(attribute, object, (PyObject *)Py_TYPE(object));
        function_modes_restore(before);
        return keep(value, scratch);
    }
    return binds_in_c(attribute) ? general_attribute(object, name, scratch) : NULL;
}

/* The elements of a set, or the keys of a dict, as a list in iteration order. */
PyObject *
order_load(PyObject *object, Scratch *scratch)
{
    if (PyAnySet_Check(object)) {
        PyObject *list = PyList_New(0);
        Py_ssize_t at = 0;
        PyObject *item;
        Py_hash_t hash;
        while (list != NULL && _PySet_NextEntry(object, &at, &item, &hash)) {
            if (PyList_Append(list, item) < 0) {
                Py_CLEAR(list);
            }
        }
        return keep(list, scratch);
    }
    if (!PyDict_Check(object)) {
        return NULL;
    }
    if (!PyODict_Check(object)) {
        return keep(PyDict_Keys(object), scratch);
    }
    PyObject *list = PyList_New(0);
    for (OrderedNode *node = ordered_first(object); list != NULL && node != NULL; node = node->next) {
        if (PyList_Append(list, node->key) < 0) {
            Py_CLEAR(list);
        }
    }
    return keep(list, scratch);
}

/* The nearest base whose slots no Python code can have replaced. */
static PyTypeObject *
immutable_base(PyTypeObject *type)
{
    while (type != NULL && !(type->tp_flags & Py_TPFLAGS_IMMUTABLETYPE)) {
        type = type->tp_base;
    }
    return type;
}

PyObject *
sequence_load(PyObject *object, Py_ssize_t index, Scratch *scratch)
{
    PyTypeObject *type = immutable_base(Py_TYPE(object));
    PySequenceMethods *methods = type == NULL ? NULL : type->tp_as_sequence;
    if (methods == NULL || methods->sq_item == NULL) {
        return NULL;
    }
    return keep(methods->sq_item(object, index), scratch);
}

PyObject *
part_load(PyObject *object, PyObject *callable, Scratch *scratch)
{
    return keep(PyObject_CallOneArg(callable, object), scratch);
}

/* The instance dict as an object, made if the values still live inline. */
PyObject *
dict_load(PyObject *object)
{
    PyObject **slot = PyType_Check(object) ? NULL : _PyObject_GetDictPtr(object);
    return slot == NULL ? NULL : *slot;
}

/* Length by the C type's own slots, -1 if it has none. */
Py_ssize_t
raw_length(PyObject *object)
{
    if (PyList_Check(object) || PyTuple_Check(object)) {
        return Py_SIZE(object);
    }
    if (PyDict_Check(object)) {
        return PyDict_GET_SIZE(object);
    }
    if (PyAnySet_Check(object)) {
        return PySet_GET_SIZE(object);
    }
    PyTypeObject *type = immutable_base(Py_TYPE(object));
    if (type != NULL && type->tp_as_sequence != NULL && type->tp_as_sequence->sq_length != NULL) {
        return type->tp_as_sequence->sq_length(object);
    }
    if (type != NULL && type->tp_as_mapping != NULL && type->tp_as_mapping->mp_length != NULL) {
        return type->tp_as_mapping->mp_length(object);
    }
    return -1;
}
