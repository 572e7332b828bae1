/* Shared declarations of the capture-time extension module `stator._frames`. */
#ifndef STATOR_FRAMES_H
#define STATOR_FRAMES_H

#include "version.h"

/* One Python frame that arrived in the hook and is executed by the interpreter in Python.
   Subclassed in Python; the subclass adds the evaluation stack and friends. */
typedef struct Frame {
    PyObject_HEAD
    _PyInterpreterFrame *frame; /* borrowed; NULL once the frame has left the hook */
    _PyErr_StackItem *exc;      /* the exception state the user's code sees; borrowed */
    struct Frame *outer;        /* the interpreted frame below; strong */
    PyObject *error;            /* exception of the last failed native call; strong or NULL */
    int lasti;                  /* index of the current instruction, in code units */
    int yielded;                /* set by the interpreter when it leaves through a yield */
    int fresh;                  /* first activation (not the resumption of a generator) */
} Frame;

/* What one thread knows about the capture it runs. */
typedef struct Thread {
    int armed;            /* native code runs on behalf of the captured program */
    int capturing;        /* depth of captures on this thread */
    Frame *top;           /* innermost interpreted frame; borrowed from the C stack */
    PyObject *interpret;  /* called with a new Frame; borrowed from the capture */
    PyObject *frame_type; /* subclass of Frame to instantiate; borrowed */
    PyObject *inside_types; /* id -> class made during this capture; borrowed */
    PyObject *generators; /* address -> weak reference of those made during this capture, not finalized yet; borrowed */
    PyObject *instances;  /* set: addresses of objects with __del__ made during this capture, not finalized yet; borrowed */
    PyObject *abandoned;  /* stator's own exception on its way out; strong or NULL */
    Frame *ending;              /* the frame in which an object is being finalized, or NULL */
    PyObject *below;      /* who takes the frames below a break, NULL: nobody; borrowed */
    PyObject *alone;      /* function whose frames CPython runs, but not what they call; borrowed from its wrapper */
    int tracing;          /* how many functions of sys.settrace or sys.setprofile run around the last span */
    int user_recursion;   /* recursion budget of the captured program */
    char *stack_limit;    /* lowest C stack address interpretation may reach */
} Thread;

extern _Thread_local Thread stator_thread;
extern PyObject *stator_failed; /* returned by native calls that raised */
extern PyObject *stator_unbound;
extern PyTypeObject StatorFrameType;

/* A span: native code runs for the captured program between enter and leave. */
typedef struct Span {
    _PyErr_StackItem *exc;
    _PyInterpreterFrame *current;
    int recursion;
    int armed;
    int tracing;
} Span;

void stator_span_enter(PyThreadState *ts, Span *span);
void stator_span_leave(PyThreadState *ts, Span *span);
PyObject *stator_span_result(PyObject *result);

/* What the hook does with frames of a code object. */
typedef enum { CODE_UNKNOWN, CODE_TAKEN, CODE_SKIPPED, CODE_TRANSPARENT } CodeMark;

int stator_hook_install(void);
void stator_hook_remove(int before);
PyObject *stator_gave_up(void);
int stator_generic_read(PyTypeObject *type);
int stator_generic_write(PyTypeObject *type);
int stator_skip_code(PyCodeObject *code);
CodeMark stator_code_mark(PyCodeObject *code);
int stator_hook_ready(PyObject *module);
int stator_frame_ready(PyObject *module);
int stator_generators_ready(PyObject *module);
int stator_note_classes(int change);
int stator_slots_ready(PyObject *module);
int stator_classes_ready(PyObject *module);
extern getattrofunc stator_getattr_hook;
getattrofunc stator_class_read(getattrofunc read);
PyObject *stator_read(PyObject *obj, PyObject *name, getattrofunc original); /* asks stator if it is to be asked */
PyTypeObject *stator_sample_class(const char *method);
int stator_finalizers_ready(PyObject *module);
void stator_discard_instances(PyObject *addresses);
int stator_note_generator(PyObject *generator);
void stator_watch_finalizer(PyTypeObject *type);
void stator_unwatch_finalizer(PyTypeObject *type);
int stator_identities_ready(PyObject *module);
int stator_calls_ready(PyObject *module);
int stator_below_ready(PyObject *module);
PyObject *stator_below(PyThreadState *ts, _PyInterpreterFrame *raw, int throwflag);
int stator_asked(void); /* native code runs for a captured program, so stator's callbacks are to be asked */
PyObject *stator_ask(PyObject *callback, PyObject *first, PyObject *second, PyObject *third);
PyObject *stator_vectorcall(PyObject *function, PyObject *const *args, size_t nargsf, PyObject *kwnames);
PyObject *stator_call(PyObject *function, PyObject *args, PyObject *kwargs);
extern PyMethodDef stator_span_methods[];
extern PyMethodDef stator_lookup_methods[];
extern PyMethodDef stator_slots_methods[];
extern PyMethodDef stator_hook_methods[];

#endif
