/* contract.h -- is the contract of a table kept? Random but legal calls on it, every answer
 * checked.
 *
 * What a run checks, it checks where it happens; here it is looked for, and with it what no run can
 * see: memory written behind a state, pointers within it, anything kept outside, the future read.
 * Several instances of a table play side by side: equal calls must get equal answers from all. */
#ifndef KVT_CLI_CONTRACT_H
#define KVT_CLI_CONTRACT_H

#include "kvt/arena.h"
#include "kvt/plugin.h"

/* Where what a play draws comes from: a seed's stream, or given bytes until they are used up. */
struct contract_draws {
    struct kvt_rng rng;
    const uint8_t *bytes; /* [byte_count] left; NULL: the stream */
    size_t byte_count;
    bool ended; /* there are no more bytes: every draw is 0 */
};

/* In [0, bound); bound is at least 1. */
uint32_t contract_draw(struct contract_draws *draws, uint64_t bound);
/* In [least, most]. */
uint32_t contract_draw_from(struct contract_draws *draws, uint32_t least, uint32_t most);
bool contract_chance(struct contract_draws *draws, uint32_t percent);

/* Where a play is: for whoever watches it from another process, in memory that both see. */
struct contract_note {
    volatile uint64_t calls;       /* so far */
    const char *volatile function; /* that is being called: "choose_victims"; a literal */
};

/* What a play shows though the table did not ask for it, to tell why it failed without. */
enum contract_gift {
    CONTRACT_GIFT_FUTURE = 1,
    CONTRACT_GIFT_HIT_ORDER = 2,
    CONTRACT_GIFT_PAGE_HITS = 4,
    CONTRACT_GIFT_PAGE_SCORES = 8,
    CONTRACT_GIFT_PAGE_FUTURE = 16,
    CONTRACT_GIFT_VIEW = 32,
    CONTRACT_GIFT_ENTRIES = 64 /* in a view that it asked for */
};

struct contract_play {
    enum kvt_plugin_kind kind;
    const struct kvt_plugin_info *info;
    struct kvt_params params;
    struct contract_draws draws;
    uint64_t calls; /* to play at least, unless the bytes end before */
    unsigned gifts; /* enum contract_gift, joined */
    struct contract_note *note;
};

/* With the parameters' defaults, in the arena. *missing: the name of one that must be given, so
 * that nothing can be played; NULL: none. */
KVT_CHECKED kvt_status contract_play_init(struct contract_play *play, enum kvt_plugin_kind kind,
                                          const struct kvt_plugin_info *info, uint64_t seed,
                                          struct contract_note *note, struct kvt_arena *arena,
                                          const char **missing, struct kvt_error *err);

/* KVT_ERR_POLICY at the table's name: the contract that it broke. Whatever init() or prepare()
 * refuses is passed on as it is. Timing and whatever else cannot be loaded is not played. */
KVT_CHECKED kvt_status contract_play(struct contract_play *play, struct kvt_error *err);

/* contract_child.c: the same in a process of its own, in which it may crash, end or hang: a call
 * that takes longer than so many seconds does. *calls: made. For a program without threads. */
KVT_CHECKED kvt_status contract_play_apart(const struct contract_play *play, double call_limit_s,
                                           uint64_t *calls, struct kvt_error *err);

/* Loads the shared object in a process of its own, and lets go of it: its constructors and its
 * entry may do there what they like. */
KVT_CHECKED kvt_status contract_load_apart(const char *path, double call_limit_s,
                                           struct kvt_error *err);

/* ---- Of the drivers ------------------------------------------------------------------------- */

/* The instances that play side by side. */
enum contract_role {
    CONTRACT_FIRST,
    CONTRACT_TWIN,  /* is asked the same */
    CONTRACT_MOVED, /* its bytes are copied elsewhere now and then */
    CONTRACT_OTHER, /* is asked what must make no difference, by kind */
    CONTRACT_ROLES
};

/* Bytes lent to one instance, with a canary behind them. */
struct contract_state {
    unsigned char *bytes, *attic; /* where it was before it was moved, overwritten */
    size_t byte_count;
};

KVT_CHECKED kvt_status contract_state_new(const struct contract_play *play, size_t byte_count,
                                          struct contract_state *out, struct kvt_error *err);
void contract_state_free(struct contract_state *state);
/* The same bytes elsewhere. */
KVT_CHECKED kvt_status contract_state_move(struct contract_state *state, struct kvt_error *err);
KVT_CHECKED kvt_status contract_state_check(const struct contract_play *play,
                                            const struct contract_state *state,
                                            struct kvt_error *err);

/* "FOUND; contract: CONTRACT" at the table's name. */
kvt_status contract_broken(const struct contract_play *play, struct kvt_error *err,
                           const char *contract, const char *fmt, ...) KVT_PRINTF(4, 5);
/* The same for instances that do not answer alike. */
kvt_status contract_differs(const struct contract_play *play, enum contract_role role,
                            const char *function, struct kvt_error *err);

static inline void contract_enter(const struct contract_play *play, const char *function)
{
    play->note->function = function;
    play->note->calls++;
}

/* Whether calls are still to be made. */
bool contract_goes_on(const struct contract_play *play, uint64_t first_call);

bool contract_sees_future(const struct contract_play *play);

kvt_status contract_play_replacement(struct contract_play *play, struct kvt_error *err);
kvt_status contract_play_residency(struct contract_play *play, struct kvt_error *err);
kvt_status contract_play_scheduling(struct contract_play *play, struct kvt_error *err);
kvt_status contract_play_router(struct contract_play *play, struct kvt_error *err);
kvt_status contract_play_law(struct contract_play *play, struct kvt_error *err);
kvt_status contract_play_speculation(struct contract_play *play, struct kvt_error *err);

#endif
