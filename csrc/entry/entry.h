/* What the files of stator._entry share. */
#ifndef STATOR_ENTRY_H
#define STATOR_ENTRY_H

#include "version.h"
#include <stdbool.h>
#include <stdint.h>

/* One row per instruction: X(name). Loads put a value into a slot, checks look at one, flow jumps. */
#define LOAD_OPS(X) \
    X(ARG) X(FIELDS) X(CLASSFIELDS) X(DICT) X(ATTR) X(CLASSITEM) X(KEY) X(GETATTR) X(TYPE) X(ITEM) X(ORDER) X(SEQ) X(CELL) X(PART)
#define CHECK_OPS(X) \
    X(TYPE_IS) X(TYPE_VERSION) X(IS) X(EQ) X(LEN) X(KEYS) X(NO_KEY) X(NO_ATTR) X(TENSOR) X(CODE_IS) X(HOOKS) \
    X(EMPTY_CELL) X(SAME) X(ALIVE) X(STATE) X(DISTINCT)
#define FLOW_OPS(X) X(TAG) X(TAGGED)

#define OP_ENUM(name) OP_##name,
typedef enum { LOAD_OPS(OP_ENUM) CHECK_OPS(OP_ENUM) FLOW_OPS(OP_ENUM) OP_COUNT } Op;

typedef struct {
    uint8_t op;
    int32_t dst;      /* slot a load fills */
    int32_t src;      /* slot an instruction looks at */
    int32_t arg;      /* index, second slot or jump target */
    int32_t row;      /* what to report when this fails */
    int32_t hint;     /* where a dict look-up succeeded last */
    PyObject *key;    /* owned, may be NULL */
    union {
        Py_hash_t hash;
        Py_ssize_t number;
        void *data;   /* owned by the instruction: TensorCheck, StateCheck, Distinct */
    };
} Instr;

/* What one run writes; a program keeps one and makes another if it is entered again during a run. */
typedef struct {
    PyObject **values;    /* per slot; borrowed, see docs/guards.md for why that is safe */
    uint64_t *tags;       /* per slot: tag of the dict for which the values below it are known */
    PyObject **owned;     /* new references made by loads, dropped after the run */
    int32_t owned_count;
} Scratch;

typedef struct {
    PyObject_HEAD
    Instr *code;
    int32_t length;
    int32_t slots;
    int32_t max_owned;        /* loads that may make a new reference; 0 means a run calls nothing */
    int32_t load_count;
    int32_t *loads;           /* slots handed to the entry function */
    int32_t min_args;         /* one more than the highest argument index used */
    int32_t npos;             /* -1: call shape is not checked */
    int32_t shape_row;
    PyObject *kwnames;        /* owned tuple of str or NULL */
    PyObject *consts;         /* owned tuple: (slot, object) pairs */
    PyObject *anchor;         /* owned empty dict whose tag never changes: holds what CONST roots pin */
    PyObject *twin;           /* owned callable or NULL: twin(args, kwnames, row) compares in debug mode */
    Scratch *scratch;
    bool busy;
} Program;

extern PyTypeObject Program_Type;
extern PyTypeObject Compiled_Type;

/* A run's view: the program, its scratch, the call's arguments. */
typedef struct {
    Scratch *scratch;
    PyObject *const *args;
    Py_ssize_t nargs;
} Run;

#define HIT (-1)

/* run.c: HIT with new references to the loads in `out`, or the failing row. Raises nothing. */
int32_t program_run(Program *program, PyObject *const *args, Py_ssize_t nargs, PyObject *kwnames, PyObject **out);
Scratch *scratch_new(const Program *program);
void scratch_free(Scratch *scratch);

/* program.c */
PyObject *program_opcodes(void);
int program_compare(Program *program, PyObject *const *args, Py_ssize_t nargs, PyObject *kwnames, int32_t row);

/* constants.c */
bool constant_plain(PyObject *object);
bool constant_same(PyObject *object, PyObject *key);
int constants_init(PyObject *torch);

/* tensor.c: the verified layout of tensors, and one packed spec. */
typedef struct TensorCheck TensorCheck;
int tensor_init(PyObject *torch, void *library);
TensorCheck *tensor_check_new(PyObject *spec);
bool tensor_check(PyObject *tensor, const TensorCheck *check);
void tensor_check_free(TensorCheck *check);
PyObject *tensor_raw(PyObject *module, PyObject *tensor);
PyObject *tensor_set_twin(PyObject *module, PyObject *function);
PyObject *tensor_learn(PyObject *module, PyObject *probes);
bool tensor_layout_verified(void);
PyObject *tensor_mode(PyObject *module, PyObject *ignored);

/* state.c: torch's global state as a few words. */
typedef struct StateCheck StateCheck;
int state_init(PyObject *torch, void *library);
StateCheck *state_check_new(PyObject *snapshot);
bool state_check(const StateCheck *check);
void state_check_free(StateCheck *check);
PyObject *state_words(PyObject *module, PyObject *ignored);
PyObject *state_set_twin(PyObject *module, PyObject *function);
int function_modes_off(void);
void function_modes_restore(int before);

/* distinct.c */
typedef struct Distinct Distinct;
Distinct *distinct_new(PyObject *key, int32_t slots);
bool distinct_check(Distinct *distinct, PyObject *const *values);
void distinct_free(Distinct *distinct);

/* attribute.c */
PyObject *attribute_load(PyObject *object, PyObject *name, Scratch *scratch);
PyObject *order_load(PyObject *object, Scratch *scratch);
PyObject *sequence_load(PyObject *object, Py_ssize_t index, Scratch *scratch);
PyObject *part_load(PyObject *object, PyObject *callable, Scratch *scratch);
PyObject *dict_load(PyObject *object);
Py_ssize_t raw_length(PyObject *object);

#endif
