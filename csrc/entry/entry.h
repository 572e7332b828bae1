/* What the files of stator._entry share. */
#ifndef STATOR_ENTRY_H
#define STATOR_ENTRY_H

#include "version.h"
#include <stdbool.h>
#include <stdint.h>

/* One row per instruction: X(name). Loads put a value into a slot, checks look at one, flow decides what is next. */
#define LOAD_OPS(X) \
    X(ARG) X(CLASSFIELDS) X(DICT) X(ATTR) X(CLASSITEM) X(KEY) X(GETATTR) X(TYPE) X(ITEM) X(ORDER) X(SEQ) X(CELL) X(PART) \
    X(UPCOMING) X(BENEATH)
#define CHECK_OPS(X) \
    X(TYPE_IS) X(TYPE_VERSION) X(IS) X(EQ) X(LEN) X(KEYS) X(NO_KEY) X(NO_ATTR) X(TENSOR) X(CODE_IS) X(HOOKS) \
    X(EMPTY_CELL) X(SAME) X(ALIVE) X(STATE) X(DISTINCT) X(NOT_EMPTY) X(HAS_ELEMENT) X(NO_ELEMENT) X(RELATION)
#define FLOW_OPS(X) X(INSTANCE) X(STILL) X(TAG) X(TAGGED) X(END)

#define OP_ENUM(name) OP_##name,
typedef enum { LOAD_OPS(OP_ENUM) CHECK_OPS(OP_ENUM) FLOW_OPS(OP_ENUM) OP_COUNT } Op;

/* A dict look-up: hint is where the key was found last. */
typedef struct {
    PyObject *key;    /* borrowed from the program's keys */
    Py_hash_t hash;
    int32_t hint;
} Lookup;

typedef struct TensorCheck TensorCheck;
typedef struct StateCheck StateCheck;
typedef struct Distinct Distinct;
typedef struct Relation Relation;
typedef struct Watch Watch;

/* Kept small: a hit on a large model is bound by how much memory it walks over. */
typedef struct {
    int32_t op;
    int32_t src;      /* slot to look at */
    int32_t dst;      /* slot to fill */
    int32_t arg;      /* index, second slot, or number of a tag */
    union {
        PyObject *key;             /* borrowed from the program's keys */
        Py_ssize_t number;
        Lookup *lookup;
        const TensorCheck *tensor; /* these four are owned by the program */
        StateCheck *state;
        Distinct *distinct;
        Relation *relation;
    };
} Instr;

/* What one run writes; a program keeps one and makes another if it is entered again during a run. */
typedef struct {
    PyObject **values;    /* per slot; borrowed, see docs/guards.md for why that is safe */
    uint64_t *tags;       /* per tag: the state of the dict for which the values below it are known */
    PyObject **owned;     /* new references made by loads, dropped after the run */
    int32_t owned_count;
    uint64_t changes;     /* how often values below a dict were loaded anew */
    const char **ahead;   /* addresses the next run will look at, NULL for small programs; see ahead.c */
    uint64_t ahead_changes;
    int32_t ahead_patience;
} Scratch;

typedef struct {
    PyObject_HEAD
    Instr *code;              /* what every run does, then END, then the blocks behind tags that changed */
    int32_t *rows;            /* per instruction: what to report when it fails */
    int32_t length;
    int32_t slots;
    int32_t tags;
    int32_t *targets;         /* per tag: its block */
    int32_t max_owned;        /* loads that may make a new reference; 0 means a run calls nothing */
    int32_t load_count;
    int32_t *loads;           /* slots handed to the entry function */
    int32_t min_args;         /* one more than the highest argument index used */
    int32_t npos;             /* -1: call shape is not checked; EXPIRED: no call fits any longer */
    int32_t shape_row;
    PyObject *kwnames;        /* owned tuple of str or NULL */
    PyObject *consts;         /* owned tuple: the values of slots 1, 2, ..., None for mortal ones */
    PyObject **values;        /* borrowed: the values themselves */
    PyObject **references;    /* owned weak references to mortal keys and constants; see mortal.c */
    Py_ssize_t reference_count;
    Watch *watch;             /* owned or NULL: what those call */
    PyObject *anchor;         /* owned empty dict in slot 0; its tag never changes, so it pins what holds for constants */
    PyObject *keys;           /* owned list: the keys of the instructions, None for mortal ones */
    PyObject *twin;           /* owned callable or NULL: twin(args, kwnames, row) compares in debug mode */
    Lookup *lookups;
    TensorCheck **tensors;    /* each spec once */
    int32_t tensor_count;
    Scratch *scratch;
    bool busy;
} Program;

extern PyTypeObject Program_Type;
extern PyTypeObject Compiled_Type;
PyObject *compiled_set_eager_only(PyObject *module, PyObject *flag);
PyObject *compiled_watch(PyObject *module, PyObject *const *args, Py_ssize_t nargs);

/* A run's view: where it writes, and the call's arguments. */
typedef struct {
    PyObject **values;
    Scratch *scratch;
    PyObject *const *args;
    const Program *program;
} Run;

#define HIT (-1)
#define EXPIRED INT32_MAX

/* run.c: HIT with the loads in `out`, or the failing row. Raises nothing.
 * The loads are new references; the caller may set *borrow to ask for borrowed ones, and finds there what it got. */
int32_t program_run(Program *program, PyObject *const *args, Py_ssize_t nargs, PyObject *kwnames, PyObject **out,
                    bool *borrow);
Scratch *scratch_new(const Program *program);
void scratch_free(Scratch *scratch);

/* program.c */
PyObject *program_opcodes(void);
int program_compare(Program *program, PyObject *const *args, Py_ssize_t nargs, PyObject *kwnames, int32_t row);

/* ahead.c: addresses per instruction, how far to run ahead, which programs are large enough, how often to renew. */
enum { AHEAD_INSTANCE = 3, AHEAD_TAG = 1, AHEAD_HOOKS = 4, AHEAD_TENSOR = 5 };
enum { AHEAD_DISTANCE = 32, AHEAD_MINIMUM = 64, AHEAD_PATIENCE = 32 };
const char **ahead_new(const Program *program);
void ahead_note(const Program *program, Scratch *scratch);

/* pack.c: instructions as rows of numbers (op, src, dst, arg, row) and a list of keys become a program's code. */
enum { COLUMNS = 5 };
int program_pack(Program *program, const int32_t *numbers, Py_ssize_t length);
int program_release_consts(Program *program);
void program_unpack(Program *program);

/* constants.c */
bool constant_same(PyObject *object, PyObject *key);
int constants_init(PyObject *torch);

/* tensor.c, learn.c: the layout of tensors, and one packed spec; the check itself is in tensor.h. */
int tensor_init(void *library);
bool tensor_symbols_found(void);
bool tensor_layout_verified(void);
bool tensor_read_raw(PyObject *tensor, int32_t raw[4]);
uint32_t tensor_pack_facts(const int32_t raw[4]);
int tensor_copy_dims(PyObject *tuple, Py_ssize_t size, int64_t *out);
TensorCheck *tensor_check_new(PyObject *spec);
bool tensor_check_equal(const TensorCheck *left, const TensorCheck *right);
void tensor_check_free(TensorCheck *check);
bool tensor_number(PyObject *tensor, bool stride, int32_t index, int64_t *out);
const char **tensor_lines(PyObject *tensor, const char **out);
PyObject *tensor_raw(PyObject *module, PyObject *tensor);
PyObject *tensor_set_twin(PyObject *module, PyObject *function);
PyObject *tensor_learn(PyObject *module, PyObject *probes);
PyObject *tensor_learn_grad(PyObject *module, PyObject *args);
PyObject *tensor_mode(PyObject *module, PyObject *ignored);

/* state.c: torch's global state as a few words. */
int state_init(void *library);
StateCheck *state_check_new(PyObject *snapshot);
bool state_check(const StateCheck *check);
void state_check_free(StateCheck *check);
PyObject *state_words(PyObject *module, PyObject *ignored);
PyObject *state_set_twin(PyObject *module, PyObject *function);
int function_modes_off(void);
void function_modes_restore(int before);

/* compiled.c, tail.c */
extern PyTypeObject Tail_Type;
PyObject *compiled_enter(PyObject *compiled, PyObject *const *args, Py_ssize_t nargs, PyObject *kwnames);
PyObject *tail_settle(PyObject *result);
PyObject *tail_new(PyObject *module, PyObject *const *args, Py_ssize_t nargs);
PyObject *tail_call(PyObject *module, PyObject *const *args, Py_ssize_t nargs);
PyObject *tail_set_runner(PyObject *module, PyObject *function);

/* traceback.c */
PyObject *traceback_set_own(PyObject *module, PyObject *const *args, Py_ssize_t nargs);
void traceback_clean(void);

/* mortal.c */
extern PyTypeObject Watch_Type;
bool mortal(PyObject *object);
uint64_t mortal_deaths(void);
void program_expire(Program *program);
PyObject *mortal_hold(Program *program, PyObject *object);
void mortal_forget(Program *program);
PyObject *mortal_ask(PyObject *module, PyObject *object);

/* distinct.c */
Distinct *distinct_new(PyObject *key, int32_t slots);
bool distinct_check(Distinct *distinct, const Scratch *scratch);
void distinct_free(Distinct *distinct);

/* sets.c: tables of sets. */
PyObject *set_layout(PyObject *module, PyObject *object);
PyObject *set_like(PyObject *module, PyObject *const *args, Py_ssize_t nargs);

/* dicts.c: tables of dicts. */
PyObject *keys_from(PyObject *module, PyObject *args);
PyObject *dict_version(PyObject *module, PyObject *dict);

/* methods.c: methods that C has bound. */
PyObject *method_code(PyObject *module, PyObject *method);

/* hashes.c: hashes that dicts and sets remember. */
int hashes_init(void);
PyObject *put_hashed(PyObject *module, PyObject *const *args, Py_ssize_t nargs);
PyObject *stored_hashes(PyObject *module, PyObject *object);
PyObject *hash_numbers(PyObject *module, PyObject *object);

/* upcoming.c: iterators, read without advancing them. */
int upcoming_init(void);
PyObject *upcoming(PyObject *module, PyObject *const *args, Py_ssize_t nargs);
PyObject *beneath(PyObject *module, PyObject *iterator);
PyObject *plain_fold(PyObject *module, PyObject *function);
PyObject *plain_kind(PyObject *module, PyObject *object);
Py_ssize_t upcoming_size(Py_ssize_t start);

PyObject *tried_iterator(PyObject *iterable);
PyObject *iterator_state(PyObject *iterator);

/* keyed.c: the same for iterators over dicts, sets and deques. */
int keyed_init(void);
bool keyed_known(PyTypeObject *type);
PyObject *keyed_window(PyObject *iterator, Py_ssize_t start);
PyObject *keyed_dict(PyObject *iterator);
bool is_deque(PyObject *object);

/* counting.c: enumerate. */
int counting_init(void);
PyObject *enumerate_count(PyObject *module, PyObject *object);
PyObject *recount(PyObject *module, PyObject *args);

/* itertools.c: the same for count, cycle, repeat, chain and islice. */
int itertools_init(void);
bool itertools_known(PyTypeObject *type);
PyObject *itertools_window(PyObject *iterator, Py_ssize_t start);
PyObject *itertools_below(PyObject *iterator);
PyObject *upcoming_from(PyObject *iterator, Py_ssize_t start);

/* cached.c: what functools.lru_cache holds. */
int cached_init(void);
PyObject *cached_key(PyObject *module, PyObject *const *args, Py_ssize_t nargs);
PyObject *cached_result(PyObject *module, PyObject *const *args, Py_ssize_t nargs);
PyObject *cached_store(PyObject *module, PyObject *const *args, Py_ssize_t nargs);

/* relation.c */
PyObject *relation_ops(void);
Relation *relation_new(PyObject *key, int32_t slots);
bool relation_holds(const Relation *relation, PyObject *const *values);
void relation_free(Relation *relation);

/* attribute.c */
PyObject *is_collecting(PyObject *module, PyObject *ignored);
PyObject *attribute_load(PyObject *object, PyObject *name, Scratch *scratch);
PyObject *order_load(PyObject *object, Scratch *scratch);
PyObject *sequence_load(PyObject *object, Py_ssize_t index, Scratch *scratch);
void forgive(void);
PyObject *part_load(PyObject *object, PyObject *callable, Scratch *scratch);
PyObject *upcoming_load(PyObject *object, Py_ssize_t start, Scratch *scratch);
PyObject *beneath_load(PyObject *object, Scratch *scratch);
PyObject *dict_load(PyObject *object);
Py_ssize_t raw_length(PyObject *object);

#endif
