/* What iterators over dicts, sets and deques will give, read without advancing them. */
#include "entry.h"

static bool dict_layout_known, deque_layout_known;
static PyTypeObject *deque_type, *deque_iterator, *deque_reverse_iterator;

/* What an iterator over a dict makes of an item; new reference. */
static PyObject *
dict_element(PyObject *iterator, PyObject *key, PyObject *value)
{
    if (Py_IS_TYPE(iterator, &PyDictIterItem_Type)) {
        return PyTuple_Pack(2, key, value);
    }
    return Py_NewRef(Py_IS_TYPE(iterator, &PyDictIterKey_Type) ? key : value);
}

/* What is left of an iterator over a dict, found as it does itself; an error if its dict has changed. */
static PyObject *
read_dict(PyObject *iterator, Py_ssize_t start)
{
    const DictIterator *at = (DictIterator *)iterator;
    if (at->dict == NULL) {
        return PyTuple_New(0);
    }
    Py_ssize_t left = at->left - start, most = upcoming_size(start), position = at->position;
    Py_ssize_t size = left < 0 ? 0 : left < most ? left : most, skipped = left < 0 ? at->left : start;
    PyObject *key, *value, *found = PyTuple_New(size);
    bool sound = at->used == PyDict_GET_SIZE(at->dict);
    for (Py_ssize_t i = -skipped; found != NULL && sound && i < size; i++) {
        sound = PyDict_Next(at->dict, &position, &key, &value);
        PyObject *element = sound && i >= 0 ? dict_element(iterator, key, value) : NULL;
        if (sound && i >= 0) {
            if (element == NULL) {
                Py_CLEAR(found);
                break;
            }
            PyTuple_SET_ITEM(found, i, element);
        }
    }
    if (found != NULL && (!sound || (size == left && PyDict_Next(at->dict, &position, &key, &value)))) {
        PyErr_SetString(PyExc_RuntimeError, "a dict that changed under its iterator");
        Py_CLEAR(found);
    }
    return found;
}

static bool
is_forward_dict_iterator(PyTypeObject *type)
{
    return type == &PyDictIterKey_Type || type == &PyDictIterValue_Type || type == &PyDictIterItem_Type;
}

static bool
is_reverse_dict_iterator(PyTypeObject *type)
{
    return type == &PyDictRevIterKey_Type || type == &PyDictRevIterValue_Type || type == &PyDictRevIterItem_Type;
}

/* An iterator over an OrderedDict looks its keys up: an error if that may run code of the program. */
static int
note_odd_keys(PyObject *object, void *Py_UNUSED(arg))
{
    PyObject *key, *value;
    Py_ssize_t position = 0;
    while (PyODict_Check(object) && PyDict_Next(object, &position, &key, &value)) {
        if (!PyUnicode_CheckExact(key) && !PyLong_CheckExact(key) && !PyBytes_CheckExact(key) && key != Py_None
            && !PyBool_Check(key)) {
            PyErr_SetString(PyExc_TypeError, "an OrderedDict of keys of other types");
            return -1;
        }
    }
    return 0;
}

/* Iterators over deques, forwards or backwards; an error if the deque has changed, also at their end. */
static PyObject *
read_deque(PyObject *iterator, Py_ssize_t start)
{
    const DequeIterator *at = (DequeIterator *)iterator;
    if (!deque_layout_known || at->state != ((Deque *)at->deque)->state) {
        PyErr_SetString(PyExc_RuntimeError, "a deque that changed under its iterator");
        return NULL;
    }
    Py_ssize_t left = at->left - start, most = upcoming_size(start), whole = Py_SIZE(at->deque);
    PyObject *found = PyTuple_New(left < 0 ? 0 : left < most ? left : most);
    for (Py_ssize_t i = 0; found != NULL && i < PyTuple_GET_SIZE(found); i++) {
        Py_ssize_t place = Py_IS_TYPE(iterator, deque_iterator) ? whole - left + i : left - 1 - i;
        PyObject *item = deque_type->tp_as_sequence->sq_item(at->deque, place);
        if (item == NULL) {
            Py_CLEAR(found);
            break;
        }
        PyTuple_SET_ITEM(found, i, item);
    }
    return found;
}

/* Iterators over dicts and sets list what is left of them. */
static PyObject *
read_rest(PyObject *iterator, Py_ssize_t start)
{
    if (dict_layout_known && is_forward_dict_iterator(Py_TYPE(iterator))) {
        return read_dict(iterator, start);
    }
    if (Py_IS_TYPE(iterator, &PyODictIter_Type) && PyODictIter_Type.tp_traverse(iterator, note_odd_keys, NULL) < 0) {
        return NULL;
    }
    PyObject *state = iterator_state(iterator), *found = NULL;
    if (state != NULL) {
        PyObject *rest = PyTuple_GET_ITEM(PyTuple_GET_ITEM(state, 1), 0);
        PyObject *part = PyList_GetSlice(rest, start, start + upcoming_size(start));
        found = part == NULL ? NULL : PyList_AsTuple(part);
        Py_XDECREF(part);
        Py_DECREF(state);
    }
    return found;
}

bool
is_deque(PyObject *object)
{
    return PyObject_TypeCheck(object, deque_type);
}

bool
keyed_known(PyTypeObject *type)
{
    return is_forward_dict_iterator(type) || is_reverse_dict_iterator(type) || type == &PySetIter_Type
           || type == &PyODictIter_Type || type == deque_iterator || type == deque_reverse_iterator;
}

/* New reference to a tuple: see `window` in upcoming.c. */
PyObject *
keyed_window(PyObject *iterator, Py_ssize_t start)
{
    PyTypeObject *type = Py_TYPE(iterator);
    return type == deque_iterator || type == deque_reverse_iterator ? read_deque(iterator, start) : read_rest(iterator, start);
}

/* The dict of an iterator of the commonest kinds, which holds nothing else; borrowed, NULL for all others. */
PyObject *
keyed_dict(PyObject *iterator)
{
    return dict_layout_known && is_forward_dict_iterator(Py_TYPE(iterator)) ? ((DictIterator *)iterator)->dict : NULL;
}

static bool
is_dict_iterator_known(PyObject *iterator, PyObject *dict)
{
    const DictIterator *at = (DictIterator *)iterator;
    return Py_TYPE(iterator)->tp_basicsize == sizeof(DictIterator) && at->dict == dict && at->used == 3 && at->position == 2
           && at->left == 1;
}

/* The state of a deque counts what was put in and taken out: once more than its iterator remembers. */
static bool
is_deque_iterator_known(PyObject *iterator, PyObject *deque)
{
    const DequeIterator *at = (DequeIterator *)iterator;
    if (Py_TYPE(iterator)->tp_basicsize != sizeof(DequeIterator) || at->deque != deque || at->left != 1
        || Py_TYPE(deque)->tp_basicsize < (Py_ssize_t)sizeof(Deque) || at->state != ((Deque *)deque)->state) {
        return false;
    }
    PyObject *done = PyObject_CallMethod(deque, "append", "i", 4);
    bool known = done != NULL && ((Deque *)deque)->state == at->state + 1;
    Py_XDECREF(done);
    return known;
}

/* Whether iterators look as expected: tried on one of each kind. */
int
keyed_init(void)
{
    PyObject *module = PyImport_ImportModule("collections");
    PyObject *dict = Py_BuildValue("{s:i,s:i,s:i}", "a", 1, "b", 2, "c", 3);
    PyObject *deque = module == NULL ? NULL : PyObject_CallMethod(module, "deque", "((iii))", 1, 2, 3);
    PyObject *dicts = tried_iterator(dict), *deques = deque == NULL ? NULL : tried_iterator(deque);
    PyObject *back = deques == NULL ? NULL : PyObject_CallMethod(deque, "__reversed__", NULL);
    bool made = dicts != NULL && back != NULL;
    if (made) {
        deque_type = Py_TYPE(deque);
        deque_iterator = Py_TYPE(deques);
        deque_reverse_iterator = Py_TYPE(back);
        dict_layout_known = is_dict_iterator_known(dicts, dict);
        deque_layout_known = is_deque_iterator_known(deques, deque);
        made = !PyErr_Occurred();
    }
    PyObject *all[] = {module, dict, deque, dicts, deques, back};
    for (size_t i = 0; i < Py_ARRAY_LENGTH(all); i++) {
        Py_XDECREF(all[i]);
    }
    return made ? 0 : -1;
}
