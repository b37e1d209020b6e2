/* kvt/error.h -- failure: what went wrong, where, and in words. */
#ifndef KVT_ERROR_H
#define KVT_ERROR_H

#include "kvt/base.h"

KVT_BEGIN_DECLS

typedef enum kvt_status {
    KVT_OK = 0,
    KVT_ERR_NOMEM,       /* allocation failed */
    KVT_ERR_INVALID,     /* a value is outside its stated range */
    KVT_ERR_PARSE,       /* malformed JSON or CSV */
    KVT_ERR_IO,          /* something that is to be read cannot be */
    KVT_ERR_NOT_FOUND,   /* no such policy, model, backend or file */
    KVT_ERR_UNSUPPORTED, /* valid, but this version, build or device cannot do it */
    KVT_ERR_ABI,         /* a plug-in was built against another ABI */
    KVT_ERR_POLICY,      /* a policy broke its contract */
    KVT_ERR_DEVICE,      /* CUDA reported a failure */
    KVT_ERR_STALLED,     /* the run can make no further progress */
    KVT_ERR_INTERRUPTED, /* a signal asked the run to end */
    KVT_ERR_INTERNAL,    /* an invariant of ours does not hold: a bug */
    KVT_ERR_HUNG,        /* a device does not answer: this process cannot take back what it has */
    KVT_ERR_SYSTEM       /* the system refuses what is needed: room for a file, a process */
} kvt_status;

/* Owned by the caller, usually on the stack. Written only on failure. */
struct kvt_error {
    kvt_status status;
    char where[256];   /* "file.json#/pools/unified_gib", "trace.csv:17:3", a policy's name */
    char message[768]; /* one sentence: what is wrong, and what would be right */
};

/* Fills *err (which may be NULL) and returns status, so that a failing function
 * ends in one line:  return kvt_fail(err, KVT_ERR_INVALID, where, "..."); */
kvt_status kvt_fail(struct kvt_error *err, kvt_status status, const char *where, const char *fmt,
                    ...) KVT_PRINTF(4, 5);

/* The sentence for an allocation that failed; `what` names what it was for. */
kvt_status kvt_fail_nomem(struct kvt_error *err, const char *what);

/* What the system refused, as errno says it: "where: attempt: reason". ENOMEM is KVT_ERR_NOMEM of
 * both. kvt_fail_read() is for what was asked to be read: ENOENT becomes KVT_ERR_NOT_FOUND,
 * anything else KVT_ERR_IO. kvt_fail_system() is for what is to be written, and anything else
 * without which nothing can be done: KVT_ERR_SYSTEM. */
kvt_status kvt_fail_read(struct kvt_error *err, int error_number, const char *where,
                         const char *attempt);
kvt_status kvt_fail_system(struct kvt_error *err, int error_number, const char *where,
                           const char *attempt);

/* An analyzer reads one file at a time: that these never return KVT_OK, it is told. */
#ifdef __clang_analyzer__
static inline kvt_status kvt_is_failure(kvt_status status)
{
    if (status == KVT_OK)
        __builtin_unreachable();
    return status;
}
#define kvt_fail(...) kvt_is_failure((kvt_fail)(__VA_ARGS__))
#define kvt_fail_nomem(...) kvt_is_failure((kvt_fail_nomem)(__VA_ARGS__))
#define kvt_fail_read(...) kvt_is_failure((kvt_fail_read)(__VA_ARGS__))
#define kvt_fail_system(...) kvt_is_failure((kvt_fail_system)(__VA_ARGS__))
#endif

/* "KVT_ERR_PARSE" and friends; never NULL, never freed. */
const char *kvt_status_name(kvt_status status);

KVT_END_DECLS
#endif
