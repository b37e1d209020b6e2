/* march_state.h -- a march under way, shared by march.c and march_flow.c. */
#ifndef KVT_ANALYTIC_MARCH_STATE_H
#define KVT_ANALYTIC_MARCH_STATE_H

#include "march.h"

/* A queue with a burst before it that is served without a pause. */
struct stage {
    double burst, queue;
};

/* What a cell of the march looked like as it began, for means over the central half and for who
 * waited how long. */
struct trail {
    double from_s, running, coverage, covered;
    double arrived, served; /* requests until then; served: that have their first token */
    double unserved_s;      /* time of the cell x requests without one, up to the moment of it */
};

enum {
    OUTSIDE_MAX = 8 /* ways to leave a timing model's range that are told apart */
};

/* Steps that left it in one way, as first seen. */
struct outside_count {
    struct kvt_outside first;
    double steps;
};

struct march {
    const struct march_env *env;
    struct march_result *out;
    struct cohort *cohorts; /* [MARCH_CELLS + 1] by the cell that they began in */
    struct trail *trail;    /* [MARCH_CELLS + 1] */
    double *eligible_pages; /* [MARCH_CELLS + 1] scratch, of each cohort */
    double ages[LIFE_CELLS + 1][SURFACE_AGES]; /* share of a cell spent in rounds of each age */
    double aged_for;                           /* rounds of a cell that ages[] is made for */
    uint32_t cell;                             /* in hand */
    uint32_t oldest_waiting; /* the cell in which the next to get its first token came */
    double last_share;       /* of the newest cell, that the clock let pass */
    double now_s, step_s;
    double waiting; /* for a slot */
    struct stage prefill, import;
    double decoding;
    double in_round;   /* of those; the others wait for the end of a step to be taken in */
    double first_wave; /* requests of it; 0: open */
    double released_pages;
    double fill_bytes_per_s, import_bytes_per_s; /* in the cell before */
    bool counting;
    double cut;                                /* requests that arrived before the warm-up's end */
    double full_come, full_let_in;             /* since somebody has been waiting for a slot */
    struct outside_count outside[OUTSIDE_MAX]; /* [outside_count] */
    uint32_t outside_count;
};

/* The first cohort of which anybody can still decode. */
static inline uint32_t march_oldest(const struct march *march)
{
    uint32_t life = march->env->life_cells;
    return march->cell > life ? march->cell - life : 0;
}

/* Arrivals of the cell; before the first, those that exist at once. ended: whose places in the
 * loop are free. */
double march_arrivals(struct march *march, double dt_s, double ended);
/* From arrival to the first token; returns how many got theirs. ended: their places are free. */
double march_let_in(struct march *march, double come, double ended, double dt_s);
/* Optional history comes and goes; peaks are noted. */
void march_move_pages(struct march *march, double dt_s);
/* How long requests from number `cut` on have waited for their first token, summed over those
 * *served of them that have it. */
double march_waits(const struct march *march, double cut, double *served);
/* Those whose answer ends in this cell; a cell that the clock cuts short ends its share. */
double march_end_cell(struct march *march, double middle_s, double share);
void march_begin_cohort(struct march *march, double served, double middle_s);
/* Requests of a cohort that end, or stand so at the end of the run, after `cells`. */
void march_note_spans(struct march *march, const struct cohort *cohort, double requests,
                      double cells, double now_s, bool completed);

#endif
