/* Running a guard program: one pass over flat instructions, parents before children, no user code. */
#include "ops.h"

Scratch *
scratch_new(const Program *program)
{
    Scratch *scratch = PyMem_Calloc(1, sizeof(Scratch));
    if (scratch == NULL) {
        return NULL;
    }
    scratch->values = PyMem_Calloc(program->slots + 1, sizeof(PyObject *));
    scratch->tags = PyMem_Calloc(program->slots + 1, sizeof(uint64_t));
    scratch->owned = PyMem_Calloc(program->max_owned + 1, sizeof(PyObject *));
    if (scratch->values == NULL || scratch->tags == NULL || scratch->owned == NULL) {
        scratch_free(scratch);
        return NULL;
    }
    scratch->values[0] = program->anchor;
    for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(program->consts); i++) {
        scratch->values[i + 1] = PyTuple_GET_ITEM(program->consts, i);
    }
    return scratch;
}

void
scratch_free(Scratch *scratch)
{
    if (scratch != NULL) {
        PyMem_Free(scratch->values);
        PyMem_Free(scratch->tags);
        PyMem_Free(scratch->owned);
        PyMem_Free(scratch);
    }
}

/* Keyword names are compared as pointers first: call sites of one caller share the tuple or its strings. */
static bool
names_match(PyObject *given, PyObject *wanted)
{
    Py_ssize_t count = wanted == NULL ? 0 : PyTuple_GET_SIZE(wanted);
    if ((given == NULL ? 0 : PyTuple_GET_SIZE(given)) != count) {
        return false;
    }
    for (Py_ssize_t i = 0; given != wanted && i < count; i++) {
        PyObject *left = PyTuple_GET_ITEM(given, i), *right = PyTuple_GET_ITEM(wanted, i);
        if (left != right && PyUnicode_Compare(left, right) != 0) {
            return false;
        }
    }
    return true;
}

static inline bool
shape_matches(const Program *program, Py_ssize_t nargs, PyObject *kwnames)
{
    Py_ssize_t names = kwnames == NULL ? 0 : PyTuple_GET_SIZE(kwnames);
    if (program->npos >= 0) {
        return nargs == program->npos && names_match(kwnames, program->kwnames);
    }
    return nargs + names >= program->min_args;
}

/* True if the dict at `src` is in the state for which the values below it are known. */
static inline bool
tag_known(Scratch *scratch, const Instr *in)
{
    PyObject *dict = scratch->values[in->src];
    return dict != NULL && dict_tag(dict) == scratch->tags[in->src];
}

#define CASE_LOAD(name)                                     \
    case OP_##name:                                         \
        value = load_##name(run, in);                       \
        if (value == NULL && OP_##name != OP_FIELDS) {      \
            return in->row;                                 \
        }                                                   \
        scratch->values[in->dst] = value;                   \
        break;

#define CASE_CHECK(name)              \
    case OP_##name:                   \
        if (!check_##name(run, in)) { \
            return in->row;           \
        }                             \
        break;

static int32_t
execute(Program *program, const Run *run)
{
    Scratch *scratch = run->scratch;
    PyObject *value;
    Instr *const end = program->code + program->length;
    for (Instr *in = program->code; in < end; in++) {
        switch ((Op)in->op) {
            LOAD_OPS(CASE_LOAD)
            CHECK_OPS(CASE_CHECK)
        case OP_TAG:
            value = scratch->values[in->src];
            if (value != NULL && !PyDict_Check(value)) {
                return in->row;
            }
            if (tag_known(scratch, in)) {
                in = program->code + in->arg - 1;
            }
            else {
                /* Until TAGGED, the values below are in between: no tag may vouch for them. */
                scratch->tags[in->src] = 0;
            }
            break;
        case OP_TAGGED:
            value = scratch->values[in->src];
            scratch->tags[in->src] = value == NULL ? 0 : dict_tag(value);
            break;
        case OP_COUNT:
            Py_UNREACHABLE();
        }
    }
    return HIT;
}

static inline void
take_loads(const Program *program, const Scratch *scratch, PyObject **out)
{
    for (int32_t i = 0; i < program->load_count; i++) {
        out[i] = Py_NewRef(scratch->values[program->loads[i]]);
    }
}

/* For programs whose loads make objects: no collection (it could run finalizers) and no shared scratch in between. */
static int32_t
run_carefully(Program *program, Run *run, PyObject **out)
{
    bool nested = program->busy;
    Scratch *scratch = nested ? scratch_new(program) : program->scratch;
    if (scratch == NULL) {
        return program->shape_row;
    }
    run->scratch = scratch;
    program->busy = true;
    int collecting = PyGC_Disable();
    int32_t row = execute(program, run);
    if (row == HIT) {
        take_loads(program, scratch, out);
    }
    if (collecting) {
        PyGC_Enable();
    }
    /* Dropping a reference may run anything, also this program: it is still busy, so it gets a scratch of its own. */
    for (int32_t i = 0; i < scratch->owned_count; i++) {
        Py_DECREF(scratch->owned[i]);
    }
    scratch->owned_count = 0;
    program->busy = nested;
    if (nested) {
        scratch_free(scratch);
    }
    return row;
}

int32_t
program_run(Program *program, PyObject *const *args, Py_ssize_t nargs, PyObject *kwnames, PyObject **out)
{
    if (!shape_matches(program, nargs, kwnames)) {
        return program->shape_row;
    }
    Run run = {program->scratch, args, nargs};
    if (program->max_owned > 0) {
        Py_INCREF(program);
        int32_t row = run_carefully(program, &run, out);
        Py_DECREF(program);
        return row;
    }
    int32_t row = execute(program, &run);
    if (row == HIT) {
        take_loads(program, program->scratch, out);
    }
    return row;
}
