/* sweep_team.h -- the ranks of one sweep, and what they say to each other.
 *
 *     rank r to rank 0     want VERSION      for each thread that has nothing to do
 *                          done RUN RECORD   at once when it has ended
 *                          fail TEXT         it cannot go on, and no more is to be expected
 *                          bye               every want was answered, every record is sent
 *     rank 0 to rank r     run RUN HASH      for a want; the hash of the point's scenario
 *                          stop              for a want, once there is nothing left to hand out
 *
 * So whoever is quick gets more, rank 0 alone writes, and what has ended anywhere is in the journal
 * a moment later. */
#ifndef KVT_CLI_SWEEP_TEAM_H
#define KVT_CLI_SWEEP_TEAM_H

#include "../cli.h"
#include "sweep_transport.h"

struct sweep_team {
    const struct sweep_transport *transport; /* NULL: this process is alone */
    int rank, rank_count;
    int gone;            /* ranks that have said bye or fail, to rank 0 */
    bool has_handed_out; /* rank 0: some may be in the middle of a run */
};

enum sweep_verb {
    SWEEP_NOTHING = 0,
    SWEEP_WANT,
    SWEEP_DONE,
    SWEEP_FAIL,
    SWEEP_BYE,
    SWEEP_RUN,
    SWEEP_STOP
};

struct sweep_message {
    enum sweep_verb verb; /* SWEEP_NOTHING: none is here */
    int from;
    size_t run;    /* of done and run */
    uint64_t hash; /* of run */
    char *text;    /* of want, done and fail; free() it */
};

/* Whether a launcher of MPI has started this process as one of several: OMPI_COMM_WORLD_SIZE or
 * PMI_SIZE, as Open MPI and others set them, is above 1. */
bool sweep_team_is_launched(void);

/* Loads what knows MPI and joins the others. KVT_ERR_DEVICE, with the package to install, where
 * there is none. */
KVT_CHECKED kvt_status sweep_team_begin(struct sweep_team *team, struct kvt_error *err);
/* Rank 0, where nothing is run: tells everybody so. Any rank: leaves. Takes a team of one. */
void sweep_team_end(struct sweep_team *team);
/* Ends all ranks at once, whatever they do; returns where all others have gone. */
void sweep_team_abandon(const struct sweep_team *team, int exit_code);

/* The fields of the message that its verb has. */
KVT_CHECKED kvt_status sweep_team_send(const struct sweep_team *team, int to,
                                       const struct sweep_message *message, struct kvt_error *err);
/* The next that is here. A rank that has left is counted. */
KVT_CHECKED kvt_status sweep_team_receive(struct sweep_team *team, struct sweep_message *out,
                                          struct kvt_error *err);

#endif
