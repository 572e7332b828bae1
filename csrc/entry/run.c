/* Running a guard program: one pass over flat instructions, parents before children, no user code. */
#include "ops.h"

/* A load or check that failed means no hit; an interruption such as KeyboardInterrupt stays set and ends the call. */
void
forgive(void)
{
    if (PyErr_Occurred() && PyErr_ExceptionMatches(PyExc_Exception)) {
        PyErr_Clear();
    }
}

Scratch *
scratch_new(const Program *program)
{
    Scratch *scratch = PyMem_Calloc(1, sizeof(Scratch));
    if (scratch == NULL) {
        return NULL;
    }
    scratch->values = PyMem_Calloc(program->slots + 1, sizeof(PyObject *));
    scratch->tags = PyMem_Calloc(program->tags + 1, sizeof(uint64_t));
    scratch->owned = PyMem_Calloc(program->max_owned + 1, sizeof(PyObject *));
    if (scratch->values == NULL || scratch->tags == NULL || scratch->owned == NULL) {
        scratch_free(scratch);
        return NULL;
    }
    scratch->values[0] = program->anchor;
    scratch->ahead = ahead_new(program);
    for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(program->consts); i++) {
        scratch->values[i + 1] = program->values[i];
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
        PyMem_Free(scratch->ahead);
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

static inline bool
holds_still(PyObject *dict, Lookup *lookup, PyObject *item)
{
    Find found;
    return dict_find(dict, lookup->key, lookup->hash, &lookup->hint, &found) == item;
}

/* Fetches what comes soon; nothing for small programs, for which `ahead` is a constant NULL. */
#define AHEAD(count)                                     \
    if (ahead != NULL) {                                 \
        for (int i = 0; i < (count); i++) {              \
            __builtin_prefetch(ahead[i]);                \
        }                                                \
        ahead += (count);                                \
    }

#define CASE_LOAD(name)                    \
    case OP_##name:                        \
        value = load_##name(run, in);      \
        if (value == NULL) {               \
            goto fail;                     \
        }                                  \
        run->values[in->dst] = value;      \
        break;

#define CASE_CHECK(name)              \
    case OP_##name:                   \
        AHEAD(OP_##name == OP_TENSOR ? AHEAD_TENSOR : OP_##name == OP_HOOKS ? AHEAD_HOOKS : 0); \
        if (!check_##name(run, in)) { \
            goto fail;                \
        }                             \
        break;

#define RUN_BLOCK()                                              \
    do {                                                         \
        scratch->tags[in->arg] = 0;                              \
        in = program->code + program->targets[in->arg] - 1;      \
    } while (0)

/* Flow:
 *   INSTANCE  checks the class of `src` (if there is a key), puts its dict into `dst`, then does as TAG
 *   TAG       if the dict is not in the state seen last, runs the block behind the tag; until that is through,
 *             the values below are in between, so no tag may vouch for them
 *   STILL     the same, if the item in `dst` is not what the dict at `src` has under the key: CPython 3.11 may
 *             release the old value of an attribute, and so run finalizers, before it changes the tag
 *   TAGGED    ends such a block: remembers the state, goes back */
static inline __attribute__((always_inline)) int32_t
execute(const Program *program, const Run *run, const char *const *ahead)
{
    Scratch *scratch = run->scratch;
    PyObject *value;
    const Instr *in = program->code;
    for (;; in++) {
        switch ((Op)in->op) {
            LOAD_OPS(CASE_LOAD)
            CHECK_OPS(CASE_CHECK)
        case OP_INSTANCE:
            AHEAD(AHEAD_INSTANCE);
            value = run->values[in->src];
            if (in->key != NULL && (PyObject *)Py_TYPE(value) != in->key) {
                goto fail;
            }
            value = run->values[in->dst] = instance_dict(value);
            if (value == NULL || dict_tag(value) != scratch->tags[in->arg]) {
                RUN_BLOCK();
            }
            break;
        case OP_STILL:
            value = run->values[in->src];
            if (value != NULL && !holds_still(value, in->lookup, run->values[in->dst])) {
                RUN_BLOCK();
            }
            break;
        case OP_TAG:
            AHEAD(AHEAD_TAG);
            value = run->values[in->src];
            if (!PyDict_Check(value)) {
                goto fail;
            }
            if (dict_tag(value) != scratch->tags[in->arg]) {
                RUN_BLOCK();
            }
            break;
        case OP_TAGGED:
            value = run->values[in->src];
            scratch->tags[in->arg] = value == NULL ? 0 : dict_tag(value);
            scratch->changes++;
            in = program->code + in->dst - 1;
            break;
        case OP_END:
            return HIT;
        case OP_COUNT:
            Py_UNREACHABLE();
        }
    }
fail:
    return program->rows[in - program->code];
}

static int32_t
execute_large(const Program *program, const Run *run)
{
    Scratch *scratch = run->scratch;
    int32_t row = execute(program, run, scratch->ahead + AHEAD_DISTANCE);
    if (row == HIT && scratch->changes != scratch->ahead_changes && --scratch->ahead_patience <= 0) {
        ahead_note(program, scratch);
    }
    return row;
}

static inline int32_t
execute_any(const Program *program, const Run *run)
{
    return run->scratch->ahead == NULL ? execute(program, run, NULL) : execute_large(program, run);
}

static inline void
give_loads(const Program *program, const Scratch *scratch, PyObject **out, bool borrow)
{
    for (int32_t i = 0; i < program->load_count; i++) {
        out[i] = scratch->values[program->loads[i]];
    }
    for (int32_t i = 0; !borrow && i < program->load_count; i++) {
        Py_INCREF(out[i]);
    }
}

/* For programs whose loads may make objects: no other run may use the scratch until those are dropped. */
static int32_t
run_carefully(Program *program, PyObject *const *args, PyObject **out, bool *borrow)
{
    bool nested = program->busy;
    Scratch *scratch = nested ? scratch_new(program) : program->scratch;
    if (scratch == NULL) {
        return program->shape_row;
    }
    Py_INCREF(program);
    program->busy = true;
    Run run = {scratch->values, scratch, args, program};
    int32_t row = execute_any(program, &run);
    *borrow = *borrow && scratch->owned_count == 0;
    if (row == HIT && program->npos == EXPIRED) {
        row = program->shape_row;
    }
    if (row == HIT) {
        give_loads(program, scratch, out, *borrow);
    }
    PyObject *type = NULL, *error = NULL, *traceback = NULL;
    bool interrupted = row != HIT && PyErr_Occurred();
    if (interrupted) {
        PyErr_Fetch(&type, &error, &traceback);
    }
    /* Dropping a reference may run anything, also this program: it is still busy, so it gets a scratch of its own. */
    for (int32_t i = 0; i < scratch->owned_count; i++) {
        Py_DECREF(scratch->owned[i]);
    }
    if (interrupted) {
        PyErr_Restore(type, error, traceback);
    }
    scratch->owned_count = 0;
    if (nested) {
        scratch_free(scratch);
    }
    else {
        program->busy = false;
    }
    Py_DECREF(program);
    return row;
}

int32_t
program_run(Program *program, PyObject *const *args, Py_ssize_t nargs, PyObject *kwnames, PyObject **out, bool *borrow)
{
    if (!shape_matches(program, nargs, kwnames)) {
        return program->shape_row;
    }
    if (program->max_owned > 0) {
        return run_carefully(program, args, out, borrow);
    }
    Run run = {program->scratch->values, program->scratch, args, program};
    int32_t row = execute_any(program, &run);
    if (row == HIT) {
        give_loads(program, program->scratch, out, *borrow);
    }
    return row;
}
