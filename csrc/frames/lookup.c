/* Raw look-ups that run no user code. */
#include "frames.h"

/* type_lookup(cls, name) -> (found, value) along the MRO; UNBOUND if absent. */
static PyObject *type_lookup(PyObject *module, PyObject *const *args, Py_ssize_t nargs) {
    if (nargs != 2 || !PyType_Check(args[0])) {
        PyErr_SetString(PyExc_TypeError, "type_lookup(cls, name)");
        return NULL;
    }
    PyObject *value = _PyType_Lookup((PyTypeObject *)args[0], args[1]);
    return Py_NewRef(value ? value : stator_unbound);
}

/* instance_dict(obj) -> the __dict__ slot's content, or None. */
static PyObject *instance_dict(PyObject *module, PyObject *obj) {
    PyObject **slot = _PyObject_GetDictPtr(obj);
    return Py_NewRef(slot && *slot ? *slot : Py_None);
}

/* attribute_count(obj) -> how many attributes the __dict__ slot holds, which is not made for that. */
static PyObject *attribute_count(PyObject *module, PyObject *obj) {
    PyObject **slot = _PyObject_GetDictPtr(obj);
    return PyLong_FromSsize_t(slot && *slot && PyDict_Check(*slot) ? PyDict_GET_SIZE(*slot) : 0);
}

/* class_dict(cls) -> the real dict behind cls.__dict__ (read only by agreement). */
static PyObject *class_dict(PyObject *module, PyObject *cls) {
    if (!PyType_Check(cls) || !((PyTypeObject *)cls)->tp_dict) {
        PyErr_SetString(PyExc_TypeError, "class_dict(cls)");
        return NULL;
    }
    return Py_NewRef(((PyTypeObject *)cls)->tp_dict);
}

static PyObject *is_heap_type(PyObject *module, PyObject *cls) {
    return PyBool_FromLong(PyType_Check(cls) && (((PyTypeObject *)cls)->tp_flags & Py_TPFLAGS_HEAPTYPE));
}

/* descriptor_kind(cls) -> bit 0: has tp_descr_get, bit 1: has tp_descr_set; of instances of cls. */
static PyObject *descriptor_kind(PyObject *module, PyObject *cls) {
    if (!PyType_Check(cls)) {
        PyErr_SetString(PyExc_TypeError, "descriptor_kind(cls)");
        return NULL;
    }
    PyTypeObject *type = (PyTypeObject *)cls;
    return PyLong_FromLong((type->tp_descr_get != NULL) | (type->tp_descr_set != NULL) << 1);
}

/* generic_access(cls) -> bit 0: tp_getattro is the generic one, bit 1: tp_setattro is. */
static PyObject *generic_access(PyObject *module, PyObject *cls) {
    if (!PyType_Check(cls)) {
        PyErr_SetString(PyExc_TypeError, "generic_access(cls)");
        return NULL;
    }
    PyTypeObject *type = (PyTypeObject *)cls;
    return PyLong_FromLong(stator_generic_read(type) | stator_generic_write(type) << 1);
}

static PyObject *cell_get(PyObject *module, PyObject *cell) {
    if (!PyCell_Check(cell)) {
        PyErr_SetString(PyExc_TypeError, "cell_get(cell)");
        return NULL;
    }
    PyObject *value = PyCell_GET(cell);
    return Py_NewRef(value ? value : stator_unbound);
}

static PyObject *cell_set(PyObject *module, PyObject *const *args, Py_ssize_t nargs) {
    if (nargs != 2 || !PyCell_Check(args[0])) {
        PyErr_SetString(PyExc_TypeError, "cell_set(cell, value)");
        return NULL;
    }
    PyObject *value = args[1] == stator_unbound ? NULL : args[1];
    PyObject *old = PyCell_GET(args[0]);
    Py_XINCREF(value);
    PyCell_SET(args[0], value);
    Py_XDECREF(old);
    Py_RETURN_NONE;
}

/* slot_get(member, obj) -> what the slot holds, UNBOUND if it is empty. */
static PyObject *slot_get(PyObject *module, PyObject *const *args, Py_ssize_t nargs) {
    if (nargs != 2 || !Py_IS_TYPE(args[0], &PyMemberDescr_Type)) {
        PyErr_SetString(PyExc_TypeError, "slot_get(member, obj)");
        return NULL;
    }
    PyObject *value = PyMemberDescr_Type.tp_descr_get(args[0], args[1], (PyObject *)Py_TYPE(args[1]));
    if (!value && PyErr_ExceptionMatches(PyExc_AttributeError)) {
        PyErr_Clear();
        value = Py_NewRef(stator_unbound);
    }
    return value;
}

/* filters_version() -> how often the filters of warnings have changed: what registries of shown warnings go by. */
static PyObject *
filters_version(PyObject *Py_UNUSED(module), PyObject *Py_UNUSED(ignored))
{
    return PyLong_FromLong(*filters_version_of(PyThreadState_Get()));
}

/* put_filters_version(number): they count as changed so many times. */
static PyObject *
put_filters_version(PyObject *Py_UNUSED(module), PyObject *number)
{
    long version = PyLong_AsLong(number);
    if (version == -1 && PyErr_Occurred()) {
        return NULL;
    }
    *filters_version_of(PyThreadState_Get()) = version;
    Py_RETURN_NONE;
}

PyMethodDef stator_lookup_methods[] = {
    {"filters_version", filters_version, METH_NOARGS, "filters_version() -> how often the filters of warnings have changed"},
    {"put_filters_version", put_filters_version, METH_O, "put_filters_version(number): the filters count as changed so many times"},
    {"type_lookup", (PyCFunction)(void (*)(void))type_lookup, METH_FASTCALL, "type_lookup(cls, name): UNBOUND if absent"},
    {"instance_dict", instance_dict, METH_O, "the instance's dict or None, without descriptors"},
    {"attribute_count", attribute_count, METH_O, "how many attributes an instance's dict holds"},
    {"class_dict", class_dict, METH_O, "the dict behind cls.__dict__"},
    {"is_heap_type", is_heap_type, METH_O, "whether the class was made at run time"},
    {"descriptor_kind", descriptor_kind, METH_O, "1: instances have __get__, 2: they have __set__ or __delete__"},
    {"generic_access", generic_access, METH_O, "1: generic attribute reads, 2: generic attribute writes"},
    {"slot_get", (PyCFunction)(void (*)(void))slot_get, METH_FASTCALL, "slot_get(member, obj): UNBOUND if empty"},
    {"cell_get", cell_get, METH_O, "cell contents, UNBOUND if empty"},
    {"cell_set", (PyCFunction)(void (*)(void))cell_set, METH_FASTCALL, "cell_set(cell, value)"},
    {NULL},
};
