/* sweep_transport.h -- processes of one sweep on several machines: the seam to MPI.
 *
 * The program knows nothing of MPI. What does is a shared object of its own (sweep_mpi.c), which is
 * loaded only where it is asked for, so that the program starts where there is no MPI. */
#ifndef KVT_CLI_SWEEP_TRANSPORT_H
#define KVT_CLI_SWEEP_TRANSPORT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum {
    SWEEP_TRANSPORT_ABI = 1
};

/* What the object exports as SWEEP_TRANSPORT_ENTRY. All calls come from one thread. */
struct sweep_transport {
    uint32_t abi; /* SWEEP_TRANSPORT_ABI */
    /* Joins the others; false where that cannot be. */
    bool (*begin)(int *rank, int *rank_count);
    /* A message to a rank; returns once bytes can be used again. */
    bool (*send)(int to, const void *bytes, size_t byte_count);
    /* *bytes: the next message that is here, for free(), with a NUL behind its last byte; NULL
     * where none is. Never waits. */
    bool (*receive)(int *from, char **bytes, size_t *byte_count);
    /* Once no message is under way; waits for the others to call it. */
    void (*end)(void);
    /* Ends all processes at once. Does not return. */
    void (*abandon)(int exit_code);
};

#define SWEEP_TRANSPORT_ENTRY "kvt_sweep_transport"
typedef const struct sweep_transport *sweep_transport_entry(void);

#endif
