/* Loads that may make a new reference: C descriptors, iteration order, sequence items, parts of C objects,
 * what iterators will give.
 *
 * While they make objects no collection may start, since it could run finalizers in the middle of a guard run. */
#include "entry.h"
#include <structmember.h>

static int paused; /* collections are switched off by a load alone */

#define WITHOUT_COLLECTION(expression)      \
    int collecting = PyGC_Disable();        \
    int was_paused = paused;                \
    paused |= collecting;                   \
    PyObject *value = (expression);         \
    paused = was_paused;                    \
    if (collecting) {                       \
        PyGC_Enable();                      \
    }

/* is_collecting(anything) -> what gc.isenabled() says outside of guards. */
PyObject *
is_collecting(PyObject *Py_UNUSED(module), PyObject *Py_UNUSED(ignored))
{
    return PyBool_FromLong(paused || PyGC_IsEnabled());
}

/* Takes over a new reference; it lives until the run is released. */
static PyObject *
keep(PyObject *value, Scratch *scratch)
{
    if (value == NULL) {
        forgive();
        return NULL;
    }
    scratch->owned[scratch->owned_count++] = value;
    return value;
}

static const struct { const char *name; size_t offset; } function_fields[] = {
    {"__globals__", offsetof(PyFunctionObject, func_globals)},
    {"__defaults__", offsetof(PyFunctionObject, func_defaults)},
    {"__kwdefaults__", offsetof(PyFunctionObject, func_kwdefaults)},
    {"__code__", offsetof(PyFunctionObject, func_code)},
    {"__closure__", offsetof(PyFunctionObject, func_closure)},
};
static PyObject *function_names[Py_ARRAY_LENGTH(function_fields)]; /* owned; interned, as names of programs mostly are */

static bool
is_function_field(PyObject *name, size_t field)
{
    if (function_names[field] == NULL) {
        function_names[field] = PyUnicode_InternFromString(function_fields[field].name);
        forgive();
    }
    return name == function_names[field]
           || (!PyUnicode_CHECK_INTERNED(name) && PyUnicode_CompareWithASCIIString(name, function_fields[field].name) == 0);
}

/* Attributes of plain functions are read from the struct: their getters raise audit events. Borrowed. */
static PyObject *
function_field(PyObject *object, PyObject *name)
{
    for (size_t i = 0; i < Py_ARRAY_LENGTH(function_fields); i++) {
        if (is_function_field(name, i)) {
            PyObject *value = *(PyObject **)((char *)object + function_fields[i].offset);
            return value == NULL ? Py_None : value;
        }
    }
    return NULL;
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
    WITHOUT_COLLECTION(PyObject_GetAttr(object, name));
    return keep(value, scratch);
}

/* The value of a C descriptor of the type; anything that could run user code loads nothing. */
PyObject *
attribute_load(PyObject *object, PyObject *name, Scratch *scratch)
{
    PyObject *field = Py_IS_TYPE(object, &PyFunction_Type) ? function_field(object, name) : NULL;
    if (field != NULL) {
        return field;
    }
    PyObject *attribute = _PyType_Lookup(Py_TYPE(object), name);
    if (attribute == NULL) {
        return general_attribute(object, name, scratch);
    }
    if (Py_TYPE(attribute) == &PyMemberDescr_Type) {
        return member_value(object, ((PyMemberDescrObject *)attribute)->d_member, scratch);
    }
    if (Py_TYPE(attribute) == &PyGetSetDescr_Type) {
        int before = function_modes_off();
        WITHOUT_COLLECTION(Py_TYPE(attribute)->tp_descr_get(attribute, object, (PyObject *)Py_TYPE(object)));
        function_modes_restore(before);
        return keep(value, scratch);
    }
    return binds_in_c(attribute) ? general_attribute(object, name, scratch) : NULL;
}

static PyObject *
set_elements(PyObject *set)
{
    PyObject *list = PyList_New(0), *item;
    Py_ssize_t at = 0;
    Py_hash_t hash;
    while (list != NULL && _PySet_NextEntry(set, &at, &item, &hash)) {
        if (PyList_Append(list, item) < 0) {
            Py_CLEAR(list);
        }
    }
    return list;
}

static PyObject *
ordered_keys(PyObject *ordered)
{
    PyObject *list = PyList_New(0);
    for (OrderedNode *node = ordered_first(ordered); list != NULL && node != NULL; node = node->next) {
        if (PyList_Append(list, node->key) < 0) {
            Py_CLEAR(list);
        }
    }
    return list;
}

/* The elements of a set, or the keys of a dict, as a list in iteration order. */
PyObject *
order_load(PyObject *object, Scratch *scratch)
{
    PyObject *(*list)(PyObject *) = PyAnySet_Check(object)    ? set_elements
                                    : PyODict_Check(object) ? ordered_keys
                                    : PyDict_Check(object)  ? PyDict_Keys
                                                            : NULL;
    if (list == NULL) {
        return NULL;
    }
    WITHOUT_COLLECTION(list(object));
    return keep(value, scratch);
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
    if (index < 0) {
        index += raw_length(object);
    }
    WITHOUT_COLLECTION(methods->sq_item(object, index));
    return keep(value, scratch);
}

PyObject *
part_load(PyObject *object, PyObject *callable, Scratch *scratch)
{
    WITHOUT_COLLECTION(PyObject_CallOneArg(callable, object));
    return keep(value, scratch);
}

PyObject *
upcoming_load(PyObject *object, Py_ssize_t start, Scratch *scratch)
{
    WITHOUT_COLLECTION(upcoming_from(object, start));
    return keep(value, scratch);
}

PyObject *
beneath_load(PyObject *object, Scratch *scratch)
{
    WITHOUT_COLLECTION(beneath(NULL, object));
    return keep(value, scratch);
}

/* The instance dict as an object, made if it does not exist yet. */
PyObject *
dict_load(PyObject *object)
{
    PyObject **slot = PyType_Check(object) ? NULL : _PyObject_GetDictPtr(object);
    if (slot != NULL && *slot == NULL) {
        *slot = PyDict_New();
        if (*slot == NULL) {
            PyErr_Clear();
        }
    }
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
