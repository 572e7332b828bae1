/* What a builtin iterator will give, read without advancing it; and what lies beneath it. No user code runs. */
#include "entry.h"

enum { WINDOW = 64 };

/* Windows start at 0, 1, 16, 64, 128, …: most programs look at the next element only, or at all of them. */
static Py_ssize_t
window_size(Py_ssize_t start)
{
    return start == 0 ? 1 : start == 1 ? 15 : start == 16 ? 48 : WINDOW;
}

typedef PyObject *(*Reader)(PyObject *iterator, Py_ssize_t start);

static PyObject *window(PyObject *iterator, Py_ssize_t start);

static bool range_layout_known, sequence_layout_known;
static PyTypeObject *ascii_iterator; /* of strings of ASCII characters; borrowed, it is static */

/* New reference to an item of a builtin sequence, NULL with an exception if it is another kind of sequence. */
static PyObject *
sequence_item(PyObject *sequence, Py_ssize_t at)
{
    if (PyList_Check(sequence)) {
        return Py_NewRef(PyList_GET_ITEM(sequence, at));
    }
    if (PyTuple_Check(sequence)) {
        return Py_NewRef(PyTuple_GET_ITEM(sequence, at));
    }
    return PySequence_GetItem(sequence, at);
}

static Py_ssize_t
sequence_size(PyObject *sequence)
{
    if (PyList_Check(sequence) || PyTuple_Check(sequence)) {
        return Py_SIZE(sequence);
    }
    if (PyUnicode_CheckExact(sequence) || PyBytes_CheckExact(sequence) || PyByteArray_CheckExact(sequence)
        || Py_IS_TYPE(sequence, &PyRange_Type)) {
        return PySequence_Size(sequence);
    }
    PyErr_SetString(PyExc_TypeError, "an iterator over a sequence of another kind");
    return -1;
}

/* At most `most` items of a sequence, forwards or backwards from `at`. New reference. */
static PyObject *
span(PyObject *sequence, Py_ssize_t at, Py_ssize_t step, Py_ssize_t most)
{
    Py_ssize_t size = sequence_size(sequence);
    if (size < 0) {
        return NULL;
    }
    Py_ssize_t left = at < 0 || at >= size ? 0 : step > 0 ? size - at : at + 1;
    PyObject *found = PyTuple_New(left < most ? left : most);
    for (Py_ssize_t i = 0; found != NULL && i < PyTuple_GET_SIZE(found); i++, at += step) {
        PyObject *item = sequence_item(sequence, at);
        if (item == NULL) {
            Py_CLEAR(found);
        }
        else {
            PyTuple_SET_ITEM(found, i, item);
        }
    }
    return found;
}

/* What `__reduce__` of a builtin iterator answers: a new reference to a tuple whose second item is a tuple too. */
PyObject *
iterator_state(PyObject *iterator)
{
    PyObject *state = PyObject_CallMethod(iterator, "__reduce__", NULL);
    if (state != NULL
        && (!PyTuple_Check(state) || PyTuple_GET_SIZE(state) < 2 || !PyTuple_Check(PyTuple_GET_ITEM(state, 1)))) {
        PyErr_SetString(PyExc_TypeError, "an iterator with an unknown state");
        Py_CLEAR(state);
    }
    return state;
}

/* Iterators that keep a sequence and a position; without a position they are at their end. */
static PyObject *
read_position(PyObject *iterator, Py_ssize_t start)
{
    if (sequence_layout_known && (Py_IS_TYPE(iterator, &PyListIter_Type) || Py_IS_TYPE(iterator, &PyTupleIter_Type))) {
        const SequenceIterator *at = (SequenceIterator *)iterator;
        return at->sequence == NULL ? PyTuple_New(0) : span(at->sequence, at->index + start, 1, window_size(start));
    }
    PyObject *state = iterator_state(iterator);
    if (state == NULL) {
        return NULL;
    }
    PyObject *found = NULL, *args = PyTuple_GET_ITEM(state, 1);
    if (PyTuple_GET_SIZE(state) == 2) {
        found = PyTuple_New(0);
    }
    else {
        Py_ssize_t at = PyLong_AsSsize_t(PyTuple_GET_ITEM(state, 2));
        PyObject *sequence = PyTuple_GET_ITEM(args, 0);
        if (at == -1 && PyErr_Occurred()) {
            /* too large */
        }
        else if (Py_IS_TYPE(iterator, &PyListRevIter_Type) || Py_IS_TYPE(iterator, &PyReversed_Type)) {
            Py_ssize_t size = sequence_size(sequence);
            found = size < 0 ? NULL : at >= size ? PyTuple_New(0) : span(sequence, at - start, -1, window_size(start));
        }
        else {
            found = span(sequence, at + start, 1, window_size(start));
        }
    }
    Py_DECREF(state);
    return found;
}

/* range: computed from its numbers. */
static PyObject *
read_range(PyObject *iterator, Py_ssize_t start)
{
    const RangeIterator *range = (RangeIterator *)iterator;
    if (!range_layout_known) {
        return read_position(iterator, start);
    }
    Py_ssize_t left = range->len - range->index - start, most = window_size(start);
    PyObject *found = PyTuple_New(left < 0 ? 0 : left < most ? left : most);
    for (Py_ssize_t i = 0; found != NULL && i < PyTuple_GET_SIZE(found); i++) {
        PyObject *number = PyLong_FromLong(range->start + (range->index + start + i) * range->step);
        if (number == NULL) {
            Py_CLEAR(found);
            break;
        }
        PyTuple_SET_ITEM(found, i, number);
    }
    return found;
}

/* An iterator over what `iterable` (a new reference) has behind its first two elements; NULL with an exception. */
PyObject *
tried_iterator(PyObject *iterable)
{
    PyObject *iterator = iterable == NULL ? NULL : PyObject_GetIter(iterable);
    for (int i = 0; iterator != NULL && i < 2; i++) {
        Py_XDECREF(PyIter_Next(iterator));
    }
    if (PyErr_Occurred()) {
        Py_CLEAR(iterator);
    }
    return iterator;
}

/* Whether iterators look as expected: tried on one of each kind. */
static int
learn_layouts(void)
{
    PyObject *range = PyObject_CallFunction((PyObject *)&PyRange_Type, "iii", 5, 50, 3);
    PyObject *list = Py_BuildValue("[iii]", 1, 2, 3), *tuple = Py_BuildValue("(iii)", 1, 2, 3);
    PyObject *ranges = tried_iterator(range), *lists = tried_iterator(list), *tuples = tried_iterator(tuple);
    bool made = ranges != NULL && lists != NULL && tuples != NULL;
    if (made) {
        const RangeIterator *seen = (RangeIterator *)ranges;
        range_layout_known = Py_TYPE(ranges)->tp_basicsize == sizeof(RangeIterator) && seen->index == 2 && seen->start == 5
                             && seen->step == 3 && seen->len == 15;
        const SequenceIterator *over_list = (SequenceIterator *)lists, *over_tuple = (SequenceIterator *)tuples;
        sequence_layout_known = Py_TYPE(lists)->tp_basicsize == sizeof(SequenceIterator) && over_list->index == 2
                                && over_list->sequence == list && over_tuple->index == 2 && over_tuple->sequence == tuple;
    }
    PyObject *all[] = {range, list, tuple, ranges, lists, tuples};
    for (size_t i = 0; i < Py_ARRAY_LENGTH(all); i++) {
        Py_XDECREF(all[i]);
    }
    return made ? 0 : -1;
}

/* enumerate: pairs of numbers and what the iterator below gives. */
static PyObject *
read_enumerate(PyObject *iterator, Py_ssize_t start)
{
    PyObject *state = iterator_state(iterator);
    if (state == NULL) {
        return NULL;
    }
    PyObject *args = PyTuple_GET_ITEM(state, 1);
    PyObject *found = window(PyTuple_GET_ITEM(args, 0), start);
    for (Py_ssize_t i = 0; found != NULL && i < PyTuple_GET_SIZE(found); i++) {
        PyObject *offset = PyLong_FromSsize_t(start + i);
        PyObject *number = offset == NULL ? NULL : PyNumber_Add(PyTuple_GET_ITEM(args, 1), offset);
        PyObject *pair = number == NULL ? NULL : PyTuple_Pack(2, number, PyTuple_GET_ITEM(found, i));
        Py_XDECREF(offset);
        Py_XDECREF(number);
        if (pair == NULL) {
            Py_CLEAR(found);
        }
        else {
            PyObject *before = PyTuple_GET_ITEM(found, i);
            PyTuple_SET_ITEM(found, i, pair);
            Py_DECREF(before);
        }
    }
    Py_DECREF(state);
    return found;
}

/* A tuple of `width` windows becomes one of rows, as long as the shortest. New reference. */
static PyObject *
transpose(PyObject *windows)
{
    Py_ssize_t width = PyTuple_GET_SIZE(windows), length = width == 0 ? 0 : WINDOW;
    for (Py_ssize_t i = 0; i < width; i++) {
        Py_ssize_t size = PyTuple_GET_SIZE(PyTuple_GET_ITEM(windows, i));
        length = size < length ? size : length;
    }
    PyObject *rows = PyTuple_New(length);
    for (Py_ssize_t j = 0; rows != NULL && j < length; j++) {
        PyObject *row = PyTuple_New(width);
        if (row == NULL) {
            Py_CLEAR(rows);
            break;
        }
        for (Py_ssize_t i = 0; i < width; i++) {
            PyTuple_SET_ITEM(row, i, Py_NewRef(PyTuple_GET_ITEM(PyTuple_GET_ITEM(windows, i), j)));
        }
        PyTuple_SET_ITEM(rows, j, row);
    }
    return rows;
}

/* Whether all windows of a tuple have the same length. */
static bool
equally_long(PyObject *windows)
{
    for (Py_ssize_t i = 1; i < PyTuple_GET_SIZE(windows); i++) {
        if (PyTuple_GET_SIZE(PyTuple_GET_ITEM(windows, i)) != PyTuple_GET_SIZE(PyTuple_GET_ITEM(windows, 0))) {
            return false;
        }
    }
    return true;
}

/* zip; with strict=True (a third item of its state) an error where it may raise one. */
static PyObject *
read_zip(PyObject *iterator, Py_ssize_t start)
{
    PyObject *state = iterator_state(iterator);
    if (state == NULL) {
        return NULL;
    }
    PyObject *below = PyTuple_GET_ITEM(state, 1), *found = NULL;
    PyObject *windows = PyTuple_New(PyTuple_GET_SIZE(below));
    for (Py_ssize_t i = 0; windows != NULL && i < PyTuple_GET_SIZE(below); i++) {
        PyObject *one = window(PyTuple_GET_ITEM(below, i), start);
        if (one == NULL) {
            Py_CLEAR(windows);
        }
        else {
            PyTuple_SET_ITEM(windows, i, one);
        }
    }
    if (windows != NULL && PyTuple_GET_SIZE(state) > 2 && !equally_long(windows)) {
        PyErr_SetString(PyExc_ValueError, "a strict zip of iterators that end apart");
        Py_CLEAR(windows);
    }
    if (windows != NULL) {
        found = transpose(windows);
        Py_DECREF(windows);
    }
    Py_DECREF(state);
    return found;
}

static Reader
reader_of(PyObject *iterator)
{
    PyTypeObject *type = Py_TYPE(iterator);
    if (type == &PyEnum_Type) {
        return read_enumerate;
    }
    if (type == &PyRangeIter_Type) {
        return read_range;
    }
    if (type == &PyZip_Type) {
        return read_zip;
    }
    if (keyed_known(type)) {
        return keyed_window;
    }
    if (itertools_known(type)) {
        return itertools_window;
    }
    bool position = type == &PyListIter_Type || type == &PyListRevIter_Type || type == &PyTupleIter_Type
                    || type == &PyUnicodeIter_Type || type == ascii_iterator
                    || type == &PyBytesIter_Type || type == &PyByteArrayIter_Type || type == &PyReversed_Type;
    return position ? read_position : NULL;
}

/* At most `window_size` of the elements after the next `start` ones, as a new tuple; fewer only at the end. */
static PyObject *
window(PyObject *iterator, Py_ssize_t start)
{
    Reader reader = reader_of(iterator);
    if (reader == NULL) {
        PyErr_SetString(PyExc_TypeError, "an iterator of another kind");
        return NULL;
    }
    if (Py_EnterRecursiveCall(" in upcoming")) {
        return NULL;
    }
    PyObject *found = reader(iterator, start);
    Py_LeaveRecursiveCall();
    return found;
}

static int
note_container(PyObject *object, void *found)
{
    bool mutable = PyList_Check(object) || PyDict_Check(object) || PyAnySet_Check(object) || PyByteArray_Check(object)
                   || is_deque(object);
    return mutable && PyList_Append(found, object) < 0 ? -1 : 0;
}

/* True for iterators that hold what they go over, and no other iterator. */
static bool
is_simple(Reader reader)
{
    return reader == read_position || reader == keyed_window || reader == read_range;
}

/* Appends the iterators below and the containers they go over to a list; iterators that occur twice are an error. */
static int
collect(PyObject *iterator, PyObject *found)
{
    Reader reader = reader_of(iterator);
    if (reader == NULL) {
        PyErr_SetString(PyExc_TypeError, "an iterator of another kind");
        return -1;
    }
    if (is_simple(reader)) {
        traverseproc traverse = Py_TYPE(iterator)->tp_traverse;
        return traverse == NULL ? 0 : traverse(iterator, note_container, found);
    }
    PyObject *state = reader == itertools_window ? itertools_below(iterator) : iterator_state(iterator);
    PyObject *args = state == NULL ? NULL : PySequence_Tuple(reader == itertools_window ? state : PyTuple_GET_ITEM(state, 1));
    if (args == NULL) {
        Py_XDECREF(state);
        return -1;
    }
    Py_ssize_t count = reader == read_enumerate ? 1 : PyTuple_GET_SIZE(args);
    int failed = 0;
    for (Py_ssize_t i = 0; !failed && i < count; i++) {
        PyObject *below = PyTuple_GET_ITEM(args, i);
        if (reader == itertools_window && reader_of(below) == NULL) {
            failed = note_container(below, found) < 0;
            continue;
        }
        for (Py_ssize_t j = 0; j < PyList_GET_SIZE(found); j++) {
            failed = failed || PyList_GET_ITEM(found, j) == below;
        }
        if (failed) {
            PyErr_SetString(PyExc_TypeError, "an iterator that is used twice");
        }
        failed = failed || PyList_Append(found, below) < 0 || collect(below, found) < 0;
    }
    Py_DECREF(args);
    Py_DECREF(state);
    return failed ? -1 : 0;
}

/* The list or dict of an iterator of the commonest kinds, which hold nothing else; NULL for all others. */
static PyObject *
only_container(PyObject *iterator)
{
    PyTypeObject *type = Py_TYPE(iterator);
    if (sequence_layout_known && type == &PyListIter_Type) {
        return ((SequenceIterator *)iterator)->sequence;
    }
    return keyed_dict(iterator);
}

Py_ssize_t
upcoming_size(Py_ssize_t start)
{
    return window_size(start);
}

/* At most one new reference each, for guard programs. */
PyObject *
upcoming_from(PyObject *iterator, Py_ssize_t start)
{
    return window(iterator, start);
}

/* upcoming(start, iterator): see `window`. */
PyObject *
upcoming(PyObject *Py_UNUSED(module), PyObject *const *args, Py_ssize_t nargs)
{
    if (nargs != 2) {
        PyErr_SetString(PyExc_TypeError, "upcoming takes a number and an iterator");
        return NULL;
    }
    Py_ssize_t start = PyLong_AsSsize_t(args[0]);
    return start == -1 && PyErr_Occurred() ? NULL : window(args[1], start);
}

/* beneath(iterator) -> tuple of the iterators and mutable containers it goes over. */
PyObject *
beneath(PyObject *Py_UNUSED(module), PyObject *iterator)
{
    if (Py_IS_TYPE(iterator, &PyRangeIter_Type)) {
        return PyTuple_New(0);
    }
    PyObject *found = only_container(iterator), *result = NULL;
    if (found != NULL) {
        return PyTuple_Pack(1, found);
    }
    found = PyList_New(0);
    if (found != NULL && collect(iterator, found) == 0) {
        result = PyList_AsTuple(found);
    }
    Py_XDECREF(found);
    return result;
}

int
upcoming_init(void)
{
    PyObject *text = PyUnicode_FromString("a");
    PyObject *iterator = text == NULL ? NULL : PyObject_GetIter(text);
    Py_XDECREF(text);
    if (iterator == NULL) {
        return -1;
    }
    ascii_iterator = Py_TYPE(iterator);
    Py_DECREF(iterator);
    return itertools_init() < 0 || keyed_init() < 0 ? -1 : learn_layouts();
}
