/* kvt/badge.h -- what a report rests on, in three claims. Every report that states a time has one:
 *
 *     decisions yes (1200 calls) | kernel time yes (NVIDIA H200, 97 % of steps in range) | engine
 * no
 *
 * Facts go in, claims come out, as JSON and as text: nobody else words them. */
#ifndef KVT_BADGE_H
#define KVT_BADGE_H

#include <cjson/cJSON.h>

#include "kvt/base.h"

KVT_BEGIN_DECLS

enum kvt_claim_kind {
    KVT_CLAIM_DECISIONS = 0, /* a GPU's are those of the simulator */
    KVT_CLAIM_KERNEL_TIME,   /* step times are a GPU's own */
    KVT_CLAIM_ENGINE,        /* an engine's measurements are met */
    KVT_CLAIMS
};

enum {
    KVT_CLAIM_WORD_BYTES = 12,
    KVT_CLAIM_REASON_BYTES = 320,
    KVT_BADGE_TEXT_BYTES = KVT_CLAIMS * (KVT_CLAIM_WORD_BYTES + KVT_CLAIM_REASON_BYTES + 64)
};

struct kvt_claim {
    char word[KVT_CLAIM_WORD_BYTES];     /* "yes"; "beside": measured, but no clock; "no", "" */
    char reason[KVT_CLAIM_REASON_BYTES]; /* "": none is given */
    double in_range_share;               /* of steps, said behind the reason; NaN: nothing is */
};

/* Zeroed, it is that of nothing: "no" three times, and joined with another it is the other. */
struct kvt_badge {
    struct kvt_claim claims[KVT_CLAIMS];
};

/* What claims are made of. */
struct kvt_badge_facts {
    const char *timing; /* what step times rest on where no GPU ran any; NULL: nothing is timed */
    double in_range_share; /* of all steps, of what the timing model was fitted to; NaN: is not
                            * said */
    /* A GPU that ran the steps; without one nothing but timing and the engine counts. */
    bool on_gpu;
    const char *gpu;    /* its name; NULL: not known here */
    bool is_compared;   /* its decisions, with the simulator's */
    bool is_broken_off; /* before its end */
    uint64_t calls, mismatches;
    uint64_t device_calls; /* of all, where some are not run there */
    bool is_attention_good;
    bool is_beside; /* its times are told, and the run's clock is the predicted one */
    uint64_t timed_steps;
    const char *not_representative, *scaled; /* as a proof's; NULL: it is, it is not */
    /* An engine's own measurements. */
    const char *engine; /* the word; NULL: none was compared with */
    const char *engine_reason;
};

void kvt_badge_of(const struct kvt_badge_facts *facts, struct kvt_badge *out);
/* Of several runs as one: a word on which they differ becomes "no", reasons stand side by side, and
 * of shares of one reason the least counts. */
void kvt_badge_join(struct kvt_badge *into, const struct kvt_badge *other);

/* The member "badge" of a report; false: no memory. */
KVT_CHECKED bool kvt_badge_add(cJSON *report, const struct kvt_badge *badge);
/* The same read back; false: the report has none, and *out is left alone. */
bool kvt_badge_read(const cJSON *report, struct kvt_badge *out);
void kvt_badge_print(const struct kvt_badge *badge, char out[KVT_BADGE_TEXT_BYTES]);

KVT_END_DECLS
#endif
