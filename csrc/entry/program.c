/* The GuardProgram type: packing instructions, and running them from Python for tests. */
#include "entry.h"
#include <structmember.h>

#define OP_NAME(name) #name,
static const char *const op_names[] = {LOAD_OPS(OP_NAME) CHECK_OPS(OP_NAME) FLOW_OPS(OP_NAME)};

/* {name: number} of all instructions, new reference. */
PyObject *
program_opcodes(void)
{
    PyObject *table = PyDict_New();
    for (int op = 0; table != NULL && op < OP_COUNT; op++) {
        PyObject *number = PyLong_FromLong(op);
        if (number == NULL || PyDict_SetItemString(table, op_names[op], number) < 0) {
            Py_CLEAR(table);
        }
        Py_XDECREF(number);
    }
    return table;
}

/* Copies a list of ints below `limit`; the caller owns the array. */
static int32_t *
copy_numbers(PyObject *list, long limit, int32_t *count)
{
    *count = (int32_t)PyList_GET_SIZE(list);
    int32_t *numbers = PyMem_Calloc(*count + 1, sizeof(int32_t));
    if (numbers == NULL) {
        PyErr_NoMemory();
        return NULL;
    }
    for (int32_t i = 0; i < *count; i++) {
        long number = PyLong_AsLong(PyList_GET_ITEM(list, i));
        if (number < 0 || number >= limit) {
            PyErr_SetString(PyExc_ValueError, "number out of range");
            PyMem_Free(numbers);
            return NULL;
        }
        numbers[i] = (int32_t)number;
    }
    return numbers;
}

static int
fill(Program *program, Py_buffer *code, PyObject *targets, PyObject *loads)
{
    program->loads = copy_numbers(loads, program->slots, &program->load_count);
    program->targets = copy_numbers(targets, INT32_MAX, &program->tags);
    program->anchor = PyDict_New();
    if (program->loads == NULL || program->targets == NULL || program->anchor == NULL) {
        return -1;
    }
    Py_ssize_t width = COLUMNS * sizeof(int32_t);
    if (code->len % width != 0 || PyTuple_GET_SIZE(program->consts) >= program->slots) {
        PyErr_SetString(PyExc_ValueError, "malformed program");
        return -1;
    }
    if (program_release_consts(program) < 0 || program_pack(program, code->buf, code->len / width) < 0) {
        return -1;
    }
    Py_ssize_t names = program->kwnames == NULL ? 0 : PyTuple_GET_SIZE(program->kwnames);
    if (program->npos >= 0 && program->min_args > program->npos + names) {
        PyErr_SetString(PyExc_ValueError, "the call shape has fewer arguments than the program reads");
        return -1;
    }
    program->scratch = scratch_new(program);
    if (program->scratch == NULL) {
        PyErr_NoMemory();
        return -1;
    }
    return 0;
}

static PyObject *
program_new(PyTypeObject *type, PyObject *args, PyObject *kwargs)
{
    static char *names[] = {"code", "keys", "targets", "slots", "consts", "loads", "npos", "kwnames", "shape_row", NULL};
    PyObject *keys, *targets, *consts, *loads, *kwnames = Py_None;
    Py_buffer code;
    int slots, npos = -1, shape_row = 0;
    if (!PyArg_ParseTupleAndKeywords(args, kwargs, "y*O!O!iO!O!|iOi", names, &code, &PyList_Type, &keys, &PyList_Type, &targets,
                                     &slots, &PyTuple_Type, &consts, &PyList_Type, &loads, &npos, &kwnames, &shape_row)) {
        return NULL;
    }
    Program *program = (Program *)type->tp_alloc(type, 0);
    if (program != NULL) {
        program->slots = slots;
        program->npos = npos;
        program->shape_row = shape_row;
        program->kwnames = PyTuple_Check(kwnames) ? Py_NewRef(kwnames) : NULL;
        program->consts = Py_NewRef(consts);
        program->keys = PyList_GetSlice(keys, 0, PyList_GET_SIZE(keys));
        if (program->keys == NULL || fill(program, &code, targets, loads) < 0) {
            Py_CLEAR(program);
        }
    }
    PyBuffer_Release(&code);
    return (PyObject *)program;
}

static int
program_traverse(Program *program, visitproc visit, void *arg)
{
    Py_VISIT(program->keys);
    Py_VISIT(program->kwnames);
    Py_VISIT(program->consts);
    Py_VISIT(program->anchor);
    Py_VISIT(program->twin);
    return 0;
}

/* Breaks cycles. The call shape is made impossible, so that whatever still reaches the program gets a miss. */
static int
program_clear(Program *program)
{
    program->npos = EXPIRED;
    program->load_count = 0;
    mortal_forget(program);
    program_unpack(program);
    Py_CLEAR(program->keys);
    Py_CLEAR(program->kwnames);
    Py_CLEAR(program->consts);
    Py_CLEAR(program->anchor);
    Py_CLEAR(program->twin);
    return 0;
}

static void
program_dealloc(Program *program)
{
    PyObject_GC_UnTrack(program);
    program_clear(program);
    PyMem_Free(program->loads);
    PyMem_Free(program->targets);
    PyMem_Free(program->values);
    scratch_free(program->scratch);
    Py_TYPE(program)->tp_free(program);
}

/* Debug mode: asks the twin whether it agrees with the outcome; -1 with an exception if not. */
int
program_compare(Program *program, PyObject *const *args, Py_ssize_t nargs, PyObject *kwnames, int32_t row)
{
    if (program->twin == NULL || program->twin == Py_None) {
        return 0;
    }
    Py_ssize_t names = kwnames == NULL ? 0 : PyTuple_GET_SIZE(kwnames);
    PyObject *tuple = PyTuple_New(nargs + names);
    if (tuple == NULL) {
        return -1;
    }
    for (Py_ssize_t i = 0; i < nargs + names; i++) {
        PyTuple_SET_ITEM(tuple, i, Py_NewRef(args[i]));
    }
    PyObject *result = PyObject_CallFunction(program->twin, "OOi", tuple, kwnames == NULL ? Py_None : kwnames, row);
    Py_DECREF(tuple);
    Py_XDECREF(result);
    return result == NULL ? -1 : 0;
}

/* run(args, kwnames=None): the loads, or the number of the failing row. */
static PyObject *
program_run_method(Program *program, PyObject *arguments)
{
    PyObject *args, *kwnames = Py_None;
    if (!PyArg_ParseTuple(arguments, "O!|O", &PyTuple_Type, &args, &kwnames)) {
        return NULL;
    }
    PyObject *names = PyTuple_Check(kwnames) && PyTuple_GET_SIZE(kwnames) > 0 ? kwnames : NULL;
    Py_ssize_t nargs = PyTuple_GET_SIZE(args) - (names == NULL ? 0 : PyTuple_GET_SIZE(names));
    if (nargs < 0) {
        PyErr_SetString(PyExc_ValueError, "more keyword names than arguments");
        return NULL;
    }
    PyObject *loads = PyList_New(program->load_count);
    if (loads == NULL) {
        return NULL;
    }
    PyObject **items = ((PyListObject *)loads)->ob_item;
    bool borrow = false;
    int32_t row = program_run(program, ((PyTupleObject *)args)->ob_item, nargs, names, items, &borrow);
    if ((row != HIT && PyErr_Occurred()) || program_compare(program, ((PyTupleObject *)args)->ob_item, nargs, names, row) < 0) {
        Py_DECREF(loads);
        return NULL;
    }
    if (row == HIT) {
        return loads;
    }
    Py_DECREF(loads);
    return PyLong_FromLong(row);
}

/* expire(): no call fits any longer. */
static PyObject *
program_expire_method(Program *program, PyObject *Py_UNUSED(ignored))
{
    program_expire(program);
    Py_RETURN_NONE;
}

static PyObject *
program_expired(Program *program, void *Py_UNUSED(closure))
{
    return PyBool_FromLong(program->npos == EXPIRED);
}

static PyGetSetDef program_getset[] = {
    {"expired", (getter)program_expired, NULL, "whether an object died that the program compares with"},
    {NULL},
};

/* renew(old, new): a class whose attributes only look changed has another version from now on. */
static PyObject *
program_renew_method(Program *program, PyObject *arguments)
{
    Py_ssize_t old, new;
    if (!PyArg_ParseTuple(arguments, "nn", &old, &new)) {
        return NULL;
    }
    for (int32_t i = 0; program->code != NULL && i < program->length; i++) {
        Instr *in = &program->code[i];
        if (in->op == OP_TYPE_VERSION && in->number == old) {
            in->number = new;
        }
    }
    Py_RETURN_NONE;
}

static PyMethodDef program_methods[] = {
    {"expire", (PyCFunction)program_expire_method, METH_NOARGS, "expire(): no call fits any longer"},
    {"renew", (PyCFunction)program_renew_method, METH_VARARGS, "renew(old, new): a class has another version from now on"},
    {"run", (PyCFunction)program_run_method, METH_VARARGS, "run(args, kwnames=None) -> loads, or number of the failing row"},
    {NULL},
};

static PyMemberDef program_members[] = {
    {"twin", T_OBJECT, offsetof(Program, twin), 0, "called as twin(args, kwnames, row) after each run"},
    {"instructions", T_INT, offsetof(Program, length), READONLY, "number of instructions"},
    {"slots", T_INT, offsetof(Program, slots), READONLY, "number of values"},
    {NULL},
};

PyTypeObject Program_Type = {
    PyVarObject_HEAD_INIT(NULL, 0)
    .tp_name = "stator._entry.GuardProgram",
    .tp_basicsize = sizeof(Program),
    .tp_flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_HAVE_GC,
    .tp_doc = "GuardProgram(code, keys, targets, slots, consts, loads, npos=-1, kwnames=None, shape_row=0)",
    .tp_new = program_new,
    .tp_dealloc = (destructor)program_dealloc,
    .tp_traverse = (traverseproc)program_traverse,
    .tp_clear = (inquiry)program_clear,
    .tp_methods = program_methods,
    .tp_members = program_members,
    .tp_getset = program_getset,
};
